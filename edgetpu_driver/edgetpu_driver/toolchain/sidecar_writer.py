"""Writes sidecar files: the JSON description x.json next to a graph x.tflite."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from edgetpu_driver.tflite.model_reader import Tensor, parse_model

BUILDER_VERSION = 1
"""Version of the graphs; incremented when a name denotes another graph than before."""


def describe(name: str, data: bytes) -> dict[str, Any]:
    """Describe the bytes of a .tflite file; ModelFormatError if they are malformed.

    Inputs, outputs and tensors have a shape, a dtype and, where quantised, scales and zero points: one of
    each, or one for each element along `axis`. real value = scale * (value - zero point).
    """
    graph = parse_model(data).subgraphs[0]
    constants = {tensor.buffer: len(tensor.data) for tensor in graph.tensors}
    return {
        "name": name,
        "file": f"{name}.tflite",
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "builder_version": BUILDER_VERSION,
        "parameter_bytes": sum(constants.values()),
        "inputs": [graph.tensors[index].name for index in graph.inputs],
        "outputs": [graph.tensors[index].name for index in graph.outputs],
        "operators": [operator.custom_code or operator.name for operator in graph.operators],
        "tensors": [_tensor(tensor) for tensor in graph.tensors],
    }


def to_text(description: dict[str, Any]) -> str:
    """The sidecar's content, always the same for the same description."""
    lines = [f"  {json.dumps(key)}: {_value(key, value)}" for key, value in description.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _value(key: str, value: Any) -> str:
    if key != "tensors":
        return json.dumps(value)
    return "[\n" + ",\n".join(f"    {json.dumps(tensor)}" for tensor in value) + "\n  ]"


def _tensor(tensor: Tensor) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": tensor.name,
        "dtype": tensor.dtype.name,
        "shape": list(tensor.shape),
        "constant": bool(tensor.data),
    }
    quantization = tensor.quantization
    if quantization.scales.size:
        # As float64, so that reading the text restores the exact float32.
        described["scales"] = [float(scale) for scale in quantization.scales]
        described["zero_points"] = [int(point) for point in quantization.zero_points]
    if quantization.scales.size > 1:
        described["axis"] = quantization.axis
    return described
