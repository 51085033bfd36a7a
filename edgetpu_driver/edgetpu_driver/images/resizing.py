"""Resize camera images to model inputs by averaging over the area of each new pixel."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import Pixels

MAX_CELLS_PER_BLOCK = 8
"""Largest number of new rows (or columns) to a block of old ones for which exact sums are used.

Exact sums take a fifth to four fifths of the time of INTER_AREA up to here (grey images of 424x240 to
1920x1080 px to 64x64 and 128x128); 1080 rows to 64 have 8 new rows to a block. Limits the time.
"""

MAX_GREY = 255
"""Largest value of a pixel. Given by uint8."""


def resize(image: Pixels, height: int, width: int) -> Pixels:
    """Resize uint8 [H, W] or [H, W, 3] by averages over the area of each new pixel, rounded to nearest even.

    If the image grows along an axis it is interpolated linearly. New pixel c of n covers the old ones from
    c * W / n on; its centre is at old pixel (c + 0.5) * W / n - 0.5.
    """
    rows, columns = image.shape[:2]
    if (rows, columns) == (height, width):
        return image
    if rows < height or columns < width:
        enlarged: Pixels = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
        return enlarged
    row_block, column_block = rows // math.gcd(rows, height), columns // math.gcd(columns, width)
    if max(height * row_block // rows, width * column_block // columns) > MAX_CELLS_PER_BLOCK:
        averaged: Pixels = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
        return averaged
    pixels: NDArray[Any] = image
    largest, block = MAX_GREY, column_block
    if width * column_block == columns and _has_exact_pairs(image, row_block, column_block):
        pixels, largest, block = _sum_pairs(image), 2 * MAX_GREY, column_block // 2
    sums = _sum_rows(pixels, height, largest)
    # A row for each column of a block, as adding long rows takes less time than adding short ones.
    blocks = sums.reshape(-1, block, *image.shape[2:])
    cells = width * column_block // columns
    sums = _sum_rows(cv2.transpose(blocks), cells, largest * row_block)
    if cells > 1:
        sums = cv2.transpose(sums)
    # In float32 the nearest mean that is no tie is 100 steps away from one, as sums of uint16 have weights
    # of at most 257; sums in float64 stay so.
    means = sums.reshape(height, width, *image.shape[2:]) / np.float32(row_block * column_block)
    rounded: Pixels = np.rint(means, out=means).astype(np.uint8)
    return rounded


def _has_exact_pairs(image: Pixels, row_block: int, column_block: int) -> bool:
    """Whether a grey image can be summed in pairs of columns, none of which two cells share, in uint16."""
    return (
        image.ndim == 2
        and image.strides[1] == 1
        and column_block % 2 == 0
        and 2 * MAX_GREY * row_block < 2**16
    )


def _sum_pairs(image: Pixels) -> NDArray[np.uint16]:
    """Sums of two neighbouring columns, [H, W] -> [H, W / 2]: half as many numbers to add later."""
    pairs = image.view(np.uint16)  # 256 a + b
    sums: NDArray[np.uint16] = np.right_shift(pairs, 8)
    np.multiply(sums, 255, out=sums)
    return np.subtract(pairs, sums, out=sums)


def _sum_rows(image: NDArray[Any], cells: int, largest: int) -> NDArray[Any]:
    """Exact weighted sums of rows, [H, W] or [H, W, 3] -> [cells, W(, 3)].

    `largest`: no value of the image is larger; the sums are uint16 if theirs fit, else float64.

    With H / cells = p / q in lowest terms, each block of p rows makes q cells. A row counts q times, divided
    among the cells that share it, so that the weights of a cell add up to p.
    """
    block = len(image) // math.gcd(len(image), cells)  # p
    parts = cells // math.gcd(len(image), cells)  # q
    dtype = np.uint16 if largest * block < 2**16 else np.float64
    blocks = image.reshape(-1, block, *image.shape[1:])
    sums: NDArray[Any] = np.empty((len(blocks), parts, *image.shape[1:]), dtype)
    for cell in range(parts):
        first, last = -(-cell * block // parts), (cell + 1) * block // parts  # the whole rows
        np.add.reduce(blocks[:, first:last], axis=1, dtype=dtype, out=sums[:, cell])
    if parts > 1:
        sums *= parts
    for cell in range(parts - 1):  # the row that each cell shares with the next one
        row, weight = divmod((cell + 1) * block, parts)
        if parts == 2:  # half of the row to either cell
            sums += blocks[:, row : row + 1]
            break
        shared = blocks[:, row].astype(dtype)  # once: adding rows of another type takes three times as long
        _add_rows(sums[:, cell], shared, weight)
        _add_rows(sums[:, cell + 1], shared, parts - weight)
    return sums.reshape(cells, *image.shape[1:])


def _add_rows(total: NDArray[Any], rows: NDArray[Any], weight: int) -> None:
    """Add rows to a total in place, repeatedly."""
    total += rows if weight == 1 else rows * total.dtype.type(weight)
