"""The grids of cells that YOLO models predict boxes for, and how many anchors they have."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

STRIDES = ((8, 16, 32), (8, 16, 32, 64), (16, 32), (4, 8, 16, 32))
"""Px of the input per cell, of the grids of YOLO models: usual ones, with a coarser grid, tiny ones, and with
a finer grid."""


@dataclass(frozen=True)
class Grids:
    """The grids of one model, the finest first."""

    input_height: int
    input_width: int
    strides: tuple[int, ...]

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of each grid."""
        return tuple((ceil(self.input_height / each), ceil(self.input_width / each)) for each in self.strides)

    @property
    def cells(self) -> int:
        """Number of cells of all grids together."""
        return sum(rows * columns for rows, columns in self.sizes)

    def corners(self) -> NDArray[np.float32]:
        """Column and row of each cell in its grid, float32[cells, 2], grid by grid and row by row."""
        parts = []
        for rows, columns in self.sizes:
            y, x = np.divmod(np.arange(rows * columns), columns)
            parts.append(np.stack((x, y), axis=1))
        return np.concatenate(parts).astype(np.float32)

    def cell_strides(self) -> NDArray[np.float32]:
        """The stride of each cell, float32[cells], px."""
        counts = [rows * columns for rows, columns in self.sizes]
        return np.repeat(np.array(self.strides, np.float32), counts)


def possible_grids(input_height: int, input_width: int) -> tuple[Grids, ...]:
    """The grids that a YOLO model with an input of this size may have, the usual ones first."""
    return tuple(Grids(input_height, input_width, strides) for strides in STRIDES)
