"""Replaces constants and scales in the bytes of a .tflite file, e.g. with other weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.model_reader import parse_model


def replace_tensor(data: bytes, tensor: str, values: ArrayLike) -> bytes:
    """Copy the file with other values in one constant of subgraph 0.

    values: of the constant's shape and representable in its dtype; only float constants are rounded. Raises
    ModelFormatError for a malformed file; InputError when there is no such constant, when other tensors share
    its bytes, or when the values do not fit.
    """
    tensors = parse_model(data).subgraphs[0].tensors
    found = [each for each in tensors if each.name == tensor and each.data]
    if len(found) != 1:
        raise InputError(f"expected one constant tensor '{tensor}' in the model, found {len(found)}")
    target = found[0]
    if sum(each.buffer == target.buffer for each in tensors) > 1:
        raise InputError(f"expected a buffer of its own for '{tensor}', it is shared with other tensors")
    array = np.asarray(values)
    if array.shape != target.shape:
        raise InputError(f"expected {target.spec}, got values of shape {list(array.shape)}")
    with np.errstate(all="ignore"):
        fitting = array.astype(target.dtype)
    rounding_is_fine = target.dtype.kind == "f" and array.dtype.kind in "iuf"
    if not rounding_is_fine and not np.array_equal(fitting, array):
        raise InputError(f"expected values that {target.dtype} can hold for '{tensor}', got {array.dtype}")
    start = target.data_offset
    return data[:start] + fitting.tobytes() + data[start + len(target.data) :]


def replace_scales(data: bytes, tensor: str, scales: ArrayLike) -> bytes:
    """Copy the file with other quantisation scales of one tensor of subgraph 0.

    scales: the same number as before. Raises ModelFormatError for a malformed file; InputError when there is
    not exactly one tensor of that name, or for another number of scales.
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
