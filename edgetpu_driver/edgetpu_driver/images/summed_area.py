"""Exact sums over the cells of a grid on a grey image, by the image's summed-area table."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

STRIP_SUMS = 320_000
"""Largest number of sums in a strip of the image. Strips are processed one by one, so that the sums of each
stay in the cache.

Limits the time: 640x480 px are one strip, and an image of 1920x1080 px takes half as long as in one strip.
"""


class _Strip(NamedTuple):
    """Some rows of cells of an image."""

    height: int
    """Size of the image, px."""
    width: int
    rows: int
    """Size of the grid, cells."""
    columns: int
    first: int
    """The strip has the rows of cells from `first` to before `last`."""
    last: int


class _Corners(NamedTuple):
    """Sums that are read from the table for the corners of a strip's cells."""

    indices: NDArray[np.intp]
    """Their indices in the table of the strip, [rows + 1, columns + 1]."""
    weights: NDArray[np.int32] | None
    """How often each sum counts, of the same shape; None: once."""


def cell_sums(image: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.int32]:
    """Sums over the cells of a grid, int32 [rows, columns], of a grey image, uint8 [H, W].

    The sums count parts of px: with H / rows = p / q in lowest terms, a px has q parts along its height, and
    likewise along its width. The largest sum must be below 2**31.
    """
    height, width = image.shape
    step = max(STRIP_SUMS // width * rows // height, 1)
    strips = [
        _Strip(height, width, rows, columns, first, min(first + step, rows)) for first in range(0, rows, step)
    ]
    sums = [_sums_of(image, strip) for strip in strips]
    return sums[0] if len(sums) == 1 else np.concatenate(sums)


def _sums_of(image: NDArray[np.uint8], strip: _Strip) -> NDArray[np.int32]:
    """The sums over the cells of a strip, [rows, columns].

    A sum over a rectangle is the second difference of the table at its corners. Where the table wraps around,
    so does the difference.
    """
    begin, end = strip.first * strip.height // strip.rows, -(-strip.last * strip.height // strip.rows)
    sums = cv2.integral(image[begin:end], sdepth=cv2.CV_32S).ravel()
    first, *others = _corners(strip)
    grid = _read(sums, first)
    for corners in others:
        grid += _read(sums, corners)
    grid = grid[1:] - grid[:-1]
    return grid[:, 1:] - grid[:, :-1]


def _read(sums: NDArray[Any], corners: _Corners) -> NDArray[np.int32]:
    values: NDArray[np.int32] = sums.take(corners.indices)
    if corners.weights is not None:
        values *= corners.weights
    return values


@functools.lru_cache(maxsize=16)
def _corners(strip: _Strip) -> tuple[_Corners, ...]:
    """The sums that add up to those at the corners of a strip's cells, in parts of px."""
    row_edges = _edges(strip.height, strip.rows, strip.first, strip.last)
    column_edges = _edges(strip.width, strip.columns, 0, strip.columns)
    corners = []
    for (row, row_weight), (column, column_weight) in itertools.product(row_edges, column_edges):
        weights = np.outer(row_weight, column_weight).astype(np.int32)
        indices = row[:, np.newaxis] * (strip.width + 1) + column
        corners.append(_Corners(indices, None if np.all(weights == 1) else weights))
    return tuple(corners)


def _edges(size: int, cells: int, first: int, last: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Where along an axis the table is read for the edges of the cells from `first` to before `last`.

    `size` px are divided evenly among `cells` cells. Returns positions in px, relative to the first px of
    the first cell, each with the weight of its sums in parts of a px: edges within a px are interpolated.
    """
    common = math.gcd(size, cells)
    parts = cells // common
    px, after = np.divmod(np.arange(first, last + 1) * (size // common), parts)
    px -= first * size // cells
    once = np.ones_like(px)
    if parts == 1:
        return [(px, once)]
    if parts == 2:  # the same as below with fewer products
        return [(px, once), (px + after, once)]
    return [(px, parts - after), (px + (after > 0), after)]
