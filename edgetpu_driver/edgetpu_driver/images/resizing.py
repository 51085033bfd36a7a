"""Resize camera images to model inputs by averaging over the area of each new pixel."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.images.summed_area import cell_sums

MAX_COLOR_CELLS_PER_BLOCK = 8, 8
"""Largest numbers of new rows and columns per block of old ones at which an RGB image is resized by summing
rows, then columns.

Up to here the sums take a fifth to four fifths of the time of INTER_AREA. 1080 rows resized to 64 have 8 new
rows per block. Limits the time.
"""

MAX_GREY_CELLS_PER_BLOCK = 2, 4
"""The same for a grey image; above these numbers its summed-area table is used.

The table of 640x480 px takes 1.2 MB, which displaces the data of the next steps from the cache. Limits the
time.
"""

MAX_GREY = 255
"""Largest value of a pixel. Given by uint8."""


def resize(image: Pixels, height: int, width: int) -> Pixels:
    """Resize uint8 [H, W] or [H, W, 3] by averages over the area of each new pixel, rounded to nearest even.

    Along an axis on which the image grows, it is interpolated linearly. New pixel c of n covers the old ones
    from c * W / n to (c + 1) * W / n; its centre is at old pixel (c + 0.5) * W / n - 0.5.
    """
    rows, columns = image.shape[:2]
    if (rows, columns) == (height, width):
        return image
    if rows < height or columns < width:
        # Interpolation alone would skip pixels along the axis that shrinks.
        image = resize(image, min(rows, height), min(columns, width))
        enlarged: Pixels = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
        return enlarged
    row_block, column_block = rows // math.gcd(rows, height), columns // math.gcd(columns, width)
    is_grey = image.ndim == 2
    most_rows, most_columns = MAX_GREY_CELLS_PER_BLOCK if is_grey else MAX_COLOR_CELLS_PER_BLOCK
    if height * row_block <= most_rows * rows and width * column_block <= most_columns * columns:
        means = _means_of_blocks(image, height, width)
    elif is_grey and MAX_GREY * row_block * column_block < 2**31:
        means = cell_sums(image, height, width) / (row_block * column_block)
    else:
        averaged: Pixels = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
        return averaged
    rounded: Pixels = np.rint(means, out=means).astype(np.uint8)
    return rounded


def _means_of_blocks(image: Pixels, height: int, width: int) -> NDArray[Any]:
    """Exact averages of an image, [H, W, ...] -> float [height, width, ...], by sums of rows and columns."""
    rows, columns, *channels = image.shape
    row_block, column_block = rows // math.gcd(rows, height), columns // math.gcd(columns, width)
    sums = _sum_rows(image, height, MAX_GREY)
    # Transposed to one row for each column of a block: adding long rows takes less time than short ones.
    blocks = sums.reshape(-1, column_block, *channels)
    cells = width * column_block // columns
    sums = _sum_rows(cv2.transpose(blocks), cells, MAX_GREY * row_block)
    if cells > 1:
        sums = cv2.transpose(sums)
    # float32 does not turn a mean into a tie: sums of uint16 have weights of at most 257, so that the mean
    # nearest to a tie is 100 steps of float32 away from it. Sums in float64 remain float64.
    means: NDArray[Any] = sums.reshape(height, width, *channels) / np.float32(row_block * column_block)
    return means


def _sum_rows(image: NDArray[Any], cells: int, largest: int) -> NDArray[Any]:
    """Exact weighted sums of rows, [H, W, ...] -> [cells, W, ...].

    `largest`: upper bound of the image's values; the sums are uint16 if they fit, otherwise float64.

    With H / cells = p / q in lowest terms, each block of p rows makes q cells. A row counts q times, divided
    among the cells that share it, so that the weights of a cell add up to p.
    """
    block = len(image) // math.gcd(len(image), cells)  # p
    parts = cells // math.gcd(len(image), cells)  # q
    dtype = np.uint16 if largest * block < 2**16 else np.float64
    blocks = image.reshape(-1, block, *image.shape[1:])
    sums: NDArray[Any]
    if parts == 1:
        sums = np.add.reduce(blocks, axis=1, dtype=dtype)
        return sums
    sums = np.empty((len(blocks), parts, *image.shape[1:]), dtype)
    for cell in range(parts):
        first, last = -(-cell * block // parts), (cell + 1) * block // parts  # the whole rows
        np.add.reduce(blocks[:, first:last], axis=1, dtype=dtype, out=sums[:, cell])
    sums *= parts
    for cell in range(parts - 1):  # the row that each cell shares with the next one
        row, weight = divmod((cell + 1) * block, parts)
        if parts == 2:  # half of the row to each cell
            sums += blocks[:, row : row + 1]
            break
        shared = blocks[:, row].astype(dtype)  # adding rows of another type takes three times as long
        _add_rows(sums[:, cell], shared, weight)
        _add_rows(sums[:, cell + 1], shared, parts - weight)
    return sums.reshape(cells, *image.shape[1:])


def _add_rows(total: NDArray[Any], rows: NDArray[Any], weight: int) -> None:
    """Add rows, times a weight, to a total in place."""
    total += rows if weight == 1 else rows * total.dtype.type(weight)
