"""Marks and text drawn onto an RGB picture."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import ImageError, Pixels, to_rgb
from edgetpu_driver.images.region import Region

FOUND = (80, 220, 80)
"""Green, for valid results; RGB like all colours here. A choice of taste."""

LOST = (230, 60, 60)
"""Red, for results that are not valid and for warnings. A choice of taste."""

FAINT = (255, 200, 0)
"""Amber, for secondary marks. A choice of taste."""

FARTHEST = 2**15
"""Largest distance of a mark from the image's corner, px: OpenCV does not take numbers of any size."""


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
    """Join points in px with a line."""
    line = np.rint(np.array(list(points), np.float64)).astype(np.int32).reshape(-1, 1, 2)
    cv2.polylines(image, [line], False, color, 1, cv2.LINE_AA)


def zones(image: Pixels, energies: Sequence[float], color: tuple[int, int, int]) -> None:
    """Draw a 3 x 3 grid with the energy of each zone, row by row, as a bar at the bottom of its zone."""
    height, width = image.shape[:2]
    columns, rows = ([round(k * size / 3) for k in range(4)] for size in (width, height))
    most = max((energy for energy in energies if math.isfinite(energy)), default=0.0)
    for zone, energy in enumerate(energies):
        row, column = divmod(zone, 3)
        left, right, top, bottom = columns[column], columns[column + 1], rows[row], rows[row + 1]
        cv2.rectangle(image, (left, top), (right - 1, bottom - 1), color, 1)
        if most > 0 and math.isfinite(energy):
            length = round((right - left - 5) * energy / most)
            cv2.line(image, (left + 2, bottom - 4), (left + 2 + length, bottom - 4), color, 3)


def arrow(image: Pixels, dx: float, dy: float, color: tuple[int, int, int]) -> None:
    """Draw a shift in px as an arrow from the middle of the image, magnified at least eight times."""
    height, width = image.shape[:2]
    magnification = max(min(height, width) / 80, 8.0)
    start = (width // 2, height // 2)
    end = (round(start[0] + magnification * dx), round(start[1] + magnification * dy))
    cv2.arrowedLine(image, start, end, color, 2, cv2.LINE_AA, tipLength=0.2)


def inset(image: Pixels, values: NDArray[np.floating[Any]]) -> None:
    """Show values [rows, columns] in the upper right corner, the lowest black and the highest white."""
    low, high = float(values.min()), float(values.max())
    grey = ((values - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)
    size = max(min(image.shape[:2]) // 3, 1)
    corner = image[:size, -size:]
    corner[:] = to_rgb(cv2.resize(grey, corner.shape[1::-1], interpolation=cv2.INTER_NEAREST))
    cv2.rectangle(image, (image.shape[1] - size, 0), (image.shape[1] - 1, size - 1), FAINT, 1)


def dial(image: Pixels, yaw: float, color: tuple[int, int, int]) -> None:
    """Draw a compass dial into the upper right corner: the needle points up at yaw 0, left at pi / 2."""
    radius = max(min(image.shape[:2]) // 6, 3)
    center = (image.shape[1] - radius - 2, radius + 1)
    cv2.circle(image, center, radius, (0, 0, 0), cv2.FILLED)
    cv2.circle(image, center, radius, FAINT, 1, cv2.LINE_AA)
    tip = (round(center[0] - radius * math.sin(yaw)), round(center[1] - radius * math.cos(yaw)))
    cv2.arrowedLine(image, center, tip, color, 1, cv2.LINE_AA, tipLength=0.3)


def box(
    image: Pixels,
    center: tuple[float, float],
    size: tuple[float, float],
    color: tuple[int, int, int],
    angle: float = 0.0,
) -> None:
    """Draw a rectangle around a centre; size: width and height, px; angle: from x to y, rad."""
    (u, v), (width, height) = center, size
    if angle:
        corners = cv2.boxPoints((center, size, math.degrees(angle)))
        within = np.clip(np.rint(corners), -FARTHEST, FARTHEST).astype(np.int32)
        cv2.polylines(image, [within], True, color, 1)
        return
    ends = [(round(u + sign * width / 2), round(v + sign * height / 2)) for sign in (-1, 1)]
    cv2.rectangle(image, ends[0], ends[1], color, 1)


def with_region(image: Pixels, region: Region) -> Pixels:
    """Outline a region of an RGB picture, in place, unless it is the whole picture or exceeds it."""
    height, width = image.shape[:2]
    try:
        x, y, columns, rows = region.within(width, height)
    except ImageError:  # the region was set for another image size after this image came
        return image
    if (columns, rows) != (width, height):
        cv2.rectangle(image, (x, y), (x + columns - 1, y + rows - 1), FAINT, 1)
    return image


def caption(image: Pixels, text: str, color: tuple[int, int, int]) -> None:
    """Write lines of text on black into the lower left corner; the last ones are left out if not all fit."""
    scale = max(image.shape[1] / 640, 0.35)
    height, below = _line_height(scale)
    bottom, most = image.shape[0] - 1, max(image.shape[0] // (height + below + 2), 1)
    for each in text.split("\n")[:most][::-1]:
        line = _shortened(each, scale, image.shape[1] - 4)
        (width, _), _ = cv2.getTextSize(line, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
        top = bottom - height - below - 2
        cv2.rectangle(image, (0, top), (width + 4, bottom), (0, 0, 0), cv2.FILLED)
        origin = 2, bottom - below
        cv2.putText(image, line, origin, cv2.FONT_HERSHEY_SIMPLEX, scale, color, 1, cv2.LINE_AA)
        bottom = top


def tag(image: Pixels, x: float, y: float, text: str, color: tuple[int, int, int]) -> None:
    """Write a short text, black on a colour, above (x, y) in px, or below it if there is no room above."""
    scale = max(image.shape[1] / 900, 0.35)
    text = _shortened(text, scale, image.shape[1] - 2)
    (width, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    height, below = _line_height(scale)
    tall = height + below + 2
    left = min(max(round(x), 0), max(image.shape[1] - width - 2, 0))
    bottom = round(y) if y >= tall else round(y) + tall
    cv2.rectangle(image, (left, bottom - tall), (left + width + 2, bottom), color, cv2.FILLED)
    origin = left + 1, bottom - below
    cv2.putText(image, text, origin, cv2.FONT_HERSHEY_SIMPLEX, scale, (0, 0, 0), 1, cv2.LINE_AA)


@functools.cache
def _line_height(scale: float) -> tuple[int, int]:
    """Height of a line of text above and below its base line, px."""
    # OpenCV 5 measures the letters of a text, and OpenCV 4 the tallest and the deepest of its font.
    (_, height), below = cv2.getTextSize("Ag", cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    return height, below


def _shortened(text: str, scale: float, most: int) -> str:
    """Cut a text to a width in px; two dots stand for a missing end."""

    def fits(shown: str) -> bool:
        return bool(cv2.getTextSize(shown, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)[0][0] <= most)

    if fits(text):
        return text
    length = next((each for each in range(len(text) - 1, 0, -1) if fits(text[:each] + "..")), 0)
    return text[:length].rstrip() + ".."
