"""What people see on debug images: marks and text drawn onto an RGB picture."""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np

from edgetpu_perception.images import Pixels, to_rgb

FOUND = (80, 220, 80)
LOST = (230, 60, 60)
FAINT = (255, 200, 0)


def canvas(image: Pixels) -> Pixels:
    """Copy an image, [H, W] or [H, W, 3] RGB, as RGB to draw on."""
    rgb = to_rgb(image)
    return rgb.copy() if rgb is image else rgb


def to_pixels(image: Pixels, x: float, y: float) -> tuple[float, float]:
    """Position of normalised coordinates (-1..1 from first to last pixel) in px."""
    return (x + 1) * (image.shape[1] - 1) / 2, (y + 1) * (image.shape[0] - 1) / 2


def crosshair(image: Pixels, u: float, v: float, color: tuple[int, int, int]) -> None:
    """Draw a cross as large as the image through pixel (u, v), open in the middle."""
    height, width = image.shape[:2]
    column, row = round(u), round(v)
    gap = max(min(height, width) // 24, 2)
    for start, end in (
        ((0, row), (column - gap, row)),
        ((column + gap, row), (width - 1, row)),
        ((column, 0), (column, row - gap)),
        ((column, row + gap), (column, height - 1)),
    ):
        if start <= end:
            cv2.line(image, start, end, color, 1)
    cv2.circle(image, (column, row), gap, color, 1, cv2.LINE_AA)


def trail(image: Pixels, points: Iterable[tuple[float, float]], color: tuple[int, int, int]) -> None:
    """Join points, px, with a line."""
    line = np.rint(np.array(list(points), np.float64)).astype(np.int32).reshape(-1, 1, 2)
    cv2.polylines(image, [line], False, color, 1, cv2.LINE_AA)


def caption(image: Pixels, text: str, color: tuple[int, int, int]) -> None:
    """Write a line of text into the lower left corner, on black."""
    scale = max(image.shape[1] / 640, 0.35)
    (width, height), below = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    bottom = image.shape[0] - 1
    cv2.rectangle(image, (0, bottom - height - below - 2), (width + 4, bottom), (0, 0, 0), cv2.FILLED)
    cv2.putText(image, text, (2, bottom - below), cv2.FONT_HERSHEY_SIMPLEX, scale, color, 1, cv2.LINE_AA)
