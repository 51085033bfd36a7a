"""The program that uploads a matrix: which bytes of the parameters go to which rows of which tiles.

Parameters arrive in units of 64 bytes, in a ring of 2048 units. Each pop takes the next units and sends them
to the consumers of its tiles, which fill rows of 256 bytes with weights. Multipliers and zero points come
first. They are assumed to fill the two rows before: no field names these rows, and weights begin in row 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from edgetpu_driver.darwinn.chip_geometry import TILES
from edgetpu_driver.darwinn.instructions.parameter_region import ROW_BYTES, ROWS
from edgetpu_driver.darwinn.parameters.dense_layout import HEADER_BYTES
from edgetpu_driver.virtual.matrix_programs.operation_roles import RoleOperation, Roles
from edgetpu_driver.virtual.processor.tile_memory import Content, TileMemory

_UNIT = 64
"""Number of bytes that many fields count as one."""
_HEADER_ROWS = HEADER_BYTES // ROW_BYTES
_RING_UNITS = 2048
"""Units of the ring through which parameters arrive; a field saturates at this value for larger uploads."""
_LOOP = 1024
"""Most units that one loop counts; an outer loop repeats it."""


class _Piece(NamedTuple):
    first_byte: int
    size: int
    targets: tuple[tuple[int, int], ...]
    """The tiles, with the first row that is filled in each."""


@dataclass(frozen=True)
class MatrixUpload:
    """The destinations of the parameters."""

    parameter_bytes: int
    pieces: tuple[_Piece, ...]

    def store(self, parameters: bytes, memory: TileMemory) -> None:
        """Store parameters in the tiles."""
        for piece in self.pieces:
            data = parameters[piece.first_byte : piece.first_byte + piece.size]
            for tile, first_row in piece.targets:
                memory.fill(tile, Content(first_row, data))


def read_upload(roles: Roles) -> MatrixUpload:
    """The upload that the program does; ProgramFaultError if it would wait for data that never arrive."""
    units = _infed_units(roles)
    consumers = _consumers(roles)
    waiting = {tile: consumer["last_row"] + 1 for tile, consumer in consumers.items()}
    pieces, position = [], 0
    for pop in roles.all("c06"):
        count = _LOOP * pop["outer_last"] + pop["inner_last"] + 1
        pop.expect(position=position + 1, address=position, inner_back=-(pop["inner_last"] + 1))
        targets = []
        for tile in tiles_of(pop):
            rows = waiting.pop(tile, None)
            if rows is None:
                raise pop.fault(f"tile {tile} waits for no parameters")
            if _UNIT * count != HEADER_BYTES + ROW_BYTES * rows:
                raise pop.fault(f"it sends {count} units of 64 bytes; tile {tile} waits for {rows} rows")
            targets.append((tile, consumers[tile]["first_row"] - _HEADER_ROWS))
        pieces.append(_Piece(_UNIT * position, _UNIT * count, tuple(targets)))
        position += count
    if waiting:
        raise roles.one("pre-14").fault(f"tile {min(waiting)} waits for parameters that are never sent")
    if position != units:
        raise roles.one("pre-14").fault(f"{units} units of 64 bytes are fed in, {position} are taken")
    return MatrixUpload(_UNIT * units, tuple(pieces))


def tiles_of(part: RoleOperation) -> tuple[int, ...]:
    """The tiles that an operation addresses; ProgramFaultError if there are none."""
    tiles = tuple(tile for tile in range(TILES) if part["tiles"] >> tile & 1)
    if not tiles:
        raise part.fault("it is for no tile")
    return tiles


def _infed_units(roles: Roles) -> int:
    infeed = roles.one("pre-14")
    units = _LOOP * infeed["outer_last"] + infeed["inner_last"] + 1
    infeed.expect(
        inner_back=-(infeed["inner_last"] + 1),
        outer_back=-(min(units, _RING_UNITS) - 1),
    )
    if infeed["inner_last"] >= _LOOP:
        raise infeed.fault(f"its inner loop counts {infeed['inner_last'] + 1} units, more than {_LOOP}")
    roles.one("pre-10").expect(bytes=_UNIT * units)
    return units


def _consumers(roles: Roles) -> dict[int, RoleOperation]:
    found: dict[int, RoleOperation] = {}
    for consumer in roles.all("c11"):
        consumer.expect_all("back", -consumer["last_row"])
        first = consumer["first_row"]
        if first < _HEADER_ROWS or first + consumer["last_row"] >= ROWS:
            raise consumer.fault(
                f"it fills rows from {first} on, with {_HEADER_ROWS} before; there are {ROWS}"
            )
        for tile in tiles_of(consumer):
            if tile in found:
                raise consumer.fault(f"tile {tile} waits for parameters already")
            found[tile] = consumer
    return found
