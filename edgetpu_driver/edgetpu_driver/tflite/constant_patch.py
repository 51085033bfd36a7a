"""Replaces constants and scales in the bytes of a .tflite file, e.g. its weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.model_reader import Tensor, parse_model


def replace_tensor(data: bytes, tensor: str, values: ArrayLike) -> bytes:
    """Return a copy of the file with other values in one constant of subgraph 0.

    values: of the constant's shape and representable in its dtype; only float constants are rounded. Raises
    ModelFormatError for a malformed file; InputError if there is no such constant, if other tensors share its
    bytes, or if the values do not fit.
    """
    return replace_tensors(data, {tensor: values})


def replace_tensors(data: bytes, values: Mapping[str, ArrayLike]) -> bytes:
    """Return a copy of the file with other values in several constants, by name; see `replace_tensor`."""
    tensors = parse_model(data).subgraphs[0].tensors
    users = Counter(each.buffer for each in tensors)
    patched = bytearray(data)
    for name, new in values.items():
        found = [each for each in tensors if each.name == name and each.data]
        if len(found) != 1:
            raise InputError(f"expected one constant tensor '{name}' in the model, found {len(found)}")
        target = found[0]
        if users[target.buffer] > 1:
            raise InputError(f"expected '{name}' to have its own buffer; other tensors share it")
        content = _content(target, new)
        patched[target.data_offset : target.data_offset + len(content)] = content
    return bytes(patched)


def _content(target: Tensor, values: ArrayLike) -> bytes:
    """The bytes of values in the tensor's dtype; InputError if they do not fit."""
    array = np.asarray(values)
    if array.shape != target.shape:
        raise InputError(f"expected {target.spec}, got values of shape {list(array.shape)}")
    with np.errstate(all="ignore"):
        fitting = array.astype(target.dtype)
    rounding_is_fine = target.dtype.kind == "f" and array.dtype.kind in "iuf"
    if not rounding_is_fine and not np.array_equal(fitting, array):
        raise InputError(
            f"expected values that {target.dtype} can hold for '{target.name}', got {array.dtype}"
        )
    return fitting.tobytes()


def replace_scales(data: bytes, tensor: str, scales: ArrayLike) -> bytes:
    """Return a copy of the file with other quantisation scales for one tensor of subgraph 0.

    scales: as many as before. Raises ModelFormatError for a malformed file; InputError unless there is
    exactly one tensor of that name, or for another number of scales.
    """
    found = [each for each in parse_model(data).subgraphs[0].tensors if each.name == tensor]
    if len(found) != 1:
        raise InputError(f"expected one tensor '{tensor}' in the model, found {len(found)}")
    values = np.asarray(scales, "<f4")
    quantization = found[0].quantization
    if values.shape != quantization.scales.shape:
        expected = quantization.scales.size
        raise InputError(f"expected {expected} scales for '{tensor}', got {list(values.shape)}")
    start = quantization.scales_offset
    return data[:start] + values.tobytes() + data[start + values.nbytes :]
