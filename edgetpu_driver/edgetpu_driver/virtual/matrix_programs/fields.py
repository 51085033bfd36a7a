"""The fields of the two programs of a matrix that differ between sizes, tiles and scales, by role and name.

A role is the position of an operation in its program, as in darwinn/programs/dense_256.txt. All other bits
are the same in every such program. A name gives the inferred meaning of a field; a number in it distinguishes
fields with the same content. Arithmetic on fields is modulo their range.
"""

from __future__ import annotations

from typing import NamedTuple

from edgetpu_driver.darwinn.instructions import tensor_operation as tensor
from edgetpu_driver.darwinn.instructions.instruction_word_fields import LENGTH


class Bits(NamedTuple):
    """The bits from `first` to `last` of an operation, both included."""

    first: int
    last: int

    @property
    def largest(self) -> int:
        """The largest value that the bits can hold."""
        return (1 << (self.last - self.first + 1)) - 1


Fields = dict[str, Bits]

_IMMEDIATE = Bits(70, 101)
_TILES = {"tiles": Bits(12, 27)}
_LENGTH = {"length": Bits(LENGTH.position, LENGTH.position + LENGTH.width - 1)}
_ADDRESS = {"host_address": _IMMEDIATE}
_POP = {"address": Bits(14, 24), "position": Bits(320, 335), "tiles": Bits(409, 424)}


def _repeated(name: str, first: range, width: int) -> Fields:
    return {f"{name}_{number}": Bits(bit, bit + width - 1) for number, bit in enumerate(first)}


UPLOAD: dict[str, Fields] = {
    "pre-0": _LENGTH,
    "pre-3": _ADDRESS,
    "pre-4": _ADDRESS,
    "pre-10": {"bytes": _IMMEDIATE},
    "pre-14": {
        "outer_last": Bits(75, 86),
        "inner_last": Bits(142, 156),
        "inner_back": Bits(159, 168),
        "outer_back": Bits(183, 199),
    },
    "c11": {
        **_TILES,
        "first_row": Bits(62, 72),
        "last_row": Bits(95, 105),
        **_repeated("back", range(111, 178, 33), 17),
    },
    "c06": {
        **_POP,
        "outer_last": Bits(96, 103),
        "inner_last": Bits(183, 192),
        "inner_back": Bits(205, 214),
    },
}
"""Fields of the program that uploads the parameters."""

EXECUTION: dict[str, Fields] = {
    "pro-0": _LENGTH,
    **{f"pro-{position}": _ADDRESS for position in (3, 4, 5, 6, 11, 12)},
    "pro-15": {"inner_last": Bits(142, 156), "inner_back": Bits(159, 168)},
    "pro-21": {"bytes": _IMMEDIATE},
    "col": {
        **_TILES,
        "rows_back": Bits(63, 66),
        "end": Bits(273, 280),
        "skip_form": Bits(542, 543),
        "skip_end": Bits(552, 557),
        "skip_last": Bits(562, 569),
        "skip_total": Bits(578, 589),
        "skip_kind": Bits(870, 871),
    },
    "row11": {
        **_TILES,
        "rows_back": Bits(63, 66),
        "several_rows": Bits(210, 210),
        "rows_0": Bits(216, 219),
        "rows_back_1": Bits(352, 361),
        "rows_1": Bits(368, 371),
    },
    "row06": _POP,
    "g14": {**_TILES, "slot": Bits(271, 276), "slot_end": Bits(623, 630)},
    "g11": {**_TILES, "slot": Bits(350, 361)},
    "g10": {**_TILES, "slot": Bits(350, 357), "receivers": Bits(467, 482)},
    "g13": {**_TILES, "end": Bits(68, 73)},
    "post-5": _TILES,
    "post-6": {
        **_TILES,
        **{f"last_{number}": Bits(bit, bit + 11) for number, bit in enumerate((62, 228, 986, 1289))},
        "rows": Bits(582, 589),
        **_repeated("back", range(322, 471, 37), 17),
        **_repeated("inner_back", range(1002, 1177, 29), 13),
        "input_zero_point": Bits(*tensor.INPUT_ZERO_POINT),
        "minimum": Bits(*tensor.MINIMUM),
        "maximum": Bits(*tensor.MAXIMUM),
        "output_zero_point": Bits(*tensor.OUTPUT_ZERO_POINT),
    },
    "post-12": _ADDRESS,
    "post-13": _ADDRESS,
    "post-16": {**_TILES, "rows": Bits(68, 73)},
    "post-20": {"bytes": _IMMEDIATE},
    "o10": {**_TILES, "slot": Bits(350, 357)},
    "epi-1": {"rows": Bits(176, 181)},
}
"""Fields of the program that multiplies."""
