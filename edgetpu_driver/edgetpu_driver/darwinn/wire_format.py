"""Converts between NumPy values of a layer and the bytes on the USB link.

The chip computes on unsigned numbers: elements of signed fixed-point layers have their most significant bit
flipped on the wire, in both directions (vendor driver).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.executable import DataType, Layer

_SIGN_BIT: dict[DataType, np.uint8 | np.uint16] = {
    DataType.SIGNED_FIXED_POINT8: np.uint8(0x80),
    DataType.SIGNED_FIXED_POINT16: np.uint16(0x8000),
}


def flip_sign(values: NDArray[Any], data_type: DataType) -> None:
    """Flip, in place, the most significant bit of each element if data_type is signed fixed-point.

    values: contiguous, of the element size of data_type. Flipping twice restores them.
    """
    sign_bit = _SIGN_BIT.get(data_type)
    if sign_bit is not None:
        bits = values.view(sign_bit.dtype)
        np.bitwise_xor(bits, sign_bit, out=bits)


def input_to_wire(
    layer: Layer, values: NDArray[Any], out: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """Bytes of an input layer on the link, uint8[size_bytes]; zero after the last element.

    values: layer.element_count elements of layer.data_type.dtype in (y, x, z) order, any shape. out, if
    given, receives the bytes and is returned; its bytes after the last element stay unchanged.
    """
    wire = np.zeros(layer.size_bytes, np.uint8) if out is None else out
    elements = wire[: layer.element_count * layer.data_type.size].view(layer.data_type.dtype)
    elements[:] = values.reshape(-1)
    flip_sign(elements, layer.data_type)
    return wire


def input_from_wire(layer: Layer, wire: NDArray[np.uint8]) -> NDArray[Any]:
    """The inverse of input_to_wire: (y, x, z) values of layer.data_type.dtype, a copy."""
    elements = wire[: layer.element_count * layer.data_type.size].copy().view(layer.data_type.dtype)
    flip_sign(elements, layer.data_type)
    return elements.reshape(layer.shape)
