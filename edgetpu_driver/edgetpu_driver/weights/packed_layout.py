"""The packed layout of parameters, which the virtual packer uses: the weights of a graph one after another.

For every CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED, in execution order, the layout has the weights and
then the bias, each as stored in the graph and padded with zeros to 8 bytes. Constants that operators share
are stored once. As on the chip, the sign bit of int8 weights is flipped.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.model_reader import Tensor, parse_model
from edgetpu_driver.tflite.weighted_operators import weights_and_biases

_ALIGNMENT = 8
"""Alignment of tensors, bytes: a word of the wire."""
_SIGN_BIT = np.uint8(0x80)


def parameters_of(graph: bytes) -> bytes:
    """The parameter bytes of a .tflite graph; b"" if it has no weights."""
    blob = bytearray()
    for values, sign in _weights(bytearray(graph)):
        blob += (values ^ sign).tobytes()
        blob += bytes(-len(blob) % _ALIGNMENT)
    return bytes(blob)


def with_parameters(graph: bytes, parameters: bytes) -> bytes:
    """The graph with these weights; InputError unless their size is that of `parameters_of`."""
    expected = len(parameters_of(graph))
    if len(parameters) != expected:
        raise InputError(f"expected {expected} parameter bytes, got {len(parameters)}")
    blob = np.frombuffer(parameters, np.uint8)
    patched = bytearray(graph)
    position = 0
    for values, sign in _weights(patched):
        values[:] = blob[position : position + values.size] ^ sign
        position += values.size + -values.size % _ALIGNMENT
    return bytes(patched)


def weight_offsets(graph: bytes) -> dict[str, int]:
    """The byte offset of each weight tensor and bias in the parameters, by its name."""
    offsets, position = {}, 0
    for tensor in _weight_tensors(graph):
        offsets[tensor.name] = position
        position += len(tensor.data) + -len(tensor.data) % _ALIGNMENT
    return offsets


def _weights(graph: bytearray) -> Iterator[tuple[NDArray[np.uint8], np.uint8]]:
    """Writable views of the graph's weights, and the mask to XOR each byte with."""
    for tensor in _weight_tensors(bytes(graph)):
        sign = _SIGN_BIT if tensor.dtype == np.int8 else np.uint8(0)
        yield np.frombuffer(graph, np.uint8, len(tensor.data), tensor.data_offset), sign


def _weight_tensors(graph: bytes) -> list[Tensor]:
    """The weights and biases; parsing has checked every offset that the views rely on."""
    by_buffer: dict[int, Tensor] = {}
    for tensor in weights_and_biases(parse_model(graph).subgraphs[0]):
        by_buffer.setdefault(tensor.buffer, tensor)
    return list(by_buffer.values())
