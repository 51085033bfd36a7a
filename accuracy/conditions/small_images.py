"""Accuracy of optical flow in images smaller than the model's input, which have to be enlarged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from accuracy.conditions.moving_objects import flow_errors
from accuracy.scenes.flow_scenes import Frame, Pair, Photograph, interpolated, photograph
from accuracy.scenes.photographs import TEXTURED, as_pixels
from edgetpu_perception.optical_flow.optical_flow import OpticalFlow
from measured_figures.row import Row

SIDES = (40, 32, 24, 20, 16)
"""Sides of the images, px."""

NOISE = 2.0
"""Standard deviation of each px, grey levels."""

FARTHEST = 0.15
"""Largest shift along an axis, as a share of the side."""


def pairs(side: int, count: int) -> Iterator[Pair]:
    """`count` pairs of each photograph; an image shows half of its width."""
    random = np.random.default_rng(5)
    for name in TEXTURED:
        photo = photograph(name)
        for _ in range(count):
            dx, dy = random.uniform(-FARTHEST, FARTHEST, 2) * side
            x, y = random.uniform(-0.3, 0.3, 2) * side
            first, second = (
                as_pixels(window + random.normal(0, NOISE, window.shape))
                for window in (_window(photo, x, y, side), _window(photo, x - dx, y - dy, side))
            )
            yield Pair(first, second, float(dx), float(dy), name)


def _window(photo: Photograph, x: float, y: float, side: int) -> Frame:
    """Image around a point (x, y) px off the middle, each px the mean over its area: [side, side]."""
    texels = len(photo.sums) - 1
    pitch = texels / (2 * side)
    edges = texels / 2 + (np.arange(side + 1) - side / 2) * pitch
    corners = interpolated(interpolated(photo.sums, edges + y * pitch).T, edges + x * pitch).T
    return np.diff(np.diff(corners, axis=0), axis=1) / pitch**2


def measure(flow: OpticalFlow, quick: bool, sides: Sequence[int] = SIDES, label: str = "") -> list[Row]:
    """Rows for each side; those of 16 px have no limits. `label`: appended to each case."""
    rows = []
    for side in sides:
        errors, sigmas = flow_errors(flow, pairs(side, 3 if quick else 12))
        valid = np.isfinite(errors[:, 0])
        rms = math.sqrt(float(np.mean(np.square(errors[valid]))))
        inside = 100.0 * float(np.mean(np.abs(errors[valid]) < sigmas[valid]))
        case, counts = f"images of {side}x{side} px{label}", side > SIDES[-1]
        # The limit asks for 55 to 80 %: a sigma that is too large is wrong as well.
        limit = 12.5 if counts and not quick else None
        rows += [
            Row("flow", case, "valid", 100.0 * float(np.mean(valid)), "%", None, "higher"),
            Row("flow", case, "rms", rms, "px", None, "lower"),
            Row("flow", case, "|inside one sigma - 67.5|", abs(inside - 67.5), "%", limit, "lower"),
        ]
    return rows
