"""Accuracy of optical flow before walls whose texture repeats: results must not be a period off."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.conditions.moving_objects import FINE, HEIGHT, WIDTH
from accuracy.scenes.photographs import as_pixels
from edgetpu_perception.optical_flow.optical_flow import OpticalFlow
from measured_figures.row import Row

MARGIN = 130
"""Width of the wall beyond each edge of the first picture, px."""

FRAMES = 12
"""Number of pictures of each wall."""

REACH = 60.0
"""Amplitude of the camera's swing along each axis, px."""

PACES = (0.2, 0.35)
"""Range of the phase steps of the swing between two pictures, rad: up to 12 to 21 px of motion."""

Texels = NDArray[np.float32]


@dataclass(frozen=True)
class Wall:
    """A wall of bricks or, without `bond`, of tiles, with light joints."""

    width: float
    """Width of a brick, px."""
    height: float
    bond: bool = False
    """Whether every second row is offset by half a brick."""
    uneven: float = 0.0
    """Standard deviation of the bricks' grey levels."""

    @property
    def period(self) -> float:
        """Smallest distance at which the wall repeats, px."""
        return min(self.width, math.hypot(self.width / 2, self.height) if self.bond else self.height)

    def texels(self, random: np.random.Generator) -> Texels:
        """Grey levels of the wall, with FINE x FINE texels per px: [rows, columns]."""
        shape = (HEIGHT + 2 * MARGIN) * FINE, (WIDTH + 2 * MARGIN) * FINE
        y, x = (axis.astype(np.float32) / FINE for axis in np.mgrid[: shape[0], : shape[1]])
        rows = np.floor(y / self.height).astype(int)
        if self.bond:
            x = x + (rows % 2) * self.width / 2
        columns = np.floor(x / self.width).astype(int)
        joint = (x % self.width < 0.1 * self.width) | (y % self.height < 0.1 * self.height)
        grey = random.normal(110, self.uneven, (rows.max() + 1, columns.max() + 1))[rows, columns]
        wall: Texels = np.where(joint, 170, grey).astype(np.float32)
        return wall


EQUAL = (Wall(37, 37), Wall(60, 60), Wall(95, 95), Wall(33, 24), Wall(60, 22, True), Wall(90, 30, True))
UNEVEN = tuple(Wall(wall.width, wall.height, wall.bond, uneven=10.0) for wall in EQUAL)


def measure(flow: OpticalFlow, quick: bool) -> list[Row]:
    """Rows of the walls."""
    rows = []
    for case, walls, poster, reach in (
        ("tiles and brick, all equal", EQUAL, 0.0, None),
        ("tiles and brick, all equal, with a poster of 12 % of the area", EQUAL, 0.12, 95.0),
        ("tiles and brick that differ by 10 grey levels", UNEVEN, 0.0, 95.0),
    ):
        results: list[tuple[float, float, float]] = []
        for seed in range(1 if quick else 4):
            for wall in walls:
                results += _errors(flow, wall, poster, seed)
        away, periods, inside = np.array(results).T
        valid = np.isfinite(away)
        wrong = 100.0 * float(np.mean(away > periods / 2))
        rows.append(Row("flow", case, "half a period off", wrong, "%", 1.0, "lower"))
        rows.append(Row("flow", case, "valid", 100.0 * float(np.mean(valid)), "%", reach, "higher"))
        if valid.any():
            covered = 100.0 * float(np.mean(inside[valid]))
            rows.append(Row("flow", case, "median", float(np.median(away[valid])), "px", None, "lower"))
            rows.append(Row("flow", case, "inside one sigma", covered, "%", None, "higher"))
    return rows


def _errors(flow: OpticalFlow, wall: Wall, poster: float, seed: int) -> Iterator[tuple[float, float, float]]:
    """Error of each pair, px, or NaN; the wall's period, px; and the share of axes inside one sigma."""
    flow.reset()
    last = None
    for k, (picture, x, y) in enumerate(_drive(wall, poster, seed)):
        result = flow.update(picture, 0.1 * k)
        if last is not None:
            errors = result.dx - (x - last[0]), result.dy - (y - last[1])
            inside = (abs(errors[0]) <= result.dx_sigma) + (abs(errors[1]) <= result.dy_sigma)
            yield math.hypot(*errors), wall.period, inside / 2
        last = x, y


def _drive(wall: Wall, poster: float, seed: int) -> Iterator[tuple[NDArray[np.uint8], float, float]]:
    """Pictures of a wall before a camera that swings along each axis, and their motion since the first, px.

    `poster`: share of the first picture that a poster on the wall covers. The noise has 2 grey levels.
    """
    random = np.random.default_rng(seed)
    texels = wall.texels(random)
    if poster:
        side = round(math.sqrt(poster * WIDTH * HEIGHT) * FINE)
        top, left = (texels.shape[0] - side) // 2, (texels.shape[1] - side) // 2
        print_ = cv2.GaussianBlur(random.normal(0, 1, (side, side)).astype(np.float32), (0, 0), 5.0 * FINE)
        texels[top : top + side, left : left + side] = 128 + 40 * print_ / print_.std()
    pace, phase = random.uniform(*PACES, 2), random.uniform(0.0, 2.0 * math.pi, 2)
    for k in range(FRAMES):
        x, y = (REACH * (np.sin(pace * k + phase) - np.sin(phase))).tolist()
        moves = np.array([[1.0, 0.0, FINE * (x - MARGIN)], [0.0, 1.0, FINE * (y - MARGIN)]])
        view = cv2.warpAffine(texels, moves, (WIDTH * FINE, HEIGHT * FINE), flags=cv2.INTER_CUBIC)
        picture = cv2.resize(view, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        yield as_pixels(picture + random.normal(0, 2, picture.shape)), x, y
