"""The driver node as its users see it: services, status, diagnostics, parameters."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.srv import DescribeParameters, ListParameters, SetParameters
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_msgs.msg import DeviceStatus, ErrorCode, ModelInfo, Tensor
from edgetpu_msgs.srv import GetDeviceInfo, Invoke, ListModels, LoadModel, MatMul, SetWeights, UnloadModel
from testdata.running_nodes.driver_calls import LATCHED, numbers, outcome


@pytest.fixture(scope="module", params=["cpu", "virtual"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def driver(backend: str, start_node: Any, graph: Any, model_dir: Path) -> Any:
    """A running driver with the model "sums" loaded; it must stop cleanly in the end."""
    process = start_node(
        "edgetpu_driver",
        "edgetpu_node",
        backend=backend,
        model_dirs=f"[{model_dir}]",
        models="[sums]",
        status_period=0.2,
    )
    states = graph.collect(DeviceStatus, "/edgetpu/status", LATCHED)
    graph.spin_until(lambda: bool(states) and states[-1].state == DeviceStatus.READY)
    yield process
    process.stop()


@pytest.mark.usefixtures("driver")
class TestWeightServices:
    @pytest.fixture(autouse=True)
    def _own_model(self, graph: Any) -> Iterator[None]:
        assert graph.call(LoadModel, "/edgetpu/load_model", model="sums", name="mine", wait=True).success
        yield
        assert graph.call(UnloadModel, "/edgetpu/unload_model", name="mine").success

    def set_weights(self, graph: Any, *weights: float, **fields: Any) -> SetWeights.Response:
        request = {"model": "mine", "weights": weights, "shape": [2, len(weights) // 2]} | fields
        return graph.call(SetWeights, "/edgetpu/set_weights", **request)

    def test_a_swap_tells_what_it_did_and_products_and_results_follow(self, graph: Any) -> None:
        swap = self.set_weights(graph, 0.0, 1.25, 3.0, -2.0)
        assert outcome(swap) == (True, ErrorCode.NONE, "")
        assert (swap.weights_version, swap.clipped) == (1, 0)
        assert (swap.worst_error, swap.rms_error) == (0.25, 0.125)
        assert (list(swap.row_scales), list(swap.largest_shape)) == ([1.0, 1.0], [2, 4])
        result = graph.call(Invoke, "/edgetpu/invoke", model="mine", inputs=[numbers(5, 6, 7, 8)])
        assert list(result.outputs[0].data) == [6 + 3, 15 - 12 + 3]
        assert result.weights_version == 1
        listed = graph.call(ListModels, "/edgetpu/list_models").models
        assert {model.name: model.weights_version for model in listed} == {"sums": 0, "mine": 1}

    @pytest.fixture
    def biased(self, model_dir: Path) -> Iterator[str]:
        """The name of a model with a bias, in the model folder for this test only."""
        builder = GraphBuilder("biased")
        x = builder.input("x", (1, 2), np.int8, scale=0.5, zero_point=0)
        eye = np.eye(2, dtype=np.int8)
        builder.output(builder.fully_connected(x, eye, 1.0, scale=0.5, zero_point=0, bias=[1, 1]))
        file = model_dir / "biased.tflite"
        file.write_bytes(builder.build())
        yield file.stem
        file.unlink()

    def test_a_swap_takes_a_bias_for_every_row(self, graph: Any, biased: str) -> None:
        assert graph.call(LoadModel, "/edgetpu/load_model", model=biased, wait=True).success
        swap = self.set_weights(graph, 0.0, 1.0, 3.0, -2.0, model=biased, bias=[3.0, -4.25])
        assert outcome(swap) == (True, ErrorCode.NONE, "")
        assert swap.worst_bias_error == 0.25
        tensor = Tensor(name="x", dtype=Tensor.INT8, shape=[1, 2], data=[5, 6])
        result = graph.call(Invoke, "/edgetpu/invoke", model=biased, inputs=[tensor])
        assert list(np.array(result.outputs[0].data, np.uint8).view(np.int8)) == [6 + 6, 15 - 12 - 8]
        short = self.set_weights(graph, 0.0, 1.0, 3.0, -2.0, model=biased, bias=[3.0])
        assert (short.success, short.error.value) == (False, ErrorCode.BAD_INPUT)
        assert graph.call(UnloadModel, "/edgetpu/unload_model", name=biased).success

    def test_a_layer_without_a_bias_takes_none(self, graph: Any) -> None:
        swap = self.set_weights(graph, 0.0, 1.0, 3.0, -2.0, bias=[3.0, -4.25])
        assert (swap.success, swap.error.value) == (False, ErrorCode.BAD_MODEL)
        assert "a layer without a bias, and none can be added" in swap.message

    def test_matmul_takes_a_batch_of_real_vectors(self, graph: Any) -> None:
        self.set_weights(graph, 0.0, 1.0, 3.0, -2.0)
        product = graph.call(
            MatMul, "/edgetpu/matmul", model="mine", inputs=[1.0, 2.0, 2.0, -1.0], batch=2, input_scale=0.1
        )
        assert outcome(product) == (True, ErrorCode.NONE, "")
        assert list(product.outputs) == pytest.approx([2.0, -1.0, -1.0, 8.0], abs=0.06)
        assert (product.rows, product.weights_version, product.clipped) == (2, 1, 0)
        assert product.input_scale == pytest.approx(0.1)
        assert len(product.pass_rms) == 1

    def test_values_beyond_a_given_scale_are_refused_or_counted(self, graph: Any) -> None:
        self.set_weights(graph, 100.0, 100.0, 0.0, 0.0)
        request = {"model": "mine", "inputs": [1.0, 2.0], "input_scale": 0.01}
        refused = graph.call(MatMul, "/edgetpu/matmul", **request)
        assert (refused.success, refused.error.value) == (False, ErrorCode.REFUSED)
        assert "1 inputs are out of range, and 1 outputs" in refused.message
        accepted = graph.call(MatMul, "/edgetpu/matmul", accept_clipping=True, **request)
        assert (accepted.success, accepted.clipped, accepted.saturated) == (True, 1, 1)

    def test_matmul_on_a_model_of_two_layers_answers_bad_model_whatever_the_inputs(
        self, graph: Any, model_dir: Path
    ) -> None:
        builder = GraphBuilder("layers")
        x = builder.input("x", (1, 4), np.int8, scale=1.0, zero_point=0)
        for _ in range(2):
            x = builder.fully_connected(x, np.eye(4, dtype=np.int8), 1.0, scale=1.0, zero_point=0)
        builder.output(x)
        file = model_dir / "layers.tflite"
        file.write_bytes(builder.build())
        assert graph.call(LoadModel, "/edgetpu/load_model", model="layers", wait=True).success
        refused = graph.call(MatMul, "/edgetpu/matmul", model="layers", inputs=[])
        assert graph.call(UnloadModel, "/edgetpu/unload_model", name="layers").success
        file.unlink()
        assert (refused.success, refused.error.value) == (False, ErrorCode.BAD_MODEL)

    @pytest.mark.parametrize(
        ("weights", "fields", "code"),
        [
            ((1.0, math.nan), {}, ErrorCode.BAD_INPUT),
            ((1.0, math.inf), {}, ErrorCode.BAD_INPUT),
            ((1.0, 2.0), {"shape": [3, 3]}, ErrorCode.BAD_INPUT),
            ((), {"shape": []}, ErrorCode.BAD_INPUT),
            ((1.0, 2.0), {"model": "nobody"}, ErrorCode.UNKNOWN_MODEL),
            ((), {"model": "nobody", "shape": []}, ErrorCode.UNKNOWN_MODEL),
            ((1.0, 2.0), {"tensor": "bias"}, ErrorCode.BAD_INPUT),
            ((1.0, 2.0), {"rescale_rows": True}, ErrorCode.BAD_MODEL),
            ((1.0, 200.0), {}, ErrorCode.REFUSED),
        ],
    )
    def test_refused_weights_leave_the_old_ones(
        self, graph: Any, weights: tuple[float, ...], fields: dict[str, Any], code: int
    ) -> None:
        answer = self.set_weights(graph, *weights, **fields)
        assert (answer.success, answer.error.value) == (False, code)
        assert answer.message
        assert answer.clipped == (1 if code == ErrorCode.REFUSED else 0)
        result = graph.call(Invoke, "/edgetpu/invoke", model="mine", inputs=[numbers(5, 6, -7, 8)])
        assert (list(result.outputs[0].data), result.weights_version) == ([5 + 3, 12 + 3], 0)


@pytest.mark.usefixtures("driver")
class TestServices:
    def test_invoke_returns_the_outputs_in_the_models_domain(self, graph: Any) -> None:
        response = graph.call(Invoke, "/edgetpu/invoke", model="sums", inputs=[numbers(5, 6, -7, 8)])
        assert outcome(response) == (True, ErrorCode.NONE, "")
        (sums,) = response.outputs
        assert (sums.name, sums.dtype, list(sums.shape)) == ("sums", Tensor.INT8, [1, 2])
        assert (sums.scale, sums.zero_point) == (0.5, 3)
        assert list(sums.data) == [5 + 3, 12 + 3]
        assert response.duration > 0

    def test_a_virtual_stick_tells_the_simulated_seconds_of_an_inference(
        self, graph: Any, backend: str
    ) -> None:
        response = graph.call(Invoke, "/edgetpu/invoke", model="sums", inputs=[numbers(5, 6, -7, 8)])
        assert math.isnan(response.device_duration) is (backend == "cpu")
        assert backend == "cpu" or 1e-5 < response.device_duration < 1e-2

    def test_the_only_input_may_be_unnamed(self, graph: Any) -> None:
        inputs = [numbers(1, 1, 1, 1, name="")]
        response = graph.call(Invoke, "/edgetpu/invoke", model="sums", inputs=inputs)
        assert list(response.outputs[0].data) == [1 + 3, 4 + 3]

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            ([numbers(1, 2, shape=[1, 2])], "expected 'numbers' int8[1, 4]; got int8[1, 2]"),
            ([numbers(1, 2, 3, 4, dtype=Tensor.UINT8)], "expected 'numbers' int8[1, 4]; got uint8[1, 4]"),
            ([numbers(1, 2, 3)], "tensor 'numbers': expected 4 bytes for int8[1, 4]; got 3"),
            (
                [numbers(1, 2, 3, 4, name="other")],
                "expected the inputs 'numbers' int8[1, 4]; got 'other'",
            ),
            ([], "expected the inputs 'numbers' int8[1, 4]; got none"),
        ],
        ids=["shape", "dtype", "length", "name", "missing"],
    )
    def test_a_wrong_input_is_refused_and_the_right_one_named(
        self, graph: Any, inputs: list[Tensor], message: str
    ) -> None:
        response = graph.call(Invoke, "/edgetpu/invoke", model="sums", inputs=inputs)
        assert outcome(response) == (False, ErrorCode.BAD_INPUT, message)
        assert list(response.outputs) == []

    def test_an_unknown_model_is_answered_with_the_loaded_ones(self, graph: Any) -> None:
        response = graph.call(Invoke, "/edgetpu/invoke", model="nothing", inputs=[numbers(1, 2, 3, 4)])
        assert outcome(response) == (
            False,
            ErrorCode.UNKNOWN_MODEL,
            "no model 'nothing' is loaded; loaded: sums",
        )

    def test_load_model_describes_what_it_loaded(self, graph: Any, backend: str, model_dir: Path) -> None:
        response = graph.call(LoadModel, "/edgetpu/load_model", model="sums", name="again", wait=True)
        assert outcome(response) == (True, ErrorCode.NONE, "")
        info = response.info
        file = model_dir / "sums.tflite"
        assert (info.name, info.path) == ("again", str(file))
        assert info.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
        (tensor,) = info.inputs
        assert (tensor.name, tensor.dtype, list(tensor.shape)) == ("numbers", Tensor.INT8, [1, 4])
        assert (tensor.scale, tensor.zero_point) == (0.5, 0)
        assert [output.name for output in info.outputs] == ["sums"]
        expected = ModelInfo.HOST if backend == "cpu" else ModelInfo.CACHED
        assert info.placement == expected
        assert graph.call(UnloadModel, "/edgetpu/unload_model", name="again").success

    @pytest.mark.parametrize("name", [" ", "../weird name"])
    def test_a_name_with_invalid_characters_is_refused(self, graph: Any, name: str) -> None:
        response = graph.call(LoadModel, "/edgetpu/load_model", model="sums", name=name, wait=True)
        assert outcome(response)[:2] == (False, ErrorCode.BAD_INPUT)
        assert response.message.endswith(f"begins with a letter, a digit or _; got '{name}'")

    def test_list_models_shows_loaded_ones_and_files(self, graph: Any, model_dir: Path) -> None:
        response = graph.call(ListModels, "/edgetpu/list_models")
        assert response.success
        assert [model.name for model in response.models] == ["sums"]
        assert list(response.available) == [str(model_dir / "sums.tflite")]

    def test_a_path_outside_model_dirs_is_refused(self, graph: Any, model_dir: Path) -> None:
        response = graph.call(LoadModel, "/edgetpu/load_model", model="/etc/passwd", wait=True)
        message = f"expected a model inside {model_dir}; got /etc/passwd"
        assert outcome(response) == (False, ErrorCode.REFUSED, message)

    def test_a_missing_file_is_answered_with_where_it_was_searched(self, graph: Any, model_dir: Path) -> None:
        response = graph.call(LoadModel, "/edgetpu/load_model", model="sum", wait=True)
        assert outcome(response)[:2] == (False, ErrorCode.UNKNOWN_MODEL)
        assert response.message.endswith(f"sum.tflite in {model_dir}; did you mean sums?")

    def test_a_malformed_file_is_refused(self, graph: Any, model_dir: Path) -> None:
        (model_dir / "broken.tflite").write_bytes(b"TFL3" * 10)
        try:
            response = graph.call(LoadModel, "/edgetpu/load_model", model="broken", wait=True)
        finally:
            (model_dir / "broken.tflite").unlink()
        assert outcome(response)[:2] == (False, ErrorCode.BAD_MODEL)

    def test_unloading_an_unknown_model_fails(self, graph: Any) -> None:
        response = graph.call(UnloadModel, "/edgetpu/unload_model", name="nothing")
        assert outcome(response)[:2] == (False, ErrorCode.UNKNOWN_MODEL)

    def test_get_device_info_reads_the_device(self, graph: Any, backend: str) -> None:
        answers: list[Any] = []

        def read() -> bool:
            # The first answer has no registers if they are not read within 30 ms.
            answers.append(graph.call(GetDeviceInfo, "/edgetpu/get_device_info"))
            return bool(answers[-1].registers) == (backend == "virtual")

        graph.spin_until(read)
        assert outcome(answers[-1]) == (True, ErrorCode.NONE, "")
        status = answers[-1].status
        assert (status.backend, status.state) == (backend, DeviceStatus.READY)

    def test_after_a_reset_models_run_as_before(self, graph: Any) -> None:
        states = graph.collect(DeviceStatus, "/edgetpu/status", LATCHED)
        graph.spin_until(lambda: bool(states))
        del states[:]
        assert graph.call(Trigger, "/edgetpu/reset").success
        graph.spin_until(lambda: bool(states) and states[-1].state == DeviceStatus.READY)
        answers: list[Any] = []

        def ran() -> bool:
            # The status may be that of the moment before the reset.
            answers.append(graph.call(Invoke, "/edgetpu/invoke", model="sums", inputs=[numbers(0, 0, 1, 1)]))
            return answers[-1].error.value != ErrorCode.UNAVAILABLE

        graph.spin_until(ran)
        assert outcome(answers[-1]) == (True, ErrorCode.NONE, "")
        assert list(answers[-1].outputs[0].data) == [0 + 3, 2 + 3]


@pytest.mark.usefixtures("driver")
class TestStatus:
    def test_a_late_joiner_gets_the_status_and_it_counts(self, graph: Any, backend: str) -> None:
        states = graph.collect(DeviceStatus, "/edgetpu/status", LATCHED)
        graph.spin_until(lambda: bool(states))
        before = graph.call(GetDeviceInfo, "/edgetpu/get_device_info").status.inferences
        for _ in range(3):
            graph.call(Invoke, "/edgetpu/invoke", model="sums", inputs=[numbers(1, 2, 3, 4)])
        graph.spin_until(lambda: states[-1].inferences == before + 3)

        def timed() -> bool:  # the status after a period without an inference has no latency
            graph.call(Invoke, "/edgetpu/invoke", model="sums", inputs=[numbers(1, 2, 3, 4)])
            return states[-1].latency_p50 > 0

        graph.spin_until(timed)
        status = states[-1]
        assert (status.backend, status.message) == (backend, "")
        assert list(status.resident_models) == ["sums"]
        assert 0 < status.latency_p50 <= status.latency_p99
        assert 0 < status.utilisation <= 1

    def test_figures_of_a_device_that_is_not_there_are_empty(self, graph: Any, backend: str) -> None:
        status = graph.call(GetDeviceInfo, "/edgetpu/get_device_info").status
        has_device = backend == "virtual"
        assert math.isnan(status.temperature) != has_device
        assert (status.link_speed, status.clock_preset) == ((5000.0, "high") if has_device else (0.0, ""))
        assert status.sram_total == (8 * 2**20 if has_device else 0)

    def test_diagnostics_follow_rep_107(self, graph: Any, backend: str) -> None:
        arrays = graph.collect(DiagnosticArray, "/diagnostics")
        graph.spin_until(lambda: bool(arrays))
        (status,) = arrays[-1].status
        assert (status.name, status.level) == ("edgetpu: device", DiagnosticStatus.OK)
        assert status.hardware_id == ("cpu" if backend == "cpu" else "2-1")
        assert {"state", "temperature (degC)", "latency p99 (ms)"} <= {value.key for value in status.values}


@pytest.mark.usefixtures("driver")
class TestParameters:
    def test_every_parameter_is_described_with_its_default(self, graph: Any) -> None:
        names = [
            name
            for name in graph.call(ListParameters, "/edgetpu/list_parameters").result.names
            if name != "use_sim_time" and "." not in name and "type_description" not in name
        ]
        answer = graph.call(DescribeParameters, "/edgetpu/describe_parameters", names=names)
        described = {descriptor.name: descriptor for descriptor in answer.descriptors}
        assert set(described) == {
            "autostart",
            "backend",
            "bus_path",
            "devices",
            "firmware",
            "litert_load_timeout",
            "litert_memory",
            "litert_run_timeout",
            "max_batch",
            "max_inferences",
            "max_model_bytes",
            "max_models",
            "max_passes",
            "max_tiles",
            "max_wait",
            "max_waiting",
            "max_waiting_per_client",
            "model_dirs",
            "models",
            "performance",
            "self_check_period",
            "serial",
            "service_depth",
            "share_inferences",
            "spreading",
            "status_period",
            "wait_for_device_timeout",
        }
        assert all("efault" in descriptor.description for descriptor in described.values())
        assert described["status_period"].floating_point_range[0].from_value == 0.1
        assert described["backend"].additional_constraints == "one of usb, virtual, cpu"

    def test_parameters_read_at_start_cannot_be_set(self, graph: Any) -> None:
        parameter = Parameter("backend", value="usb").to_parameter_msg()
        answer = graph.call(SetParameters, "/edgetpu/set_parameters", parameters=[parameter])
        assert [result.successful for result in answer.results] == [False]
