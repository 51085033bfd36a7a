"""A disc whose outline is fitted again in the camera's pixels, which are finer than cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.spot_tracker.circle_fit import MIN_OUTLINE_POINTS, FittedCircle, fit_circle
from edgetpu_perception.spot_tracker.shaded_disc import ShadedDisc, find_shaded_disc, outline_of
from edgetpu_perception.spot_tracker.spot_decoder import CameraPixels

SEARCHED_CELLS = 64
"""Cells along the shorter side of the map in which a disc is looked for; a finer map is made coarser. The
radii, steps and distances of the search suit discs that fill a share of the picture, not a number of cells:
in finer maps texture has more small arcs, and the votes for a large disc scatter over more cells. Rows: spot,
white ball of real colour, input of 128 px, wrong."""

SAMPLES_PER_CELL = 2.0
"""Samples along the shorter side of a cell; few, so that texture stays averaged. Rows: spot, white ball,
wrong."""

MAX_DISTANCES_SAMPLES = (2.0, 1.4)
"""Largest distance in samples of an outline point from the circle in each of the successive fits.

Derived: those of the last two fits in cells, at SAMPLES_PER_CELL.
"""

MIN_ARC_SHARE = 0.5
"""Share of the circle that the finer outline must cover. Derived: half."""

MAX_MOVE_CELLS = 2.0
"""Farthest that the finer circle may be from the disc. Derived: the largest distance of its points."""


def find_fine_disc(
    grey: NDArray[np.uint8],
    cell: tuple[float, float],
    camera: CameraPixels | None,
    amount: Callable[[NDArray[np.uint8]], NDArray[np.uint8]],
) -> ShadedDisc | None:
    """Find a shaded disc in cells and place it by the camera's pixels, if these are fine enough.

    `grey`: uint8 [H, W]; `cell`: width and height of a cell, px; `camera`: gives the pixels; `amount`:
    converts them to grey levels.
    """
    cells = max(min(grey.shape) / SEARCHED_CELLS, 1.0)  # along a side of a coarser one
    if cells == 1.0:
        return _find(grey, cell, camera, amount)
    rows, columns = (round(size / cells) for size in grey.shape)
    x_cells, y_cells = grey.shape[1] / columns, grey.shape[0] / rows
    coarse = cv2.resize(grey, (columns, rows), interpolation=cv2.INTER_AREA).astype(np.uint8)
    disc = _find(coarse, (cell[0] * x_cells, cell[1] * y_cells), camera, amount)
    if disc is None:
        return None
    return replace(
        disc,
        x=(disc.x + 0.5) * x_cells - 0.5,
        y=(disc.y + 0.5) * y_cells - 0.5,
        x_sigma=disc.x_sigma * x_cells,
        y_sigma=disc.y_sigma * y_cells,
        radius=disc.radius * min(x_cells, y_cells),
    )


def _find(
    grey: NDArray[np.uint8],
    cell: tuple[float, float],
    camera: CameraPixels | None,
    amount: Callable[[NDArray[np.uint8]], NDArray[np.uint8]],
) -> ShadedDisc | None:
    """`find_fine_disc` in a map that is coarse enough."""
    disc = find_shaded_disc(grey, cell[0] / cell[1])
    if disc is None or camera is None or min(cell) < SAMPLES_PER_CELL:
        return disc
    pixels, (width, height) = camera(), cell
    sample = min(cell) / SAMPLES_PER_CELL
    x, y, radius = (disc.x + 0.5) * width, (disc.y + 0.5) * height, disc.radius * max(cell)
    reach = radius + 2.0 * max(cell)
    left, top = max(int(x - reach), 0), max(int(y - reach), 0)
    part = amount(np.ascontiguousarray(pixels[top : int(y + reach) + 1, left : int(x + reach) + 1]))
    rows, columns = (max(round(size / sample), 4) for size in part.shape)
    x_sample, y_sample = part.shape[1] / columns, part.shape[0] / rows
    start = (x - left) / x_sample - 0.5, (y - top) / y_sample - 0.5, radius / sample
    circle = _circle(cv2.resize(part, (columns, rows), interpolation=cv2.INTER_AREA).astype(np.uint8), start)
    if circle is None:
        return disc
    fine_x = (left + (circle.x + 0.5) * x_sample) / width - 0.5
    fine_y = (top + (circle.y + 0.5) * y_sample) / height - 0.5
    if math.dist((fine_x, fine_y), (disc.x, disc.y)) > MAX_MOVE_CELLS:
        return disc
    return replace(disc, x=fine_x, y=fine_y)


def _circle(fine: NDArray[np.uint8], start: tuple[float, float, float]) -> FittedCircle | None:
    """The circle fitted to the outline of the square samples; None if too little of it is visible."""
    outline = outline_of(fine, np.ones(2))
    if outline.values.shape[1] < MIN_OUTLINE_POINTS:
        return None
    circle = fit_circle(outline, start, MAX_DISTANCES_SAMPLES, MIN_ARC_SHARE)
    return circle if circle is not None and circle.covered_share >= MIN_ARC_SHARE else None
