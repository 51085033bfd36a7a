"""What nodes do with requests that come at once, with too many parameters and with a clock that jumps."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

import rclpy
from builtin_interfaces.msg import Time
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from edgetpu_driver.node_kit import heartbeat
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.executor.executor import StaticSingleThreadedExecutor
from edgetpu_driver.node_kit.messages.matmul_messages import fill_product
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_driver.nodes import driver_services
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_driver.toolchain import dense_graph
from edgetpu_msgs.msg import DeviceStatus, Tensor
from edgetpu_msgs.srv import Invoke, ListModels, MatMul
from edgetpu_perception.nodes.looming_node import LoomingNode
from testdata.running_nodes.spinning_node import spin_until


class Stage:
    """Nodes in the executor of a process, turned by the test, and one next to them that talks to them."""

    def __init__(self) -> None:
        self.talker: Node = rclpy.create_node("talker")
        self.executor = StaticSingleThreadedExecutor()
        self.executor.add_node(self.talker)
        self._nodes: list[Node] = [self.talker]

    def add(self, kind: Callable[..., Node], **values: Any) -> Any:
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        node = kind(parameter_overrides=overrides, namespace="/guarded")
        self.executor.add_node(node)
        self._nodes.append(node)
        return node

    def close(self) -> None:
        self.executor.shutdown()
        for node in reversed(self._nodes):
            node.destroy_node()

    def spin_until(self, condition: Callable[[], bool]) -> None:
        spin_until(condition, lambda: self.executor.spin_once(0.02))

    def client(self, kind: Any, service: str) -> Any:
        client = self.talker.create_client(kind, f"/guarded/edgetpu/{service}", qos_profile=QOS_SERVICE)
        self.spin_until(client.service_is_ready)
        return client

    def call(self, kind: Any, service: str, **fields: Any) -> Any:
        future = self.client(kind, service).call_async(kind.Request(**fields))
        self.spin_until(future.done)
        return future.result()

    def say(self, kind: Any, topic: str) -> Callable[[Any], None]:
        publisher = self.talker.create_publisher(kind, topic, 10)
        self.spin_until(lambda: publisher.get_subscription_count() > 0)
        return publisher.publish


@pytest.fixture
def stage(graph: Any) -> Iterator[Stage]:  # noqa: ARG001 - its context
    stage = Stage()
    yield stage
    stage.close()


@pytest.fixture
def driver(stage: Stage, model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> DriverNode:
    """A driver in simulated time with the model "sums"; its heartbeat is quick."""
    monkeypatch.setattr(heartbeat, "HEARTBEAT_PERIOD", 0.02)
    values = {"backend": "cpu", "model_dirs": [str(model_dir)], "models": ["sums"], "use_sim_time": True}
    node: DriverNode = stage.add(DriverNode, **values, max_waiting_per_client=100)
    stage.spin_until(lambda: node.status().state == DeviceStatus.READY)
    return node


@pytest.mark.usefixtures("driver")
def test_each_of_many_requests_at_once_is_answered_once_with_its_own_result(stage: Stage) -> None:
    client = stage.client(Invoke, "invoke")
    stage.executor.remove_node(stage.talker)  # the test takes the answers
    numbers = {}
    for number in range(100):
        tensor = Tensor(name="numbers", dtype=Tensor.INT8, shape=[1, 4], data=bytes([number, 0, 0, 0]))
        numbers[client.handle.send_request(Invoke.Request(model="sums", inputs=[tensor]))] = number
    answers: list[tuple[int, int]] = []

    def take() -> bool:
        while (taken := client.handle.take_response(Invoke.Response))[0] is not None:
            answers.append((taken[0].request_id.sequence_number, taken[1].outputs[0].data[0]))
        return len(answers) >= len(numbers)

    stage.spin_until(take)
    for _ in range(3):  # a second answer would come now
        stage.executor.spin_once(0.0)
        take()
    assert sorted(answers) == [(sequence, number + 3) for sequence, number in sorted(numbers.items())]


def test_only_a_large_product_is_answered_by_another_thread_than_the_sticks(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def fill_and_note(response: Any, product: Any) -> None:
        threads.append(current_thread().name)
        fill_product(response, product)

    monkeypatch.setattr(driver_services, "fill_product", fill_and_note)
    monkeypatch.setattr(driver_services, "LARGE_PRODUCT", 2 * 4 * 64)
    (tmp_path / "dense.tflite").write_bytes(dense_graph.build(64))
    node = stage.add(DriverNode, backend="cpu", model_dirs=[str(tmp_path)], models=["dense"])
    stage.spin_until(lambda: node.status().state == DeviceStatus.READY)
    for batch in (1, 2):
        inputs = array("f", bytes(4 * 64 * batch))
        product = stage.call(MatMul, "matmul", model="dense", batch=batch, inputs=inputs)
        assert (product.success, product.outputs) == (True, inputs)
    assert threads == ["edgetpu stick 0", "edgetpu products"]


@pytest.mark.parametrize(
    ("kind", "name", "field", "answers"),
    [
        (ChangeState, "change_state", "success", [True] + [False] * 49),
        (GetState, "get_state", "current_state", [State(id=1, label="unconfigured")] * 50),
    ],
    ids=["transitions", "states"],
)
def test_each_of_many_requests_of_lifecycle_managers_is_answered(
    stage: Stage, kind: Any, name: str, field: str, answers: list[Any]
) -> None:
    stage.add(DriverNode, backend="cpu", autostart=False)
    request = kind.Request()
    if kind is ChangeState:
        request.transition.id = Transition.TRANSITION_CONFIGURE
    client = stage.client(kind, name)
    futures = [client.call_async(request) for _ in range(50)]
    stage.spin_until(lambda: all(future.done() for future in futures))
    assert [getattr(future.result(), field) for future in futures] == answers


def test_each_of_many_requests_to_any_service_of_a_node_is_answered(stage: Stage) -> None:
    stage.add(functools.partial(BaseNode, "edgetpu")).create_service(
        Trigger, "~/reset", lambda _request, response: response
    )
    client = stage.client(Trigger, "reset")
    futures = [client.call_async(Trigger.Request()) for _ in range(50)]
    stage.spin_until(lambda: all(future.done() for future in futures))


@pytest.mark.usefixtures("driver")
def test_each_of_hundreds_of_parameters_in_a_request_gets_its_result(stage: Stage) -> None:
    names = [each for number in range(400) for each in (f"unknown_{number}", "backend")]
    parameters = [Parameter(name, value="usb").to_parameter_msg() for name in [*names, "use_sim_time"]]
    parameters[-1] = Parameter("use_sim_time", value=False).to_parameter_msg()
    results = stage.call(SetParameters, "set_parameters", parameters=parameters).results
    assert [each.successful for each in results] == [False] * 800 + [True]
    assert all(each.reason for each in results[:-1])
    assert stage.call(ListModels, "list_models").success


def test_when_the_clock_jumps_the_heartbeat_and_the_services_go_on(stage: Stage, driver: DriverNode) -> None:
    beats: list[int] = []
    stage.talker.create_subscription(
        Time, "/guarded/edgetpu/heartbeat", lambda time: beats.append(time.sec), heartbeat.QOS_HEARTBEAT
    )
    tell = stage.say(Clock, "/clock")
    for second in (100, 5, 2**31 - 1, 0, 7):
        tell(Clock(clock=Time(sec=second)))
        stage.spin_until(lambda second=second: beats[-1:] == [second])
    tell(Clock(clock=Time(sec=-5)))  # no time at all for ROS 2
    beats.clear()
    stage.spin_until(lambda: len(beats) > 2)
    assert stage.call(ListModels, "list_models").success
    assert {each.level for each in driver.diagnostics()} <= {b"\0", b"\1"}


def test_when_the_clock_jumps_back_rate_limit_begins_anew(stage: Stage, tmp_path: Path) -> None:
    node = stage.add(LoomingNode, model_dir=str(tmp_path), rate_limit=10.0, use_sim_time=True)
    tell = stage.say(Clock, "/clock")
    show = stage.say(Image, "/guarded/image")
    limited = []
    for count, (second, nanosecond) in enumerate([(100, 0), (100, 50_000_000), (5, 0), (5, 50_000_000)], 1):
        stamp = Time(sec=second, nanosec=nanosecond)
        tell(Clock(clock=stamp))
        show(Image(header=Header(stamp=stamp), height=1, width=1, encoding="mono8", step=1, data=b"\0"))
        stage.spin_until(lambda count=count: node.counters.received == count)
        limited.append(node.counters.limited)
    assert limited == [0, 1, 1, 2]
