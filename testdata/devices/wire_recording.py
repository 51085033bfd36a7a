"""The transfers between a compiled model and a stick, in the form of the recordings golden/wire/*.json.

A recording lists the executables of a model with their transfers in order. A sent frame is described by its
tag, the length of its payload, and the SHA-256 of header (u32 length, u32 tag, little endian) and payload.
The inputs are a pattern: byte i of the k-th input layer is (31 i + 7 + 13 k) % 256; beyond the end of the
layer, bytes are 0.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import Any

import numpy as np

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import (
    Description,
    DmaHint,
    Executable,
    InstructionHint,
    InterruptHint,
    Layer,
)

Step = dict[str, Any]

RECORDED_MODELS = (
    "bright_64x64",
    "color_red_64x64",
    "deeplabv3_mnv2_pascal_quant",
    "dense_256",
    "gabor_64x64_7k_4o_2s",
    "gabor_64x64_p4",
    "looming_64x64_3x3",
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v1_0.25_128_quant_cocompiled_with_mobilenet_v1_0.5_160_quant",
    "movenet_single_pose_lightning_ptq",
    "posenet_mobilenet_v1_075_353_481_16_quant_decoder",
    "ssd_mobilenet_v1_coco_quant_postprocess_segment_1_of_2",
)
"""Names of the models that have a recording."""


def recording(name: str, data: bytes) -> dict[str, Any]:
    """Describe a compiled model, the contents of the file `name`, as its recording does."""
    model = CompiledModel.parse(data)
    executables = [model.execution] if model.caching is None else [model.execution, model.caching]
    return {
        "model": name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "executables": [_executable(each) for each in executables],
    }


def digest(recording: dict[str, Any]) -> str:
    """Return the SHA-256 of the file that holds a recording."""
    return hashlib.sha256((json.dumps(recording, indent=1) + "\n").encode()).hexdigest()


def first_run(recording: dict[str, Any]) -> list[Step]:
    """Return the transfers of an upload and an inference, without the names of layers."""
    by_type = {executable["type"]: executable["wire"] for executable in recording["executables"]}
    steps = by_type.get("PARAMETER_CACHING", []) + by_type["EXECUTION_ONLY"]
    return [{key: value for key, value in step.items() if key not in ("layer", "offset")} for step in steps]


def pattern(k: int, size_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of the k-th input layer on the wire."""
    return ((31 * np.arange(size_bytes) + 7 + 13 * k) % 256).astype(np.uint8)


def frame_digest(tag: int, payload: bytes) -> str:
    """Return the SHA-256 of a frame: header and payload."""
    return hashlib.sha256(struct.pack("<II", len(payload), tag) + payload).hexdigest()


def _executable(executable: Executable) -> dict[str, Any]:
    sent = [
        hint.name
        for hint in executable.hints
        if isinstance(hint, DmaHint) and hint.description is Description.OUTPUT
    ]
    outputs = sorted(executable.outputs, key=lambda layer: sent.index(layer.name))
    return {
        "type": executable.type.name,
        "parameter_caching_token": f"{executable.parameter_caching_token:#x}",
        "parameter_bytes": len(executable.parameters),
        "bitstream_bytes": [len(bitstream.data) for bitstream in executable.bitstreams],
        "inputs": [[layer.name, *layer.shape, layer.size_bytes] for layer in executable.inputs],
        "outputs": [_output(layer) for layer in outputs],
        "wire": [_step(executable, hint) for hint in executable.hints],
    }


def _output(layer: Layer) -> list[Any]:
    return [layer.name, *layer.shape, layer.size_bytes, layer.zero_point, layer.dequantization_factor]


def _step(executable: Executable, hint: object) -> Step:
    if isinstance(hint, InterruptHint):
        return {"event": "0x82"}
    if isinstance(hint, InstructionHint):
        return _frame(0, executable.bitstreams[hint.chunk].data)
    if not isinstance(hint, DmaHint):
        raise TypeError(f"expected a hint of a transfer; got {hint}")
    if hint.description is Description.PARAMETER:
        return _frame(2, bytes(executable.parameters[hint.offset : hint.offset + hint.size]))
    if hint.description is Description.OUTPUT:
        return {"in": "0x81", "bytes": hint.size, "layer": hint.name}
    names = [layer.name for layer in executable.inputs]
    k = names.index(hint.name)
    layer_bytes = pattern(k, math.prod(executable.inputs[k].shape)).tobytes()
    payload = layer_bytes[hint.offset : hint.offset + hint.size].ljust(hint.size, b"\0")
    return {**_frame(1, payload), "layer": hint.name, "offset": hint.offset}


def _frame(tag: int, payload: bytes) -> Step:
    return {"out": tag, "bytes": len(payload), "sha256": frame_digest(tag, payload)}
