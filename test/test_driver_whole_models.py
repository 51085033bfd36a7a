"""Whole models through the driver node: services, and the nodes' client across processes and within one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import InputError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.messages.tensor_messages import from_message
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.weightless_files import weightless_files
from edgetpu_msgs.msg import DeviceStatus, ErrorCode, ModelInfo, ModelPart, Tensor
from edgetpu_msgs.srv import Invoke, ListModels, LoadModel
from testdata.graphs.compiled_graphs import compiled_graph, segments, source_graph
from testdata.timeouts import PATIENCE

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
IMAGE = np.array([[0, 50, 100, 128, 130, 180, 220, 255]], np.uint8)
X = IMAGE.view(np.int8)
LOCAL = "/local/edgetpu"
SEGMENTS = [f"chain_segment_{number}_of_3" for number in range(3)]


@pytest.fixture(scope="module")
def whole_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """parts: a compiled graph with two parts for the Edge TPU; chain: a pipeline of three segments."""
    folder = tmp_path_factory.mktemp("whole_models")
    (folder / "parts.tflite").write_bytes(source_graph(2))
    (folder / "parts_edgetpu.tflite").write_bytes(compiled_graph(2))
    whole, compiled = segments(3)
    (folder / "chain.tflite").write_bytes(whole)
    for name, data in zip(SEGMENTS, compiled, strict=True):
        (folder / f"{name}_edgetpu.tflite").write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def driver(graph: Any, start_node: Any, whole_model_dir: Path) -> Iterator[None]:
    process = start_node(
        "edgetpu_driver",
        "edgetpu_node",
        backend="virtual",
        model_dirs=f"[{whole_model_dir}]",
        models=f"[parts, '{SEGMENTS[0]},{SEGMENTS[1]}, {SEGMENTS[2]}']",
        status_period=0.2,
    )
    graph.await_device()
    yield
    process.stop()


@pytest.fixture
def local_driver(graph: Any, whole_model_dir: Path) -> Iterator[None]:
    """A driver in this process, in a namespace of its own: the one in another process is ready already."""
    parameters = {"backend": "virtual", "model_dirs": [str(whole_model_dir)]}
    overrides = [Parameter(name, value=value) for name, value in parameters.items()]
    driver = DriverNode(parameter_overrides=overrides, namespace="/local")
    graph.add_node(driver)
    graph.await_device(LOCAL)
    yield
    graph.remove_node(driver)
    driver.destroy_node()


def invoke(graph: Any, model: str, values: Any, **fields: Any) -> Invoke.Response:
    dtype = {"uint8": Tensor.UINT8, "int8": Tensor.INT8}[values.dtype.name]
    tensor = Tensor(dtype=dtype, shape=values.shape, data=values.tobytes())
    return graph.call(Invoke, "/edgetpu/invoke", model=model, inputs=[tensor], **fields)


def check_outputs(response: Invoke.Response, expected: dict[str, Any]) -> None:
    assert response.success, response.message
    assert [tensor.name for tensor in response.outputs] == list(expected)
    for tensor in response.outputs:
        np.testing.assert_array_equal(from_message(tensor), expected[tensor.name])


def result_of(graph: Any, client: ModelClient, inputs: dict[str, Any], **options: Any) -> InferenceResult:
    results: list[InferenceResult] = []
    graph.spin_until(lambda: client.ready)
    assert client.invoke(inputs, results.append, **options)
    graph.spin_until(lambda: bool(results))
    client.close()
    return results[0]


@pytest.mark.usefixtures("driver")
class TestServices:
    def test_a_result_is_that_of_the_whole_graph(self, graph: Any) -> None:
        response = invoke(graph, "parts", IMAGE)
        check_outputs(response, CpuEngine(source_graph(2)).run({"image": IMAGE}))
        assert response.part == 0

    def test_one_part_alone_is_asked_for_and_told(self, graph: Any) -> None:
        expected = CpuEngine(source_graph(1)).run({"image": IMAGE})["b0"]
        inner = (IMAGE.astype(np.int16) - 128).astype(np.int8)  # what the QUANTIZE before it gives
        response = invoke(graph, "parts", inner, part=1)
        check_outputs(response, {"b0": expected})
        assert response.part == 1

    def test_a_part_that_is_not_there_is_refused(self, graph: Any) -> None:
        response = invoke(graph, "parts", IMAGE, part=3)
        assert (response.success, response.error.value) == (False, ErrorCode.BAD_INPUT)
        assert response.message == "expected part 1 to 2 of 'parts', or 0 for the whole model; got 3"

    def test_segments_are_one_model(self, graph: Any, whole_model_dir: Path) -> None:
        loaded = graph.call(
            LoadModel, "/edgetpu/load_model", segments=SEGMENTS, name="pipeline", shared=True, wait=True
        )
        assert loaded.success, loaded.message
        files = [str(whole_model_dir / f"{name}_edgetpu.tflite") for name in SEGMENTS]
        assert (list(loaded.info.paths), loaded.info.path) == (files, files[0])
        check_outputs(invoke(graph, "pipeline", X), CpuEngine(segments(3)[0]).run({"x0": X}))

    def test_a_model_and_segments_are_refused(self, graph: Any) -> None:
        response = graph.call(LoadModel, "/edgetpu/load_model", model="parts", segments=SEGMENTS)
        assert (response.success, response.message) == (False, "expected a model or its segments; got both")

    def test_what_runs_where_is_listed(self, graph: Any) -> None:
        invoke(graph, "parts", IMAGE)
        listed = {info.name: info for info in graph.call(ListModels, "/edgetpu/list_models").models}
        info: ModelInfo = listed["parts"]
        assert [spec.name for spec in info.inputs] == ["image"]
        assert [spec.name for spec in info.outputs] == ["b0", "last"]
        edge_tpu, cpu = ModelPart.EDGE_TPU, ModelPart.CPU
        assert [part.device for part in info.parts] == [cpu, edge_tpu, cpu, edge_tpu, cpu]
        assert [list(part.operators) for part in info.parts] == [
            ["QUANTIZE"],
            ["edgetpu-custom-op"],
            ["QUANTIZE", "QUANTIZE"],
            ["edgetpu-custom-op"],
            ["QUANTIZE"],
        ]
        assert [spec.name for spec in info.parts[1].inputs] == ["a0"]
        assert [list(part.sticks) for part in info.parts[:2]] == [[], ["2-1"]]
        assert info.uploads == sum(part.uploads for part in info.parts) >= 2

    def test_uploads_are_counted_for_each_model(self, graph: Any) -> None:
        states = graph.collect(DeviceStatus, "/edgetpu/status", LATCHED)
        for _ in range(2):
            invoke(graph, "parts", IMAGE)
            invoke(graph, "chain", X)

        def uploads(model: str) -> int:
            counts = zip(states[-1].uploaded_models, states[-1].uploads_of_models, strict=True)
            return dict(counts).get(model, 0)

        graph.spin_until(lambda: bool(states) and uploads("parts") >= 2 and uploads("chain") >= 3)


@pytest.mark.usefixtures("driver")
def test_a_client_in_another_process_gets_whole_results(graph: Any) -> None:
    client = ModelClient(graph.node, "parts", request_timeout=PATIENCE, sets_weights=False)
    result = result_of(graph, client, {"image": IMAGE})
    assert result.error is None
    for name, values in CpuEngine(source_graph(2)).run({"image": IMAGE}).items():
        np.testing.assert_array_equal(result.outputs[name], values)


def check_one_part(graph: Any, client: ModelClient) -> None:
    graph.spin_until(lambda: client.ready)
    assert [spec.name for part in client.loaded.parts for spec in part.inputs] == ["a0", "a1"]
    with pytest.raises(InputError, match="expected part 1 to 2 of 'parts', or 0; got 3"):
        client.invoke({"image": IMAGE}, print, part=3)
    result = result_of(graph, client, {"a0": X}, part=1)
    assert (result.error, result.part, list(result.outputs)) == (None, 1, ["b0"])


@pytest.mark.usefixtures("driver")
def test_a_client_in_another_process_runs_one_part(graph: Any) -> None:
    check_one_part(graph, ModelClient(graph.node, "parts", request_timeout=PATIENCE, sets_weights=False))


@pytest.mark.usefixtures("driver")
def test_a_client_in_another_process_is_told_what_the_file_says(graph: Any, whole_model_dir: Path) -> None:
    client = ModelClient(graph.node, "parts", request_timeout=PATIENCE, sets_weights=False)
    graph.spin_until(lambda: client.ready)
    (file,) = weightless_files(client.loaded.files_without_weights)
    client.close()
    told, read = (
        parse_model(data).subgraphs[0]
        for data in (file, (whole_model_dir / "parts_edgetpu.tflite").read_bytes())
    )
    assert (told.input_specs, told.output_specs) == (read.input_specs, read.output_specs)


@pytest.mark.usefixtures("driver")
def test_a_client_in_another_process_loads_segments(graph: Any) -> None:
    client = ModelClient(graph.node, SEGMENTS, request_timeout=PATIENCE, sets_weights=False)
    result = result_of(graph, client, {"x0": X})
    assert result.error is None
    expected = CpuEngine(segments(3)[0]).run({"x0": X})["x3"]
    np.testing.assert_array_equal(result.outputs["x3"], expected)


@pytest.mark.usefixtures("local_driver")
class TestWithinOneProcess:
    def test_a_client_runs_one_part(self, graph: Any) -> None:
        check_one_part(graph, ModelClient(graph.node, "parts", driver=LOCAL, request_timeout=PATIENCE))

    @pytest.mark.parametrize(
        ("model", "inputs", "source"),
        [("parts", {"image": IMAGE}, source_graph(2)), (SEGMENTS, {"x0": X}, segments(3)[0])],
        ids=["parts", "segments"],
    )
    def test_a_client_gets_whole_results(self, graph: Any, model: Any, inputs: Any, source: bytes) -> None:
        client = ModelClient(graph.node, model, driver=LOCAL, request_timeout=PATIENCE)
        result = result_of(graph, client, inputs)
        assert result.error is None
        expected = CpuEngine(source).run(inputs)
        assert list(result.outputs) == list(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(result.outputs[name], values)
