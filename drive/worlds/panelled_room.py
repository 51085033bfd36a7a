"""A room to measure accuracy in: a wall of textured panels with a poster ahead, a ball, and furniture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive.worlds.robot_world import FOCAL_LENGTH, Box

PANEL = 2.5
"""Width and height of a panel, m: a square, so that its texture is not stretched."""
PANELS = 3
"""Number of panels side by side, which together are wider than the camera's view."""
THICKNESS = 0.002
"""Half the thickness of panels and of the poster, m; small, so that the poster is as far away as the wall."""
WALL_DISTANCE, LARGEST_SLANT = (4.2, 4.8), math.radians(15)
"""Range of the wall's distance from the start along the camera's axis, m, and largest slant, rad. Looming
allows 40 degrees."""
POSTER_ASIDE, POSTER_SIZE = 0.45, (90.0, 68.0)
"""Distance of the poster from the axis, m; its width and height in the camera's first image, px, a little
more than the template's."""
BALL_RADIUS, BALL_DISTANCE, BALL_ASIDE = 0.12, (3.2, 3.8), (0.65, 0.85)
"""Radius of the ball, and ranges of its position ahead and to the side, m. The ball lies on the floor, below
the part of the image that shows only the wall."""
RED = 0.85, 0.05, 0.05
POSTER_HEIGHT = 0.75
"""Height of the middle of the poster above the floor, m."""


@dataclass(frozen=True)
class PanelledRoom:
    """The objects in the room."""

    boxes: tuple[Box, ...]
    ball: int
    """Index of the box that is the ball."""
    poster: tuple[float, float, float]
    """Middle of the poster's surface, m."""


def make_room(seed: int) -> PanelledRoom:
    """Return the room of a seed, for a robot that starts at (0, 0) and faces +x."""
    random = np.random.default_rng(seed)
    slant = random.uniform(-LARGEST_SLANT, LARGEST_SLANT)
    distance = random.uniform(*WALL_DISTANCE)
    side = random.choice((-1.0, 1.0))
    along = np.array([-math.sin(slant), math.cos(slant)])
    into = np.array([math.cos(slant), math.sin(slant)])
    middle = np.array([distance, 0.0])

    def flat(centre: NDArray[np.float64], width: float, height: float, bottom: float) -> Box:
        return Box(centre[0], centre[1], slant, THICKNESS, width / 2, height, bottom=bottom)

    panels = [
        flat(middle + (number - (PANELS - 1) / 2) * PANEL * along + THICKNESS * into, PANEL, PANEL, 0.0)
        for number in range(PANELS)
    ]
    center = middle + side * POSTER_ASIDE / math.cos(slant) * along
    width, height = (size * center[0] / FOCAL_LENGTH for size in POSTER_SIZE)
    poster = flat(center, width / math.cos(slant), height, POSTER_HEIGHT - height / 2)
    ball = Box(
        random.uniform(*BALL_DISTANCE),
        -side * random.uniform(*BALL_ASIDE),
        0.0,
        BALL_RADIUS,
        BALL_RADIUS,
        2 * BALL_RADIUS,
        color=RED,
        ball=True,
    )
    furniture = [
        Box(4 * math.cos(a), 4 * math.sin(a), a, 0.3, 0.5, random.uniform(0.8, 2.2))
        for a in random.uniform(0.35 * math.pi, 1.65 * math.pi, 5)
    ]
    return PanelledRoom((ball, poster, *panels, *furniture), 0, (*(center - THICKNESS * into), POSTER_HEIGHT))
