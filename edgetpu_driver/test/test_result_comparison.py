"""When a device is as right as LiteRT's own kernels, and when it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CpuEngine
from edgetpu_driver.cli.result_comparison import Comparison, scene_inputs
from edgetpu_driver.engines.graph_runner import GraphInThisProcess, GraphOperands
from edgetpu_driver.engines.whole_model.pipeline_segments import plan_model
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import Tensor, parse_model
from edgetpu_driver.tflite.model_writer import OperatorRecord, write_model
from edgetpu_driver.tflite.tensor import TensorSpec

Arrays = dict[str, NDArray[Any]]

pytest.importorskip("ai_edge_litert", reason="LiteRT computes the results (pip install ai-edge-litert)")


@pytest.fixture(scope="module")
def deep() -> bytes:
    """Twelve convolutions, whose roundings add up."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder("deep")
    value = builder.input("image", (1, 16, 16, 8), np.int8, scale=0.05, zero_point=3)
    for layer in range(12):
        weights = rng.integers(-127, 128, (8, 3, 3, 8))
        scales = rng.uniform(0.0015, 0.0025, 8)
        value = builder.conv_2d(
            value, weights, scales, scale=0.05, zero_point=3, activation="RELU" if layer % 2 else "NONE"
        )
    builder.output(value)
    return builder.build()


def outcome(graph: bytes, device: Callable[[Arrays], Arrays]) -> dict[str, bool]:
    """What the comparison says of a device over three runs."""
    plan = plan_model(graph)
    comparison, rng = Comparison(plan, graph), np.random.default_rng(1)
    for _ in range(3):
        inputs = scene_inputs(plan.inputs, rng)
        comparison.note(plan.steps[0], inputs, device(inputs))
    return {verdict.name: verdict.good for verdict in comparison.verdicts()}


def own_kernels(graph: bytes) -> GraphInThisProcess:
    runner = GraphInThisProcess("graph", GraphOperands.of(parse_model(graph).subgraphs[0]), xnnpack=False)
    runner.load(graph)
    return runner


def test_a_device_that_rounds_as_litert_s_other_kernels_is_right(deep: bytes) -> None:
    assert outcome(deep, own_kernels(deep).run) == {"results": True}


def test_a_device_that_is_given_another_picture_is_wrong(deep: bytes) -> None:
    engine = CpuEngine(deep)
    assert outcome(deep, lambda inputs: engine.run({"image": ~inputs["image"]})) == {"results": False}


def test_a_shallow_network_must_agree_within_one_step(make_dense: Callable[[int], bytes]) -> None:
    graph = make_dense(1)
    engine = CpuEngine(graph)

    def off_by(steps: int) -> Callable[[Arrays], Arrays]:
        def device(inputs: Arrays) -> Arrays:
            result = engine.run(inputs)["y"].astype(int)
            result[0, 0] += steps if result[0, 0] < 128 else -steps
            return {"y": result.astype(np.uint8)}

        return device

    assert outcome(graph, off_by(0))["results"] is True
    assert outcome(graph, off_by(2))["results"] is False


def test_the_largest_value_must_be_where_litert_has_it(make_dense: Callable[[int], bytes]) -> None:
    graph = make_dense(1)
    engine = CpuEngine(graph)

    def device(inputs: Arrays) -> Arrays:
        return {"y": engine.run(inputs)["y"][:, ::-1].copy()}

    assert outcome(graph, engine.run)["top results"] is True
    assert outcome(graph, device)["top results"] is False


def test_a_graph_of_operators_that_litert_lacks_has_nothing_to_compare() -> None:
    builder = GraphBuilder("decoder")
    maps = [
        builder.input(f"map {channels}", (1, 4, 4, channels), np.uint8, scale=1.0, zero_point=128)
        for channels in (17, 34, 64)
    ]
    poses = [TensorSpec(f"poses:{index}", (), np.dtype(np.float32), 0.0, 0) for index in range(4)]
    options = {"max_detections": 3, "score_threshold": 0.2, "stride": 16, "nms_radius": 10.0}
    for result in builder.custom("PosenetDecoderOp", maps, poses, flexbuffer.encode(options)):
        builder.output(result)
    graph = builder.build()
    with pytest.raises(ModelUnsupportedError, match="'decoder' has none"):
        Comparison(plan_model(graph, "decoder"), graph)


def of_one_operator(name: str, outputs: list[int]) -> bytes:
    """A graph of an operator on eight real numbers; outputs: 1 is the operator's."""
    tensors = [Tensor(each, (1, 8), np.dtype(np.float32)) for each in "xy"]
    return write_model("graph", tensors, [OperatorRecord(name, 1, (0,), (1,))], [0], outputs)


def test_a_graph_without_outputs_has_nothing_to_compare() -> None:
    graph = of_one_operator("ABS", outputs=[])
    with pytest.raises(ModelUnsupportedError, match="'sink' has none"):
        Comparison(plan_model(graph, "sink"), graph)


@pytest.mark.parametrize(("sign", "right"), [(1, True), (-1, False)])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_infinities_are_compared(sign: int, right: bool) -> None:
    graph = of_one_operator("LOG", outputs=[1])
    plan, zero = plan_model(graph), {"x": np.zeros((1, 8), np.float32)}
    comparison = Comparison(plan, graph)
    comparison.note(plan.steps[0], zero, {"y": np.full((1, 8), -sign * np.inf, np.float32)})
    assert comparison.verdicts()[0].good is right


def test_a_test_image_is_smooth_and_other_inputs_are_not() -> None:
    image = TensorSpec("image", (1, 64, 48, 3), np.dtype(np.int8), 1.0, 0)
    vector = TensorSpec("vector", (1, 64), np.dtype(np.uint8), 1.0, 0)
    inputs = scene_inputs([image, vector], np.random.default_rng(0))
    steps = np.abs(np.diff(inputs["image"].astype(int), axis=1))
    assert inputs["image"].shape == (1, 64, 48, 3)
    assert steps.max() <= 255 * 5 / 63 + 1
    assert np.ptp(inputs["image"].astype(int)) > 200
    assert np.abs(np.diff(inputs["vector"].astype(int))).max() > 100
