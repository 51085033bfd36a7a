"""Generates the program of a square matrix times a vector, as edgetpu_compiler 16 writes it.

The matrix has 64 rows per tile, on 4, 8, 12 or 16 tiles. dense_256.txt lists the operations for 4 tiles;
larger sizes repeat some of them, and in every operation some bits depend on the size. Inferred from compiled
programs and byte for byte equal to them for 256, 512 and 1024; for 768, equal to the published bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from edgetpu_driver.darwinn.chip_geometry import CELLS, TILES_PER_SIDE
from edgetpu_driver.darwinn.executable import Description, FieldOffset, InstructionBitstream, Position
from edgetpu_driver.darwinn.instructions.instruction_word_fields import LENGTH, WORD_BITS
from edgetpu_driver.darwinn.instructions.operations import Operation, join
from edgetpu_driver.darwinn.instructions.tensor_operation import requantises, write_requantisation
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.errors import InputError

SIZES = (256, 512, 768, 1024)
"""Supported numbers of rows and columns."""

_TEMPLATE = Path(__file__).with_name("dense_256.txt")
_UNIT = 64
"""Unit of many fields, bytes."""
_HEADER_UNITS = 8
"""Size of the header of a tile's parameters, multipliers and zero points, in units of _UNIT bytes."""
_ADDRESS_BIT = 70
"""First bit of the immediate operand of an instruction, where half of an address is inserted."""
_LOOP = 1024
"""Maximum number of units in an inner loop; an outer loop repeats it."""
_MOST_UNITS = 2048
"""Units of the ring through which parameters arrive; a field saturates at this value for larger uploads."""


class _Set(NamedTuple):
    """A value for bits `first` to `last`, truncated to their width."""

    first: int
    last: int
    value: int


_Fields = tuple[_Set, ...]


@dataclass(frozen=True)
class DenseProgram:
    """The two programs of a matrix of `size` rows and columns; InputError for a size that is not in SIZES."""

    size: int
    requantisation: Requantisation
    """Of the only requantising operation; the multipliers of the rows are in the parameters."""
    converts_output: bool = True
    """Whether a QUANTIZE from int8 to uint8 follows; without it the program has one operation less."""

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise InputError(f"expected a matrix of {', '.join(map(str, SIZES))} rows; got {self.size}")

    @property
    def tiles(self) -> int:
        """Number of tiles used."""
        return self.size // CELLS

    @property
    def parameter_bytes(self) -> int:
        """Size of the parameters, which are stored tile by tile, bytes."""
        return self.tiles * self._units_of_a_tile * _UNIT

    @property
    def narrow_memory_bytes_per_tile(self) -> int:
        """Memory needed for execution besides the parameters."""
        return self.size + 576

    @property
    def _units_of_a_tile(self) -> int:
        return self.size + _HEADER_UNITS

    def caching(self) -> InstructionBitstream:
        """The program that uploads the parameters."""
        lower, upper = Position.LOWER_32BIT, Position.UPPER_32BIT
        addresses = [
            ("pre-3", Description.PARAMETER, "", lower),
            ("pre-4", Description.PARAMETER, "", upper),
        ]
        return _bitstream(list(self._caching()), addresses)

    def execution(self, input_name: str, output_name: str) -> InstructionBitstream:
        """The program that multiplies. Its address fields refer to the layers by these names."""
        lower, upper = Position.LOWER_32BIT, Position.UPPER_32BIT
        addresses = [
            ("pro-3", Description.PARAMETER, "", lower),
            ("pro-4", Description.PARAMETER, "", upper),
            ("pro-5", Description.SCRATCH, "", lower),
            ("pro-6", Description.SCRATCH, "", upper),
            ("pro-11", Description.INPUT, input_name, upper),
            ("pro-12", Description.INPUT, input_name, lower),
            ("post-12", Description.OUTPUT, output_name, upper),
            ("post-13", Description.OUTPUT, output_name, lower),
        ]
        return _bitstream(list(self._execution()), addresses)

    def _caching(self) -> Iterator[tuple[str, Operation]]:
        template, tiles = known_operations()["PARAMETER_CACHING"], range(self.tiles)
        yield from _part(template, "pre", {10: self._immediate(self.parameter_bytes), 14: self._upload()})
        for tile in tiles:
            yield "c11", _changed(template["c11"], self._filled(tile))
        for tile in tiles:
            yield "c06", _changed(template["c06"], self._popped(tile))
        yield from _part(template, "post", {})

    def _execution(self) -> Iterator[tuple[str, Operation]]:
        template, tiles = known_operations()["EXECUTION_ONLY"], range(self.tiles)
        everything, rows = _mask((1 << self.tiles) - 1), self.tiles // TILES_PER_SIDE
        yield from _part(template, "pro", {15: self._input(), 21: self._immediate(self.size)})
        for column in range(TILES_PER_SIDE):
            yield "col", _changed(template["col"], self._column(column))
        for row in range(rows):
            yield "row11", _changed(template["row11"], self._row(row))
            yield "row06", _changed(template["row06"], self._row_popped(row))
        yield from _part(template, "mid", {})
        for tile in tiles:
            yield (
                "g14",
                _changed(template["g14"], (everything, _Set(271, 276, tile), _Set(623, 630, tile + 1))),
            )
            yield "g11", _changed(template["g11"], (everything, _Set(350, 361, tile - 4)))
            sent = _Set(350, 357, tile), _Set(467, 482, everything.value)
            yield "g10", _changed(template["g10"], (_mask(1 << tile), *sent))
            yield "g13", _changed(template["g13"], (_mask(1 << tile), _Set(68, 73, 2 + rows)))
        changes: dict[int, _Fields] = {
            5: (everything,),
            6: (everything, *self._products()),
            16: (everything, _Set(68, 73, rows)),
            20: self._immediate(self.size),
        }
        for role, operation in _part(template, "post", changes):
            if requantises(operation):
                yield role, write_requantisation(operation, self.requantisation)
            elif role != "post-5" or self.converts_output:
                yield role, operation
        for tile in tiles:
            yield "o07", template["o07"]
            sent = _mask(1 << tile), _Set(350, 357, self.tiles + tile)
            yield "o10", _changed(template["o10"], sent)
        yield from _part(template, "epi", {1: (_Set(176, 181, rows),)})

    @staticmethod
    def _immediate(value: int) -> _Fields:
        return (_Set(_ADDRESS_BIT, 101, value),)

    def _upload(self) -> _Fields:
        units = self.parameter_bytes // _UNIT
        inner = (units - 1) % _LOOP
        return (
            _Set(75, 86, (units - 1) // _LOOP),
            _Set(142, 156, inner),
            _Set(159, 168, -(inner + 1)),
            _Set(183, 199, -(min(units, _MOST_UNITS) - 1)),
        )

    def _filled(self, tile: int) -> _Fields:
        last = self.size // 4 - 1
        return (_mask(1 << tile), _Set(95, 105, last), *(_Set(at, at + 16, -last) for at in (111, 144, 177)))

    def _popped(self, tile: int) -> _Fields:
        first, last = self._units_of_a_tile * tile, self._units_of_a_tile - 1
        return (
            _Set(14, 24, first),
            _Set(320, 335, first + 1),
            _Set(409, 424, 1 << tile),
            _Set(96, 103, last // _LOOP),
            _Set(183, 192, last % _LOOP),
            _Set(205, 214, -(last % _LOOP + 1)),
        )

    def _input(self) -> _Fields:
        return _Set(142, 156, self.size // 8 - 1), _Set(159, 168, -(self.size // 8))

    def _column(self, column: int) -> _Fields:
        rows = self.tiles // TILES_PER_SIDE
        return (
            _mask(sum(1 << tile for tile in range(column, self.tiles, TILES_PER_SIDE))),
            _Set(63, 66, -rows),
            _Set(273, 280, 2 + rows),
            _Set(542, 543, 3 if column else 0),
            _Set(552, 557, 2 + rows if column else 0),
            _Set(562, 569, 16 * column - 1 if column else 0),
            _Set(578, 589, 16 * column - 1 + 64 * (2 + rows) if column else 0),
            _Set(870, 871, 2 if column else 1),
        )

    def _row(self, row: int) -> _Fields:
        rows = self.tiles // TILES_PER_SIDE
        return (
            _mask(0xF << TILES_PER_SIDE * row),
            _Set(63, 66, -rows),
            _Set(210, 210, rows > 1),
            _Set(216, 219, rows),
            _Set(352, 361, -rows),
            _Set(368, 371, rows),
        )

    @staticmethod
    def _row_popped(row: int) -> _Fields:
        return (
            _Set(14, 24, 32 * row),
            _Set(320, 335, 32 * row + 1),
            _Set(409, 424, 0xF << TILES_PER_SIDE * row),
        )

    def _products(self) -> _Fields:
        last, rows = self.size // 4 - 1, self.tiles // TILES_PER_SIDE
        return (
            *(_Set(first, first + 11, last) for first in (62, 228, 986)),
            _Set(1289, 1300, last),
            _Set(582, 589, rows),
            *(_Set(first, first + 16, -last) for first in (322, 359, 396, 433, 470)),
            *(_Set(first, first + 12, -last) for first in range(1002, 1177, 29)),
        )


def _mask(tiles: int) -> _Set:
    return _Set(12, 27, tiles)


def _changed(operation: Operation, fields: _Fields) -> Operation:
    for first, last, value in fields:
        operation = operation.with_field(first, last, value % (1 << (last - first + 1)))
    return operation


def _part(
    template: dict[str, Operation], name: str, changes: dict[int, _Fields]
) -> Iterator[tuple[str, Operation]]:
    """The non-repeated operations of a part, with changes by position in the part."""
    for role, operation in template.items():
        part, _, position = role.partition("-")
        if part == name:
            yield role, _changed(operation, changes.get(int(position), ()))


def _bitstream(
    parts: list[tuple[str, Operation]], addresses: list[tuple[str, Description, str, Position]]
) -> InstructionBitstream:
    """Number the operations of the tiles, set the length, and find the address fields."""
    words = sum(operation.words for _, operation in parts)
    numbered, starts, number, word = [], {}, 0, 0
    for role, part in parts:
        operation = part.numbered_as(number) if part.numbered else part
        number += operation.numbered
        starts[role] = word
        word += operation.words
        numbered.append(operation)
    first, last = LENGTH.position, LENGTH.position + LENGTH.width - 1
    numbered[0] = numbered[0].with_field(first, last, (words - 2) * WORD_BITS)
    fields = tuple(
        FieldOffset(description, name, position, bit=starts[role] * WORD_BITS + _ADDRESS_BIT)
        for role, description, name, position in addresses
    )
    return InstructionBitstream(join(numbered), fields)


@cache
def known_operations() -> dict[str, dict[str, Operation]]:
    """The operations of the two programs for 256 rows, in order, by role."""
    parts: dict[str, dict[str, Operation]] = {}
    section: dict[str, Operation] = {}
    for line in _TEMPLATE.read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            section = parts.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            role, value = line.split()
            section[role] = Operation.of(int(value, 16))
    return parts
