"""Compact copies of model files without weights: operators, anchors, metadata and labels."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.model_reader import parse_model

_LARGEST_KEPT = 1024
"""Maximum size of a constant to keep, bytes. Uncritical: shapes are smaller, all but tiny weights larger."""
_LARGEST_SENT = 2**21
"""Maximum size of the result, bytes; anchors and labels take up to some 100 kB."""
_LARGEST_FILES = 2**28
"""Maximum size of all unpacked files together, bytes, so that a small archive cannot fill the memory."""


def without_weights(files: Iterable[bytes]) -> bytes:
    """Replace weights and programs by zeros and compress each file with zlib; returns them concatenated.

    Keeps constants of custom operators, such as anchors. Returns b"" if the result is too large for a
    message. Raises ModelFormatError for a file that is not a model.
    """
    result = b"".join(zlib.compress(_zeroed(data)) for data in files)
    return result if len(result) <= _LARGEST_SENT else b""


def weightless_files(data: bytes, largest: int = _LARGEST_FILES) -> tuple[bytes, ...]:
    """Unpack a result of `without_weights`; InputError for anything else, or more than `largest` bytes."""
    return tuple(_streams(data, largest))


def _zeroed(data: bytes) -> bytes:
    copy = np.frombuffer(data, np.uint8).copy()
    for graph in parse_model(data).subgraphs:
        custom = [operator for operator in graph.operators if operator.custom_code]
        kept = {graph.tensors[index].buffer for each in custom for index in each.inputs if index >= 0}
        for tensor in graph.tensors:
            if len(tensor.data) > _LARGEST_KEPT and tensor.buffer not in kept:
                copy[tensor.data_offset : tensor.data_offset + len(tensor.data)] = 0
        for operator in custom:
            if len(operator.custom_options) > _LARGEST_KEPT:
                start = _address(operator.custom_options) - _address(data)
                copy[start : start + len(operator.custom_options)] = 0
    return copy.tobytes()


def _address(data: bytes | memoryview) -> int:
    view: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
    return int(view.ctypes.data)


def _streams(data: bytes, largest: int) -> Iterator[bytes]:
    left = largest
    while data:
        stream = zlib.decompressobj()
        try:
            content = stream.decompress(data, left + 1)  # 0 would be no limit
        except zlib.error as error:
            raise InputError(f"expected files compressed by zlib; got {error}") from None
        if not stream.eof or len(content) > left:
            raise InputError(
                f"expected complete files of at most {largest} bytes together; got a truncated one or more"
            )
        left -= len(content)
        yield content
        data = stream.unused_data
