"""A driver node whose device fails, or that ends while it works; and public models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soak.processes import children

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile

from edgetpu_driver.errors import ModelNotFoundError
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.nodes import driver_node
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_msgs.msg import DeviceStatus, ErrorCode
from edgetpu_msgs.srv import Invoke, ListModels, LoadModel, SetWeights
from testdata import ModelFolder
from testdata.devices.virtual_backend import backend_of
from testdata.running_nodes.driver_calls import LATCHED, numbers, outcome


class TestRealModels:
    """What the vendor's compiler wrote, most of it without the graph that the virtual stick would need."""

    @pytest.fixture(scope="class")
    def virtual(self, start_node: Any, golden: ModelFolder) -> Iterator[str]:
        process = start_node(
            "edgetpu_driver",
            "edgetpu_node",
            "-r",
            "__node:=real",
            backend="virtual",
            model_dirs=[str(golden.path)],
        )
        yield "/real"
        process.stop()

    def test_all_of_them_load_and_are_listed(self, graph: Any, virtual: str, golden: ModelFolder) -> None:
        files = golden.models("_edgetpu.tflite")
        for file in files:
            response = graph.call(LoadModel, f"{virtual}/load_model", model=str(file), wait=True)
            assert outcome(response)[:2] == (True, ErrorCode.NONE), response.message
        listed = graph.call(ListModels, f"{virtual}/list_models").models
        assert [info.path for info in listed] == [str(file) for file in files]
        assert all(info.inputs and info.outputs for info in listed)

    def test_one_that_cannot_run_here_says_why(self, graph: Any, virtual: str, golden: ModelFolder) -> None:
        name = "keras_lstm_mnist_ptq"
        golden.model(f"{name}_edgetpu.tflite")
        loaded = graph.call(LoadModel, f"{virtual}/load_model", model=name, wait=True)
        assert loaded.message.startswith("loaded, but it cannot run here: ")
        response = graph.call(Invoke, f"{virtual}/invoke", model=name)
        assert outcome(response)[:2] == (False, ErrorCode.BAD_MODEL)
        assert "not fully deterministic" in response.message


class TestAFault:
    @pytest.mark.parametrize("transfer", range(2))
    def test_a_stick_unplugged_during_a_swap_returns_with_the_old_weights(
        self, graph: Any, model_dir: Path, monkeypatch: pytest.MonkeyPatch, transfer: int
    ) -> None:
        stick = VirtualEdgeTpu()
        backend = backend_of(stick)
        monkeypatch.setattr(driver_node, "make_backend", lambda *_, **__: backend)
        values = {"backend": "virtual", "model_dirs": [str(model_dir)], "models": ["sums"]}
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        driver = driver_node.DriverNode(parameter_overrides=overrides, namespace="/pulled")
        graph.add_node(driver)

        def swap(weight: float) -> SetWeights.Response:
            request = {"model": "sums", "weights": [weight], "shape": [1, 1]}
            return graph.call(SetWeights, "/pulled/edgetpu/set_weights", **request)

        def result() -> tuple[int, int]:
            answer = graph.call(Invoke, "/pulled/edgetpu/invoke", model="sums", inputs=[numbers(5, 0, 0, 0)])
            return answer.outputs[0].data[0], answer.weights_version

        try:
            states = graph.collect(DeviceStatus, "/pulled/edgetpu/status", LATCHED)
            graph.spin_until(lambda: bool(states) and states[-1].state == DeviceStatus.READY)
            assert swap(2.0).success
            stick.fail(Fault.UNPLUG, Transfer.BULK_OUT, after=transfer)
            assert outcome(swap(-2.0))[:2] == (False, ErrorCode.DEVICE)
            assert outcome(swap(-2.0))[:2] == (False, ErrorCode.UNAVAILABLE)
            stick.plug()
            graph.spin_until(lambda: states[-1].state == DeviceStatus.READY)
            assert result() == (2 * 5 + 3, 1)
            assert swap(-2.0).success
            assert result() == ((-2 * 5 + 3) % 256, 2)
        finally:
            driver.destroy_node()

    def test_a_request_is_answered_after_the_stick_was_reset_and_the_status_tells_of_it(
        self, graph: Any, model_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stick = VirtualEdgeTpu()
        backend = backend_of(stick)
        monkeypatch.setattr(driver_node, "make_backend", lambda *_, **__: backend)
        values = {"backend": "virtual", "model_dirs": [str(model_dir)], "models": ["sums"]}
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        driver = driver_node.DriverNode(parameter_overrides=overrides, namespace="/faulty")
        graph.add_node(driver)
        request = {"model": "sums", "inputs": [numbers(0, 0, 1, 1)]}
        try:
            # States may follow each other faster than they are read; a queue of one would lose some.
            every_state = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
            states = graph.collect(DeviceStatus, "/faulty/edgetpu/status", every_state)
            graph.spin_until(lambda: bool(states) and states[-1].state == DeviceStatus.READY)
            stick.fail(Fault.STALL, Transfer.OUTPUT)
            assert graph.call(Invoke, "/faulty/edgetpu/invoke", **request).success
            graph.spin_until(lambda: any(state.state == DeviceStatus.RECOVERING for state in states))
            graph.spin_until(lambda: (states[-1].state, states[-1].recoveries) == (DeviceStatus.READY, 1))
        finally:
            driver.destroy_node()


def test_a_load_that_ends_after_the_node_is_gone_is_told_to_who_asked(
    graph: Any,  # noqa: ARG001
    model_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(ModelHost, "submit_load", lambda _host, *arguments, **_: asked.append(arguments[2]))
    values = {"backend": "cpu", "model_dirs": [str(model_dir)]}
    overrides = [Parameter(name, value=value) for name, value in values.items()]
    driver = driver_node.DriverNode(parameter_overrides=overrides, namespace="/leaving")
    outcomes: list[Any] = []
    driver.submit_load("sums", done=outcomes.append)
    driver.destroy_node()
    error = ModelNotFoundError("it was unloaded meanwhile")
    asked[0](error)
    assert outcomes == [error]


@pytest.mark.parametrize("other", ["nothing", "damaged"])
def test_a_configuration_that_fails_leaves_no_process(
    graph: Any,  # noqa: ARG001 - its context
    model_dir: Path,
    tmp_path: Path,
    other: str,
) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    (tmp_path / "damaged.tflite").write_bytes(b"no model")
    directories = [str(model_dir), str(tmp_path)]
    values = {"backend": "cpu", "model_dirs": directories, "models": ["sums", other]}
    overrides = [Parameter(name, value=value) for name, value in {**values, "autostart": False}.items()]
    driver = driver_node.DriverNode(parameter_overrides=overrides, namespace="/unable")
    before = set(children(os.getpid()))  # those of earlier tests may end meanwhile
    assert driver.trigger_configure() == TransitionCallbackReturn.FAILURE
    assert set(children(os.getpid())) <= before
    driver.destroy_node()


def test_a_configuration_that_breaks_off_leaves_no_process(
    graph: Any,  # noqa: ARG001 - its context
    model_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(driver_node.DriverNode, "_warn_of", no_thread)
    values = {"backend": "cpu", "model_dirs": [str(model_dir)], "models": ["sums"], "autostart": False}
    overrides = [Parameter(name, value=value) for name, value in values.items()]
    driver = driver_node.DriverNode(parameter_overrides=overrides, namespace="/breaking")
    before = set(children(os.getpid()))  # those of earlier tests may end meanwhile
    assert driver.trigger_configure() == TransitionCallbackReturn.ERROR
    assert set(children(os.getpid())) <= before
    driver.destroy_node()
