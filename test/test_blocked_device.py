"""What the driver node answers while its device blocks, which it does until the test releases it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from rclpy.parameter import Parameter

from edgetpu_driver.backends.backend import Backend, ParsedModel, Readings
from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.node_kit.heartbeat import HEARTBEAT_LEASE, HEARTBEAT_PERIOD
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from edgetpu_msgs.msg import DeviceStatus, ErrorCode, ModelInfo, Tensor
from edgetpu_msgs.srv import GetDeviceInfo, Invoke, ListModels, LoadModel
from testdata.timeouts import PATIENCE

NUMBERS = Tensor(name="numbers", dtype=Tensor.INT8, shape=[1, 4], data=bytes([5, 6, 7, 8]))


class HeldBackend(CpuBackend):
    """A device whose transfers hang while it is held, and so does reading files."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.free.set()
        self.next_inference_holds = False
        """The device is held from the next inference on, so that nothing hangs before it."""
        self.inference_hangs = threading.Event()

    def hang(self) -> None:
        self.free.wait()

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        self.hang()
        return super().parse(path, data)

    def attach(self, model: ParsedModel) -> AttachedEngine:
        self.hang()
        engine = super().attach(model)
        run = engine.run

        def run_when_free(inputs: Any) -> Any:
            if self.next_inference_holds:
                self.next_inference_holds = False
                self.free.clear()
                self.inference_hangs.set()
            self.hang()
            return run(inputs)

        engine.run = run_when_free  # type: ignore[method-assign]
        return engine

    def read(self) -> Readings:
        self.hang()
        return super().read()


class Driver(DriverNode):
    """The driver node of one held device."""

    def make_backends(self) -> list[Backend]:
        self.device = HeldBackend()
        return [self.device]


@pytest.fixture
def driver(graph: Any, model_dir: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """With the model "sums" loaded, and its device hanging in an inference. param: further parameters."""
    shutil.copy(model_dir / "sums.tflite", tmp_path)
    values = {
        "backend": "cpu",
        "model_dirs": [str(tmp_path)],
        "models": ["sums"],
        "max_waiting_per_client": 2,
        **getattr(request, "param", {}),
    }
    driver = Driver(parameter_overrides=[Parameter(name, value=value) for name, value in values.items()])
    graph.add_node(driver)
    graph.await_device()
    driver.device.next_inference_holds = True
    driver.hanging = ask(graph, client="first", deadline=PATIENCE)  # type: ignore[attr-defined]
    graph.spin_until(driver.device.inference_hangs.is_set)
    yield driver
    driver.device.free.set()
    graph.remove_node(driver)
    driver.destroy_node()


def ask(graph: Any, **fields: Any) -> Any:
    """Send a request for an inference; the future answer."""
    client = graph.node.create_client(Invoke, "/edgetpu/invoke")
    graph.meet("/edgetpu")
    graph.spin_until(client.service_is_ready)
    return client.call_async(Invoke.Request(model="sums", inputs=[NUMBERS], **fields))


@pytest.mark.usefixtures("driver")
class TestWhileTheDeviceHangs:
    def test_models_are_listed(self, graph: Any) -> None:
        answer = graph.call(ListModels, "/edgetpu/list_models")
        assert [(model.name, model.state) for model in answer.models] == [("sums", ModelInfo.LOADED)]

    def test_a_listing_of_many_files_holds_up_no_other_request(
        self, graph: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listed, available = threading.Event(), ModelDirectories.available

        def slow(directories: ModelDirectories) -> list[Path]:
            listed.wait(PATIENCE)
            return available(directories)

        monkeypatch.setattr(ModelDirectories, "available", slow)
        client = graph.node.create_client(ListModels, "/edgetpu/list_models", qos_profile=QOS_SERVICE)
        graph.spin_until(client.service_is_ready)
        listing = client.call_async(ListModels.Request())
        assert graph.call(LoadModel, "/edgetpu/load_model", model="sums", name="again").success
        assert not listing.done()
        listed.set()
        graph.spin_until(listing.done)
        assert [Path(path).name for path in listing.result().available] == ["sums.tflite"]

    def test_requests_during_a_listing_share_the_next_one(
        self, graph: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listed, begun, taken = threading.Event(), [], []
        active_host = driver.active_host

        def count() -> Any:
            taken.append(1)
            return active_host()

        def slow(_directories: ModelDirectories) -> list[Path]:
            begun.append(1)
            listed.wait(PATIENCE)
            return []

        monkeypatch.setattr(ModelDirectories, "available", slow)
        client = graph.node.create_client(ListModels, "/edgetpu/list_models", qos_profile=QOS_SERVICE)
        graph.spin_until(client.service_is_ready)
        first = client.call_async(ListModels.Request())
        graph.spin_until(lambda: bool(begun))
        monkeypatch.setattr(driver, "active_host", count)
        others = [client.call_async(ListModels.Request()) for _ in range(50)]
        graph.spin_until(lambda: len(taken) == 50)
        listed.set()
        graph.spin_until(lambda: all(each.done() for each in (first, *others)))
        assert all(each.result().success for each in others)
        assert len(begun) == 2

    def test_a_load_is_queued_or_refused(self, graph: Any) -> None:
        queued = graph.call(LoadModel, "/edgetpu/load_model", model="sums", name="again")
        assert queued.success
        assert queued.info.state in (ModelInfo.LOADED, ModelInfo.QUEUED)
        refused = graph.call(LoadModel, "/edgetpu/load_model", model="nothing")
        assert refused.error.value == ErrorCode.UNKNOWN_MODEL

    def test_the_last_readings_are_given(self, graph: Any) -> None:
        answer = graph.call(GetDeviceInfo, "/edgetpu/get_device_info")
        assert (answer.success, answer.status.backend) == (True, "cpu")

    def test_many_who_ask_for_readings_take_no_thread_each(self, graph: Any) -> None:
        """Each has a stack of 8 MiB, and the process a limit of memory."""
        before, most = threading.active_count(), 0
        client = graph.node.create_client(GetDeviceInfo, "/edgetpu/get_device_info", qos_profile=QOS_SERVICE)
        graph.spin_until(client.service_is_ready)
        answers = [client.call_async(GetDeviceInfo.Request()) for _ in range(100)]

        def answered() -> bool:
            nonlocal most
            most = max(most, threading.active_count())
            return all(answer.done() for answer in answers)

        graph.spin_until(answered)
        assert most <= before + 1

    def test_status_is_published(self, graph: Any) -> None:
        states = graph.collect(DeviceStatus, "/edgetpu/status")
        graph.spin_until(lambda: len(states) >= 2)

    def test_requests_whose_deadline_passes_are_answered(self, graph: Any) -> None:
        late = ask(graph, client="second", deadline=0.02)
        graph.spin_until(late.done)
        assert late.result().error.value == ErrorCode.EXPIRED

    def test_a_client_with_too_many_requests_learns_when_to_retry(self, graph: Any) -> None:
        answers = [ask(graph, client="third") for _ in range(3)]
        graph.spin_until(answers[2].done)
        busy = answers[2].result()
        assert busy.error.value == ErrorCode.BUSY
        assert busy.retry_after > 0
        assert not any(answer.done() for answer in answers[:2])


def test_a_transition_does_not_wait_for_so_long_that_the_heartbeat_is_missed(
    driver: Driver, capfd: pytest.CaptureFixture[str]
) -> None:
    driver.trigger_deactivate()
    driver.trigger_cleanup()
    assert "a device is still busy 2 s after it was asked to close" in capfd.readouterr().err
    assert HEARTBEAT_PERIOD + 2.0 < HEARTBEAT_LEASE


def test_waiting_requests_are_answered_when_the_device_continues(graph: Any, driver: Driver) -> None:
    waiting = ask(graph, client="second")
    driver.device.free.set()
    for answer in (driver.hanging, waiting):  # type: ignore[attr-defined]
        graph.spin_until(answer.done)
        assert list(answer.result().outputs[0].data) == [5 + 3, 26 + 3]


@pytest.mark.parametrize("driver", [{"max_wait": 0.3, "status_period": 60.0}], indirect=True)
class TestWaitingWithoutADeadline:
    def test_an_inference_is_answered_busy(self, graph: Any, driver: Driver) -> None:
        waiting = ask(graph, client="second")
        graph.spin_until(waiting.done)
        assert waiting.result().error.value == ErrorCode.BUSY
        assert waiting.result().message.startswith("waited 0.3 s for its turn")
        assert waiting.result().retry_after >= 1.0
        assert not driver.hanging.done()  # type: ignore[attr-defined]

    def test_a_load_is_answered_busy_and_continues(self, graph: Any, driver: Driver) -> None:
        load = {"model": "sums", "name": "again"}
        answer = graph.call(LoadModel, "/edgetpu/load_model", wait=True, **load)
        assert answer.error.value == ErrorCode.BUSY
        assert answer.message == "the model is still being loaded after 0.3 s; try again"
        driver.device.free.set()
        while answer.error.value == ErrorCode.BUSY:  # on a loaded machine
            answer = graph.call(LoadModel, "/edgetpu/load_model", wait=True, **load)
        assert answer.success
