"""Reads and writes the requantisation in a tensor operation of 17 words."""

from __future__ import annotations

import struct

from edgetpu_driver.darwinn.instructions.operations import TENSOR_OPERATIONS, Kind, Operation
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.errors import InputError, ModelFormatError

WEIGHT_ZERO_POINT = 1854, 1861
INPUT_ZERO_POINT = 1870, 1877
MULTIPLIER = 1949, 1980
MAXIMUM = 1981, 2012
MINIMUM = 2013, 2044
OUTPUT_ZERO_POINT = 2077, 2084
"""First and last bit, inferred from compiled programs; the multiplier and the clamps are float32."""
OFFSET = 2045, 2076
"""Bits of the offset that is added to a sum of products, int32."""

_FLOAT = struct.Struct("<f")
_OFFSET_VALUES = 1 << 32
"""The offset is stored as a two's complement of 32 bits."""


def requantises(operation: Operation) -> bool:
    """Whether the operation has the fields of a requantisation; not all such operations belong to a layer."""
    return operation.kind in (Kind(opcode, False) for opcode in TENSOR_OPERATIONS)


def read_requantisation(operation: Operation) -> Requantisation:
    """The requantisation of an operation; ModelFormatError for one of another kind."""
    _check(operation)
    return Requantisation(
        multiplier=_float(operation.field(*MULTIPLIER)),
        minimum=_float(operation.field(*MINIMUM)),
        maximum=_float(operation.field(*MAXIMUM)),
        input_zero_point=operation.field(*INPUT_ZERO_POINT),
        weight_zero_point=operation.field(*WEIGHT_ZERO_POINT),
        output_zero_point=operation.field(*OUTPUT_ZERO_POINT),
    )


def write_requantisation(operation: Operation, requantisation: Requantisation) -> Operation:
    """The operation with another requantisation; all other bits stay.

    ModelFormatError for an operation of another kind; InputError for a number that is not finite as float32
    and for a zero point that does not fit in a byte.
    """
    _check(operation)
    fields = (
        (MULTIPLIER, _bits(requantisation.multiplier)),
        (MINIMUM, _bits(requantisation.minimum)),
        (MAXIMUM, _bits(requantisation.maximum)),
        (INPUT_ZERO_POINT, requantisation.input_zero_point),
        (WEIGHT_ZERO_POINT, requantisation.weight_zero_point),
        (OUTPUT_ZERO_POINT, requantisation.output_zero_point),
    )
    for bits, value in fields:
        operation = operation.with_field(*bits, value)
    return operation


def read_offset(operation: Operation) -> int:
    """The offset added to a sum of products before the multiplication."""
    value = operation.field(*OFFSET)
    return value - _OFFSET_VALUES if value >= _OFFSET_VALUES // 2 else value


def has_offset(operation: Operation, offset: int) -> bool:
    """Whether the operation adds this offset to a sum of products."""
    return operation.field(*OFFSET) == offset % _OFFSET_VALUES


def with_offset(operation: Operation, offset: int) -> Operation:
    """The operation with another offset, modulo 2**32."""
    return operation.with_field(*OFFSET, offset % _OFFSET_VALUES)


def _check(operation: Operation) -> None:
    if not requantises(operation):
        raise ModelFormatError(f"expected an operation that requantises; got {operation.name}")


def _float(bits: int) -> float:
    value: float = _FLOAT.unpack(bits.to_bytes(_FLOAT.size, "little"))[0]
    return value


def _bits(value: float) -> int:
    try:
        data = _FLOAT.pack(value)
    except OverflowError:
        data = b""
    if not data or value - value != 0:
        raise InputError(f"expected a number that is finite as float32; got {value}")
    return int.from_bytes(data, "little")
