"""The named bits of operations."""

from __future__ import annotations

from typing import NamedTuple

from edgetpu_driver.darwinn.instructions import tensor_operation as tensor
from edgetpu_driver.darwinn.instructions.border_fill import CONSTANT, IS_CONSTANT
from edgetpu_driver.darwinn.instructions.operations import (
    INFEED,
    MESH_OPERATIONS,
    NUMBER,
    POP,
    POP_TILE_MASK,
    RING_CONSUMER,
    TENSOR_OPERATIONS,
    TILE_MASK,
    WAIT,
    WAIT_NUMBER,
    Kind,
)


class Bits(NamedTuple):
    """Bits `first` to `last` of an operation, inclusive."""

    name: str
    first: int
    last: int


OPCODE = Bits("opcode", 6, 11)
"""Including the bit that marks operations of the scalar core."""

_NUMBER = Bits("number", *NUMBER)
_WAIT_NUMBER = Bits("number", *WAIT_NUMBER)
_TILES = Bits("tiles", *TILE_MASK)
_COMMON = (_NUMBER, _TILES)

_KNOWN: dict[Kind, tuple[Bits, ...]] = {
    Kind(WAIT, False): (_WAIT_NUMBER, _TILES),
    # Two nested loops over units of the link: count less one, and the negative step back.
    Kind(INFEED, True): (
        Bits("outer_last", 75, 86),
        Bits("inner_last", 142, 156),
        Bits("inner_back", 159, 168),
        Bits("outer_back", 183, 199),
    ),
    # `position` in the parameters or inputs, in units of 64 bytes, plus one.
    Kind(POP, True): (
        Bits("tiles", *POP_TILE_MASK),
        Bits("address", 14, 24),
        Bits("position", 320, 335),
        Bits("outer_last", 96, 103),
        Bits("inner_last", 183, 192),
        Bits("inner_back", 205, 214),
    ),
    Kind(RING_CONSUMER, False): (*_COMMON, Bits("first_row", 62, 72), Bits("last_row", 95, 105)),
    **{
        Kind(opcode, False): (
            *_COMMON,
            Bits("multiplier", *tensor.MULTIPLIER),
            Bits("minimum", *tensor.MINIMUM),
            Bits("maximum", *tensor.MAXIMUM),
            Bits("input_zero_point", *tensor.INPUT_ZERO_POINT),
            Bits("weight_zero_point", *tensor.WEIGHT_ZERO_POINT),
            Bits("output_zero_point", *tensor.OUTPUT_ZERO_POINT),
            Bits("offset", *tensor.OFFSET),
        )
        for opcode in TENSOR_OPERATIONS
    },
    **{
        Kind(opcode, False): (*_COMMON, Bits("is_constant", *IS_CONSTANT), Bits("constant", *CONSTANT))
        for opcode in MESH_OPERATIONS
    },
}


def named_bits(kind: Kind) -> tuple[Bits, ...]:
    """The named bits of operations of this kind, without the opcode."""
    return _KNOWN.get(kind, () if kind.scalar else _COMMON)
