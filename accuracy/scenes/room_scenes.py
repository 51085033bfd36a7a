"""A robot that drives through a room, with a camera that looks straight ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accuracy.scenes.compass_scenes import Clip
from accuracy.scenes.panorama_turns import orientation, pinhole
from accuracy.scenes.photographs import as_pixels
from accuracy.scenes.textured_hall import Hall, Pose

FRAME_RATE = 15.0
SECONDS = 12.0
FOV = 75.0
"""Horizontal field of view, deg."""
WIDTH, HEIGHT = 320, 240
NOISE = 2.0
"""Standard deviation of each px, grey levels."""
PERIOD = 7.0
"""Period of the weaving, s."""
STEPS = 8
"""Number of integration steps of the path between two images."""

ROOM = (3.0, 1.3, 6.0)
"""Half of the width, height and depth of a room, m."""
START = (0.0, 0.8, -5.0)
"""Start of the camera, m from the middle of the room: half a metre above the floor."""


@dataclass(frozen=True)
class Drive:
    """A drive through a room, straight ahead or weaving."""

    seed: int
    speed: float = 0.5
    """Speed, m/s; negative: backwards."""
    weave: float = 0.0
    """Largest yaw from the mean course, deg."""
    half: tuple[float, float, float] = ROOM
    start: tuple[float, float, float] = START
    plain: tuple[int, ...] = ()
    """Numbers of the walls without texture, in the order of Hall.walls."""

    def clip(self) -> Clip:
        """Render the images; the robot always moves along its optical axis."""
        random = np.random.default_rng(self.seed)
        camera, hall = pinhole(WIDTH, HEIGHT, FOV), Hall.drawn(self.half, random, self.plain)
        phase = random.uniform(0.0, 2.0 * math.pi)
        times = np.arange(round(SECONDS * FRAME_RATE)) / FRAME_RATE
        position, images = np.array(self.start), []
        for time in times:
            coarse = hall.picture(camera, Pose(position, orientation(self._yaw(time, phase), 0.0)))
            images.append(as_pixels(coarse + random.normal(0.0, NOISE, coarse.shape)))
            for step in range(STEPS):
                moment = time + (step + 0.5) / (STEPS * FRAME_RATE)
                ahead = orientation(self._yaw(moment, phase), 0.0)[:, 2]
                position = position + ahead * self.speed / (STEPS * FRAME_RATE)
        yaw = np.array([self._yaw(time, phase) for time in times])
        return Clip(camera, tuple(times.tolist()), tuple((yaw - yaw[0]).tolist()), tuple(images))

    def _yaw(self, time: float, phase: float) -> float:
        return self.weave * math.sin(2.0 * math.pi * time / PERIOD + phase)
