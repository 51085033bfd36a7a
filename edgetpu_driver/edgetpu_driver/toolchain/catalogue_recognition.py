"""Recognises graphs of the catalogue by their content."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.tflite.model_reader import Model, parse_model
from edgetpu_driver.tflite.weighted_operators import weights_and_biases
from edgetpu_driver.toolchain.graph_catalogue import catalogue
from edgetpu_driver.toolchain.graph_family import build_graph

_SIZES = re.compile(r"\d{1,4}(x\d{1,4})?")
_LARGEST_SIZE = 2048
"""Largest size in the name of a graph that is built for a comparison; larger graphs do not fit on a chip."""


def is_of_catalogue(data: bytes) -> bool:
    """Whether a .tflite file is a graph of the catalogue, with any weights, biases and their scales.

    The graph is built again by the name in its description, and all other bytes must be equal. The file's own
    name does not matter. Raises ModelFormatError.
    """
    model = parse_model(data)
    reference = _reference(model.description)
    return reference is not None and _fixed_part(data, model) == reference


@lru_cache(maxsize=64)
def _reference(name: str) -> bytes | None:
    """The digest of the fixed part of the catalogue's graph of that name; None if there is none."""
    if not re.fullmatch(r"\w{1,255}", name, re.ASCII):
        return None
    sizes = [part.split("x") for part in name.split("_") if _SIZES.fullmatch(part)]
    if any(int(size) > _LARGEST_SIZE for part in sizes for size in part):
        return None
    try:
        data = build_graph(name, catalogue().families)
    except EdgeTpuError:
        return None
    return _fixed_part(data, parse_model(data))


def _fixed_part(data: bytes, model: Model) -> bytes:
    """Digest of a file without its weights, biases and their scales."""
    rest = bytearray(data)
    for tensor in weights_and_biases(model.subgraphs[0]):
        scales = tensor.quantization
        for start, size in (
            (tensor.data_offset, len(tensor.data)),
            (scales.scales_offset, scales.scales.nbytes),
        ):
            rest[start : start + size] = bytes(size)
    return hashlib.sha256(rest).digest()
