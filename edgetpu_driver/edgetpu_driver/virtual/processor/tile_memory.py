"""The memories of the tiles, as filled by programs that are run from their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.chip_geometry import INPUTS_PER_CELL, TILES
from edgetpu_driver.darwinn.instructions.parameter_region import ROW_BYTES, ROWS, Region
from edgetpu_driver.darwinn.parameters.dense_layout import GROUP_ROWS, HEADER_BYTES


class Content(NamedTuple):
    """Parameters of 64 outputs in consecutive rows of 256 bytes of one tile."""

    first_row: int
    data: bytes
    """Two rows of multipliers and zero points; then a row for every four inputs: 64 outputs of four bytes."""

    @property
    def rows(self) -> int:
        """Number of rows that it fills."""
        return len(self.data) // ROW_BYTES


class Matrix(NamedTuple):
    """The parameters of several tiles together, as numbers."""

    multipliers: NDArray[np.float32]
    """Multipliers, [outputs]."""
    weights: NDArray[np.float64]
    """Weights minus their zero points, [outputs, inputs]."""


class TileMemory:
    """The parameters in each tile, by the rows that they fill. Not thread-safe."""

    def __init__(self) -> None:
        self._contents: dict[int, list[Content]] = {}
        self._matrices: dict[tuple[tuple[int, ...], int], Matrix | None] = {}
        """The matrices that were read since the last change."""

    def clear(self) -> None:
        """Forget everything."""
        self._contents.clear()
        self._matrices.clear()

    def fill(self, tile: int, content: Content) -> None:
        """Write parameters into a tile; they replace those in the same rows."""
        self.erase(((1 << content.rows) - 1) << ROWS * tile + content.first_row)
        self._contents.setdefault(tile, []).append(content)

    def erase(self, region: Region) -> None:
        """Drop all parameters in rows of a region that is overwritten."""
        self._matrices.clear()
        for tile in range(TILES):
            rows = region >> ROWS * tile & ((1 << ROWS) - 1)
            if rows and tile in self._contents:
                self._contents[tile] = [
                    each
                    for each in self._contents[tile]
                    if not rows >> each.first_row & ((1 << each.rows) - 1)
                ]

    def matrix(self, tiles: Sequence[int], inputs: int) -> Matrix | None:
        """The matrix in some tiles, from row 0 on; None unless each has parameters of that many inputs."""
        key = tuple(tiles), inputs
        if key not in self._matrices:
            self._matrices[key] = self._read(*key)
        return self._matrices[key]

    def _read(self, tiles: tuple[int, ...], inputs: int) -> Matrix | None:
        size = HEADER_BYTES + GROUP_ROWS * inputs
        found = [each.data for tile in tiles for each in self._contents.get(tile, ()) if each.first_row == 0]
        if len(found) != len(tiles) or any(len(data) != size for data in found):
            return None
        half = HEADER_BYTES // 2
        groups = np.frombuffer(b"".join(found), np.uint8).reshape(len(found), size)
        multipliers = np.ascontiguousarray(groups[:, :half]).view("<f4").reshape(-1)
        zero_points = np.ascontiguousarray(groups[:, half:HEADER_BYTES]).view("<i4").reshape(-1, 1)
        cells = groups[:, HEADER_BYTES:].reshape(
            len(found), inputs // INPUTS_PER_CELL, GROUP_ROWS, INPUTS_PER_CELL
        )
        weights = cells.transpose(0, 2, 1, 3).reshape(-1, inputs).astype(np.float64)  # sums stay exact
        return Matrix(multipliers, weights - zero_points)
