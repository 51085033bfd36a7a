"""The transfers of EdgeTpu for real compiled models, in order."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import pytest

from edgetpu_driver import CompiledModel, EdgeTpu
from edgetpu_driver.darwinn.executable import Description, DmaHint
from edgetpu_driver.darwinn.wire_format import input_from_wire
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.usb.framing import EVENT, HEADER
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from testdata import GOLDEN, ModelFolder
from testdata.devices.wire_recording import RECORDED_MODELS, Step, digest, first_run, pattern, recording


class RecordingStick(VirtualEdgeTpu):
    """Starts like a stick; accepts any frame, returns outputs of the listed sizes and events on request."""

    def __init__(self, output_sizes: list[int]) -> None:
        super().__init__()
        self.steps: list[dict[str, Any]] = []
        self._left = deque(output_sizes)
        self._frame = b""

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: array[int], timeout: int) -> int:  # noqa: ARG002
        self._frame += data.tobytes()
        length, tag = HEADER.unpack_from(self._frame)
        if len(self._frame) == HEADER.size + length:
            sha256 = hashlib.sha256(self._frame).hexdigest()
            self.steps.append({"out": tag, "bytes": length, "sha256": sha256})
            self._frame = b""
        return len(data)

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: array[int], timeout: int) -> int:  # noqa: ARG002
        if ep == 0x82:
            self.steps.append({"event": "0x82"})
            buff[:] = array("B", EVENT.pack(0, 0, 4))
            return EVENT.size
        size = self._left.popleft()
        assert len(buff) >= size
        self.steps.append({"in": "0x81", "bytes": size})
        return size


def expected_steps(golden: ModelFolder, name: str) -> list[Step]:
    """Upload, then inference, as recorded."""
    compiled = f"{name}_edgetpu"
    description = recording(f"{compiled}.tflite", golden.model(f"{compiled}.tflite").read_bytes())
    assert digest(description) == GOLDEN.sha256(f"wire/{compiled}.json")
    return first_run(description)


def pattern_inputs(model: CompiledModel) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of the recordings."""
    inputs = {}
    for spec, layer in zip(model.inputs, model.input_layers, strict=True):
        k = model.execution.inputs.index(layer)
        wire = pattern(k, layer.size_bytes)
        inputs[spec.name] = input_from_wire(layer, wire).view(spec.dtype).reshape(spec.shape)
    return inputs


def is_output(hint: object) -> bool:
    return isinstance(hint, DmaHint) and hint.description is Description.OUTPUT


@pytest.mark.parametrize("name", RECORDED_MODELS)
def test_first_run_uploads_and_infers_exactly_as_recorded(golden: ModelFolder, name: str) -> None:
    expected = expected_steps(golden, name)
    stick = RecordingStick([step["bytes"] for step in expected if "in" in step])
    model = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
    with EdgeTpu.open(usb_backend=stick) as tpu:
        tpu.run(model, pattern_inputs(model))
    assert stick.steps == expected


WITH_FLATBUFFERS_2_0 = {
    "dense": "8e53b4dcd431c2dd6c526faf0ab496ab47afaabd88a9d29e854d55cfcb310b4f",
    "image": "1c8a397d05c5075c173f63c74395c4e79fdfeb8e753783755829b03a23dbdbc0",
}
"""It writes 16 bytes less for the graph "dense", on which the packed program depends."""


def an_image() -> bytes:
    """Two inputs, and an output that leaves the chip in tiles."""
    graph = GraphBuilder("image")
    first = graph.input("first", (1, 16, 16, 4), np.int8, scale=0.5, zero_point=0)
    second = graph.input("second", (1, 16, 16, 4), np.int8, scale=0.5, zero_point=0)
    graph.output(graph.add(first, second, scale=1.0, zero_point=0, name="sum"))
    return graph.build()


@pytest.mark.parametrize(
    ("kind", "transfers", "sha256"),
    [
        (
            "dense",
            [(0, 1072), (2, 128), (0, 5952), (1, 16)],
            "1306a28d8b3b5072250c0d1d0006db5e3d40314daf03b0455cbad71a627d936c",
        ),
        (
            "image",
            [(0, 3904), (1, 1024), (1, 1024)],
            "1c8a397d05c5075c173f63c74395c4e79fdfeb8e753783755829b03a23dbdbc0",
        ),
    ],
)
def test_first_run_of_a_packed_graph_is_as_recorded(
    make_dense: Callable[[int], bytes], kind: str, transfers: list[tuple[int, int]], sha256: str
) -> None:
    """Detects changes of the wire without any compiled model."""
    model = CompiledModel.parse(pack(make_dense(1) if kind == "dense" else an_image(), name=kind))
    stick = RecordingStick([hint.size for hint in model.execution.hints if is_output(hint)])
    with EdgeTpu.open(usb_backend=stick) as tpu:
        tpu.run(model, pattern_inputs(model))
    assert [(step["out"], step["bytes"]) for step in stick.steps if "out" in step] == transfers
    found = hashlib.sha256(json.dumps(stick.steps).encode()).hexdigest()
    assert found == (WITH_FLATBUFFERS_2_0[kind] if flatbuffers.__version__ == "2.0" else sha256)


def test_second_run_of_a_cached_model_sends_no_parameters(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    stick = RecordingStick([256, 256])
    with EdgeTpu.open(usb_backend=stick) as tpu:
        tpu.run(model, pattern_inputs(model))
        stick.steps.clear()
        tpu.run(model, pattern_inputs(model))
    assert [step.get("out") for step in stick.steps] == [0, 1, None, None]


def test_streamed_parameters_are_sent_with_every_inference(golden: ModelFolder) -> None:
    name = "movenet_single_pose_lightning_ptq"
    model = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
    sizes = [step["bytes"] for step in expected_steps(golden, name) if "in" in step]
    stick = RecordingStick(2 * sizes)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        tpu.run(model, pattern_inputs(model))
        stick.steps.clear()
        tpu.run(model, pattern_inputs(model))
    sent = [(step["out"], step["bytes"]) for step in stick.steps if "out" in step]
    assert sent == [(0, 133408), (1, 110592), (2, 64), (2, 2304)]


@pytest.mark.parametrize("same_token", [True, False])
def test_models_that_fill_the_same_memory_are_uploaded_in_turn(golden: ModelFolder, same_token: bool) -> None:
    names = (
        "mobilenet_v1_0.25_128_quant",
        "mobilenet_v1_0.25_128_quant_cocompiled_with_mobilenet_v1_0.5_160_quant",
    )
    first, second = (CompiledModel.load(golden.model(f"{name}_edgetpu.tflite")) for name in names)
    if same_token:
        first = replace(
            first, execution=replace(first.execution, parameter_caching_token=second.parameter_caching_token)
        )
    stick = RecordingStick([1008] * 4)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        for model in (first, second) * 2:
            tpu.run(model, pattern_inputs(model))
        assert tpu.info().uploads == 4


def test_refuses_a_model_whose_hints_are_not_deterministic(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("keras_lstm_mnist_ptq_edgetpu.tflite"))
    inputs = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in model.inputs}
    stick = RecordingStick([])
    refused = pytest.raises(ModelUnsupportedError, match="not fully deterministic")
    with EdgeTpu.open(usb_backend=stick) as tpu, refused:
        tpu.run(model, inputs)
    assert stick.steps == []
