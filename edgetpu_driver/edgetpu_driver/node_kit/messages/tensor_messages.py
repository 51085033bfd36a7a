"""Convert arrays and tensor specifications to messages and back."""

from __future__ import annotations

import array
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.file_tables import DTYPES
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_msgs.msg import Tensor, TensorInfo

LARGEST_RANK = 32
"""Largest number of dimensions that every version of NumPy takes; models have 8 at most."""

# The codes of Tensor are those of the format. All are needed: ~/list_models describes any model that runs.
_DTYPES = {code: dtype.newbyteorder("<") for code, dtype in DTYPES.items()}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


def dtype_code(dtype: np.dtype[Any]) -> int:
    """Return the constant of Tensor for a NumPy dtype; InputError if there is none."""
    try:
        return _CODES[dtype.newbyteorder("<")]
    except KeyError:
        known = ", ".join(known.name for known in _CODES)
        raise InputError(f"expected an array of one of {known}; got {dtype}") from None


def dtype_of(code: int) -> np.dtype[Any]:
    """Return the NumPy dtype for a constant of Tensor; InputError for any other number."""
    try:
        return _DTYPES[code]
    except KeyError:
        known = ", ".join(f"{code} ({dtype.name})" for code, dtype in _DTYPES.items())
        raise InputError(f"expected a tensor dtype of {known}; got {code}") from None


def to_message(spec: TensorSpec, values: NDArray[Any]) -> Tensor:
    """Make the message of one tensor from its specification and its values."""
    code = dtype_code(values.dtype)
    data = array.array("B")
    # The setter of a uint8[] field takes an array('B') as it is; anything else is copied byte by byte.
    data.frombytes(np.ascontiguousarray(values, _DTYPES[code]).tobytes())
    return Tensor(
        name=spec.name,
        dtype=code,
        shape=list(values.shape),
        scale=float(spec.scale),
        zero_point=int(spec.zero_point),
        data=data,
    )


def from_message(message: Tensor) -> NDArray[Any]:
    """View the values of a message, without copying, in its shape and dtype.

    Raises InputError for an unknown dtype, for more than LARGEST_RANK dimensions, or when the number of bytes
    is not product(shape) * element size.
    """
    dtype = dtype_of(message.dtype)
    if len(message.shape) > LARGEST_RANK:
        raise InputError(
            f"tensor '{message.name}': expected at most {LARGEST_RANK} dimensions; got {len(message.shape)}"
        )
    shape = tuple(int(size) for size in message.shape)
    expected = math.prod(shape) * dtype.itemsize
    if len(message.data) != expected:
        raise InputError(
            f"tensor '{message.name}': expected {expected} bytes for {dtype.name}{list(shape)}; "
            f"got {len(message.data)}"
        )
    try:
        return np.frombuffer(message.data, dtype).reshape(shape)
    except ValueError as error:  # an empty tensor with sizes that NumPy does not take
        raise InputError(
            f"tensor '{message.name}': expected a shape of an array; got {list(shape)}"
        ) from error


def inputs_from_messages(messages: Sequence[Tensor]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a request by name, which is "" for an unnamed one.

    Raises InputError for a malformed tensor or a name that occurs twice. Whether names, shapes and dtypes
    are those of the model is checked by `tensor.check_inputs`.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for message in messages:
        if message.name in arrays:
            raise InputError(f"expected every input once; got '{message.name}' twice")
        arrays[message.name] = from_message(message)
    return arrays


def spec_to_message(spec: TensorSpec) -> TensorInfo:
    """Make the message of a tensor specification."""
    return TensorInfo(
        name=spec.name,
        dtype=dtype_code(spec.dtype),
        shape=list(spec.shape),
        scale=float(spec.scale),
        zero_point=int(spec.zero_point),
    )


def spec_from_message(message: TensorInfo) -> TensorSpec:
    """Read a tensor specification from its message; InputError for an unknown dtype."""
    return TensorSpec(
        name=message.name,
        shape=tuple(int(size) for size in message.shape),
        dtype=dtype_of(message.dtype),
        scale=float(message.scale),
        zero_point=int(message.zero_point),
    )


def specs_from_messages(messages: Iterable[TensorInfo]) -> tuple[TensorSpec, ...]:
    """Read the specifications of a model's inputs or outputs."""
    return tuple(spec_from_message(message) for message in messages)
