"""Synthetic pictures as functions of time: noise, checkerboard, rotating, panning and wandering_dot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from edgetpu_dashboard.camera.source import Pixels

PANNING_SPEED = 600.0
"""Speed of the stripes to the left, px/s in pictures 640 px wide, proportional to the width in others: 2 px
per picture at 64 px and 30 Hz."""
CHECKER_SPEED = (60.0, 30.0)
"""Speed of the checkerboard to the right and down, px/s in pictures 640 px wide."""
SQUARES = 16
"""Number of squares of the checkerboard along the width."""
ROTATION = math.radians(45.0)
"""Angular velocity of the radial lines, rad/s, clockwise in the picture."""
RAYS = 12
"""Number of bright lines around the centre."""
DOT_PERIODS = (8.0, 5.0)
"""Periods of the dot along x and y, s."""
DOT_REACH = 0.35
"""Amplitude of the dot, as a share of the width and of the height."""
DOT_SIGMA = 0.03
"""Standard deviation of the dot's brightness, as a share of the width."""

DEFAULT_SIZE = (640, 480)

_REFERENCE_WIDTH = 640.0


def dot_position(width: int, height: int, seconds: float) -> tuple[float, float]:
    """Return the centre of the wandering dot, px; the centre of the top left pixel is (0, 0)."""
    x, y = (math.sin(2 * math.pi * seconds / period) for period in DOT_PERIODS)
    return (width - 1) / 2 + DOT_REACH * width * x, (height - 1) / 2 + DOT_REACH * height * y


def noise(width: int, height: int, seconds: float) -> Pixels:
    """Return random colours, different at every time."""
    seed = round(abs(seconds) * 1e6)
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def checkerboard(width: int, height: int, seconds: float) -> Pixels:
    """Return a checkerboard that drifts by CHECKER_SPEED."""
    scale = width / _REFERENCE_WIDTH
    x, y = np.arange(width), np.arange(height)
    square = width / SQUARES
    columns = _edges((x - CHECKER_SPEED[0] * scale * seconds) / square, square)
    rows = _edges((y - CHECKER_SPEED[1] * scale * seconds) / square, square)
    return _grey(127.5 + 100.0 * np.outer(rows, columns))


def rotating(width: int, height: int, seconds: float) -> Pixels:
    """Return radial lines that rotate about the centre."""
    turned = np.float32(math.fmod(ROTATION * seconds, math.tau))
    return _grey(127.5 + 100.0 * np.sin(RAYS * (_angles(width, height) - turned)))


def panning(width: int, height: int, seconds: float) -> Pixels:
    """Return upright stripes of many widths that move to the left by PANNING_SPEED."""
    stripes = _stripes()
    shift = PANNING_SPEED * width / _REFERENCE_WIDTH * seconds
    at = (np.arange(width) + shift) * (_REFERENCE_WIDTH / width)
    row = np.interp(at, np.arange(len(stripes)), stripes, period=len(stripes))
    return _grey(np.broadcast_to(row, (height, width)))


def wandering_dot(width: int, height: int, seconds: float) -> Pixels:
    """Return a bright dot on a dark ground that moves along a Lissajous curve."""
    x, y = dot_position(width, height, seconds)
    sigma = DOT_SIGMA * width
    columns = np.exp(-0.5 * ((np.arange(width) - x) / sigma) ** 2)
    rows = np.exp(-0.5 * ((np.arange(height) - y) / sigma) ** 2)
    return _grey(20.0 + 230.0 * np.outer(rows, columns))


PATTERNS: Mapping[str, Callable[[int, int, float], Pixels]] = {
    "noise": noise,
    "checkerboard": checkerboard,
    "rotating": rotating,
    "panning": panning,
    "wandering_dot": wandering_dot,
}
"""By name: functions of width and height, px, and time, s, that return uint8 [H, W, 3] RGB."""


class PatternSource:
    """One of PATTERNS as pictures of a camera."""

    waits = False

    def __init__(self, name: str, width: int, height: int) -> None:
        self._pattern = PATTERNS[name]
        self._size = width, height

    def read(self, seconds: float) -> Pixels:
        """Return the pattern at this time."""
        return self._pattern(*self._size, seconds)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _grey(values: npt.NDArray[np.floating]) -> Pixels:
    grey = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return np.asarray(cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB), np.uint8)


def _edges(phase: npt.NDArray[np.floating], square: float) -> npt.NDArray[np.float64]:
    """+1 and -1 alternating, each for a phase of 1; edges are a pixel wide, so that they move smoothly."""
    within = np.mod(phase, 2.0)
    distance = np.minimum(np.minimum(within, 2.0 - within), np.abs(within - 1.0)) * square
    return np.asarray(np.where(within < 1.0, 1.0, -1.0) * np.minimum(distance * 2.0, 1.0), np.float64)


@lru_cache(maxsize=1)  # pictures have one size, which parameters can change
def _angles(width: int, height: int) -> npt.NDArray[np.float32]:
    x = np.arange(width, dtype=np.float32) - np.float32((width - 1) / 2)
    y = np.arange(height, dtype=np.float32) - np.float32((height - 1) / 2)
    return np.asarray(np.arctan2(y[:, None], x[None, :]), np.float32)


@cache
def _stripes() -> npt.NDArray[np.float64]:
    """Grey levels along x; smooth noise of two scales, 8 pictures long, so that a shift is unambiguous."""
    random = np.random.default_rng(5)
    length = int(8 * _REFERENCE_WIDTH)
    total = np.full(length, 127.5)
    for cell, contrast in ((80, 45.0), (24, 35.0)):
        knots = random.choice([-contrast, contrast], length // cell)
        total += np.interp(np.arange(length) / cell, np.arange(len(knots)), knots, period=len(knots))
    return total
