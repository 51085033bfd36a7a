"""The program that multiplies: how the input is spread over the tiles, and what each tile computes and sends.

The input arrives in units of 8 bytes. Each row of tiles pops 256 bytes, of which every column of tiles keeps
64. Then the tiles take turns to send their 64 bytes to all, each into a slot of its own, so that every tile
holds the whole input. Each tile multiplies it by its own 64 rows of the matrix, and they send their outputs
one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.chip_geometry import CELLS, INPUTS_PER_CELL, TILES, TILES_PER_SIDE
from edgetpu_driver.darwinn.instructions.tensor_operation import read_requantisation
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.virtual.matrix_programs.operation_roles import ProgramFaultError, RoleOperation, Roles
from edgetpu_driver.virtual.matrix_programs.upload import tiles_of
from edgetpu_driver.virtual.processor.tile_memory import TileMemory

_OF_A_TILE, _OF_A_ROW = 64, 256
"""Bytes of the input that a tile keeps, and that a row of tiles receives."""
_UNIT = 8
"""Number of bytes that a loop counts as one."""
_LARGEST = 255
"""Largest uint8, the type of the chip's outputs."""
_PRODUCTS_AT_ONCE = TILES * CELLS * INPUTS_PER_CELL
"""Products that the whole chip computes in one cycle."""


@dataclass(frozen=True)
class MatrixProduct:
    """A matrix times a vector, in the documented arithmetic of the chip.

    output[r] = clip(round(clip(m[r] * sum_c((w[r, c] - z[r]) * (x[c] - zero point of x)))) + zero point)
    """

    size: int
    """Number of inputs, and of outputs."""
    order: tuple[int, ...]
    """For each slot, the piece of 64 inputs that it holds."""
    tiles: tuple[int, ...]
    """The tiles that send outputs, in their order."""
    requantisation: Requantisation

    @property
    def cycles(self) -> int:
        """Cycles of the chip's main clock for one product."""
        return -(-(self.size**2) // _PRODUCTS_AT_ONCE)

    def multiply(self, values: bytes, memory: TileMemory) -> bytes | None:
        """The outputs; None if the tiles hold no matrix of that size."""
        matrix = memory.matrix(self.tiles, self.size)
        if matrix is None:
            return None
        read = self.requantisation
        pieces = np.frombuffer(values, np.uint8).reshape(-1, _OF_A_TILE)[list(self.order)]
        sums = matrix.weights @ (pieces.reshape(-1).astype(np.float64) - read.input_zero_point)
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.clip(matrix.multipliers * sums, read.minimum, read.maximum)
        result = np.clip(np.rint(np.nan_to_num(steps)) + read.output_zero_point, 0, _LARGEST)
        outputs: NDArray[np.uint8] = result.astype(np.uint8)
        return outputs.tobytes()


def read_product(roles: Roles) -> MatrixProduct:
    """The product that the program computes; ProgramFaultError if it waits for data that never arrive."""
    count, rows = len(roles.all("g10")), len(roles.all("row06"))
    senders = len(roles.all("o10"))
    if count != TILES_PER_SIDE * rows or not 1 <= count <= TILES or senders != count:
        raise ProgramFaultError(
            f"{rows} rows of tiles get inputs, {count} tiles pass them on, {senders} send outputs"
        )
    if len(roles.all("col")) != TILES_PER_SIDE:
        raise ProgramFaultError(
            f"{len(roles.all('col'))} columns of tiles get inputs instead of {TILES_PER_SIDE}"
        )
    size = _OF_A_TILE * count
    roles.one("pro-21").expect(bytes=size)
    roles.one("post-20").expect(bytes=size)
    roles.one("pro-15").expect(inner_last=size // _UNIT - 1, inner_back=-(size // _UNIT))
    roles.one("epi-1").expect(rows=rows)
    kept = _kept_by_tiles(_offsets(roles, rows), _rows(roles, rows))
    order = _gathered(roles, kept, (1 << count) - 1, 2 + rows)
    requantisation = _products(roles, size, rows, (1 << count) - 1)
    return MatrixProduct(size, order, _senders(roles, count, rows), requantisation)


def _offsets(roles: Roles, rows: int) -> dict[int, int]:
    """For each column of tiles, the first byte that it keeps of the bytes sent to its row."""
    found: dict[int, int] = {}
    masks = [
        sum(1 << TILES_PER_SIDE * row + column for row in range(rows)) for column in range(TILES_PER_SIDE)
    ]
    for part in roles.all("col"):
        column = _index(part, masks)
        part.expect(rows_back=-rows, end=2 + rows)
        skips = part["skip_form"] != 0
        last = part["skip_last"] if skips else 0
        offset = INPUTS_PER_CELL * (last + 1) if skips else 0
        part.expect(
            skip_form=3 if skips else 0,
            skip_kind=2 if skips else 1,
            skip_end=2 + rows if skips else 0,
            skip_last=last,
            skip_total=last + _OF_A_TILE * (2 + rows) if skips else 0,
        )
        if offset % _OF_A_TILE or offset >= _OF_A_ROW:
            raise part.fault(f"it skips {offset} bytes of {_OF_A_ROW}")
        if column in found:
            raise part.fault(f"column {column} has its inputs already")
        found[column] = offset
    return found


def _rows(roles: Roles, rows: int) -> dict[int, int]:
    """For each row of tiles, the first byte of the input that is sent to it."""
    found: dict[int, int] = {}
    masks = [((1 << TILES_PER_SIDE) - 1) << TILES_PER_SIDE * row for row in range(rows)]
    for part, pop in zip(roles.all("row11"), roles.all("row06"), strict=True):
        row = _index(part, masks)
        part.expect(several_rows=int(rows > 1))
        part.expect(rows_back=-rows, rows_0=rows, rows_back_1=-rows, rows_1=rows)
        units = len(found) * _OF_A_ROW // _UNIT
        pop.expect(tiles=masks[row], address=units, position=units + 1)
        if row in found:
            raise part.fault(f"row {row} has its inputs already")
        found[row] = _UNIT * units
    return found


def _kept_by_tiles(offsets: dict[int, int], starts: dict[int, int]) -> dict[int, int]:
    """For each tile, the piece of 64 inputs that it keeps."""
    return {
        TILES_PER_SIDE * row + column: (start + offset) // _OF_A_TILE
        for row, start in starts.items()
        for column, offset in offsets.items()
    }


def _gathered(roles: Roles, kept: dict[int, int], everything: int, end: int) -> tuple[int, ...]:
    """For each slot, the piece of the input that a tile sends into it."""
    slots: dict[int, int] = {}
    names = "g14", "g11", "g10", "g13"
    groups = zip(*(roles.all(name) for name in names), strict=True)
    for number, (consumer, ring, producer, memory) in enumerate(groups):
        slot = consumer["slot"]
        if slot >= len(kept) or slot in slots:
            raise consumer.fault(f"slot {slot} is not one that is free")
        consumer.expect(tiles=everything, slot_end=slot + 1)
        ring.expect(tiles=everything, slot=number - 4)
        tile = _one_tile(producer)
        producer.expect(slot=slot, receivers=everything)
        memory.expect(tiles=1 << tile, end=end)
        if tile not in kept:
            raise producer.fault(f"tile {tile} has no inputs")
        slots[slot] = kept[tile]
    return tuple(slots[slot] for slot in range(len(slots)))


def _products(roles: Roles, size: int, rows: int, everything: int) -> Requantisation:
    for part in (*roles.all("post-5"), roles.one("post-6"), roles.one("post-16")):
        part.expect(tiles=everything)
    roles.one("post-16").expect(rows=rows)
    tensor, last = roles.one("post-6"), size // INPUTS_PER_CELL - 1
    tensor.expect(rows=rows)
    tensor.expect_all("last", last)
    tensor.expect_all("back", -last)
    tensor.expect_all("inner_back", -last)
    found = read_requantisation(tensor.operation)
    if not isfinite(found.minimum + found.maximum):
        raise tensor.fault(f"its clamps are {found.minimum} and {found.maximum}")
    return found


def _senders(roles: Roles, count: int, rows: int) -> tuple[int, ...]:
    """The tiles in the order in which they send their outputs."""
    tiles: list[int] = []
    for number, part in enumerate(roles.all("o10")):
        tile = _one_tile(part)
        part.expect(slot=count + number)
        if tile in tiles or tile >= TILES_PER_SIDE * rows:
            raise part.fault(f"tile {tile} has no output left to send")
        tiles.append(tile)
    return tuple(tiles)


def _one_tile(part: RoleOperation) -> int:
    tiles = tiles_of(part)
    if len(tiles) != 1:
        raise part.fault(f"it is for {len(tiles)} tiles; one sends at a time")
    return tiles[0]


def _index(part: RoleOperation, masks: list[int]) -> int:
    """The index of the operation's mask of tiles among the possible masks."""
    if part["tiles"] not in masks:
        raise part.fault(
            f"it is for the tiles {part['tiles']:#x} instead of one of {', '.join(map(hex, masks))}"
        )
    return masks.index(part["tiles"])
