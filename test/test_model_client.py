"""The client of the driver: across processes, within one, and across restarts of the driver."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.parameter import Parameter
from std_msgs.msg import UInt32

from edgetpu_driver.errors import (
    ClippingError,
    EdgeTpuError,
    ExpiredError,
    InputError,
    ModelNotFoundError,
    UnavailableError,
)
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.images.newest_frame import take_waiting
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from edgetpu_msgs.srv import UnloadModel

REQUEST_TIMEOUT = 5.0
"""Seconds; a busy machine answers within it."""
SHORT_TIMEOUT = 1.0
"""Seconds until a client notices that a driver has been killed; where others may time out, too."""

NUMBERS = {"numbers": np.array([[5, 6, -7, 8]], np.int8)}
SUMS = [[5 + 3, 12 + 3]]


def sums(result: InferenceResult) -> list[list[int]]:
    assert result.error is None
    return result.outputs["sums"].tolist()


def start_driver_process(graph: Any, start_node: Any, model_dir: Path) -> Any:
    """Start the driver in a process of its own, with its device ready."""
    process = start_node("edgetpu_driver", "edgetpu_node", backend="cpu", model_dirs=f"[{model_dir}]")
    graph.await_device()
    return process


@pytest.fixture
def start_driver(graph: Any, start_node: Any, model_dir: Path) -> Iterator[Callable[[], Any]]:
    """Starts the driver in a process of its own, with its device ready; it must stop cleanly."""
    processes = []

    def start() -> Any:
        processes.append(start_driver_process(graph, start_node, model_dir))
        return processes[-1]

    yield start
    for process in processes:
        if process.running:
            process.stop()


@pytest.fixture
def make_client(graph: Any) -> Iterator[Callable[..., ModelClient]]:
    clients = []

    def make(model: str = "sums", **options: Any) -> ModelClient:
        clients.append(ModelClient(graph.node, model, **{"request_timeout": REQUEST_TIMEOUT} | options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def make_driver(graph: Any, model_dir: Path) -> DriverNode:
    """A driver in this process."""
    parameters = {"backend": "cpu", "model_dirs": [str(model_dir)]}
    driver = DriverNode(parameter_overrides=[Parameter(n, value=v) for n, v in parameters.items()])
    graph.add_node(driver)
    graph.await_device()
    return driver


def meet(client: ModelClient, graph: Any) -> ModelClient:
    """The client, once it is ready and its driver knows it: answers before that are lost."""
    graph.spin_until(lambda: client.ready)
    graph.meet(client.target[0])
    return client


def give(client: ModelClient, graph: Any, weights: Any) -> WeightResult | EdgeTpuError:
    """Set weights and spin until that is answered."""
    results: list[WeightResult | EdgeTpuError] = []
    graph.spin_until(lambda: client.set_weights(WeightRequest(weights), results.append))
    graph.spin_until(lambda: bool(results))
    assert not client.busy
    return results[0]


def ask(client: ModelClient, graph: Any) -> InferenceResult:
    """Send one request as soon as the client is ready, and spin until it is answered."""
    results: list[InferenceResult] = []
    graph.spin_until(lambda: client.invoke(NUMBERS, results.append))
    graph.spin_until(lambda: bool(results))
    assert not client.busy
    return results[0]


def ask_until_available(client: ModelClient, graph: Any) -> InferenceResult:
    """Send requests until the driver has its device again, and time for them; the first other answer."""
    result = ask(client, graph)
    while isinstance(result.error, (UnavailableError, ExpiredError)):
        result = ask(client, graph)
    return result


class TestAcrossProcesses:
    def test_it_loads_the_model_and_runs_it(self, graph: Any, start_driver: Any, make_client: Any) -> None:
        ready: list[bool] = []
        client = make_client(on_ready=lambda: ready.append(client.ready))
        assert not client.invoke(NUMBERS, ready.append)
        start_driver()
        result = ask(meet(client, graph), graph)
        assert sums(result) == SUMS
        assert result.engine_duration > 0
        assert ready == [True]
        assert [str(spec) for spec in client.inputs] == ["'numbers' int8[1, 4]"]
        assert [(spec.scale, spec.zero_point) for spec in client.outputs] == [(0.5, 3)]

    def test_results_resume_after_the_driver_was_killed(
        self, graph: Any, start_driver: Any, make_client: Any
    ) -> None:
        driver = start_driver()
        client = make_client(request_timeout=SHORT_TIMEOUT)
        assert sums(ask_until_available(client, graph)) == SUMS
        driver.kill()
        result = ask(client, graph)
        assert isinstance(result.error, UnavailableError)
        assert not client.ready
        start_driver()
        assert sums(ask_until_available(client, graph)) == SUMS


@pytest.mark.usefixtures("running_driver")
class TestOfARunningDriver:
    @pytest.fixture(scope="class")
    def running_driver(self, graph: Any, start_node: Any, model_dir: Path) -> Iterator[None]:
        process = start_driver_process(graph, start_node, model_dir)
        yield
        process.stop()

    def test_one_request_is_in_flight_at_a_time(self, graph: Any, make_client: Any) -> None:
        client = meet(make_client(), graph)
        results: list[InferenceResult] = []
        graph.spin_until(lambda: client.invoke(NUMBERS, results.append))
        assert client.busy
        assert not client.invoke(NUMBERS, results.append)
        graph.spin_until(lambda: not client.busy)
        assert [sums(result) for result in results] == [SUMS]

    def test_arrays_the_model_does_not_take_are_refused(self, graph: Any, make_client: Any) -> None:
        client = meet(make_client(), graph)
        with pytest.raises(InputError, match=r"expected 'numbers' int8\[1, 4\]; got int8\[4\]"):
            client.invoke({"numbers": np.zeros(4, np.int8)}, lambda _: None)
        assert not client.busy

    def test_a_model_unloaded_behind_its_back_is_loaded_again(self, graph: Any, make_client: Any) -> None:
        client = make_client()
        ask(client, graph)

        def unload_and_ask() -> bool:
            assert graph.call(UnloadModel, "/edgetpu/unload_model", name="sums").success
            return isinstance(ask(client, graph).error, ModelNotFoundError)

        # A late answer that the driver was still starting makes the client load the model again.
        assert any(unload_and_ask() for _ in range(3))
        assert not client.ready
        assert sums(ask(client, graph)) == SUMS

    def test_a_model_that_is_not_there_yet_is_asked_for_again(
        self, graph: Any, make_client: Any, model_dir: Path
    ) -> None:
        client = make_client("later")
        graph.spin_until(lambda: client.problem.startswith("no later.tflite in"))
        assert client.needs_user
        (model_dir / "later.tflite").write_bytes((model_dir / "sums.tflite").read_bytes())
        try:
            assert sums(ask(meet(client, graph), graph)) == SUMS
            assert (client.problem, client.needs_user) == ("", False)
        finally:
            (model_dir / "later.tflite").unlink()

    def test_while_the_driver_is_inactive_it_is_not_ready_and_says_why(
        self, graph: Any, make_client: Any
    ) -> None:
        client = meet(make_client(), graph)
        assert sums(ask(client, graph)) == SUMS
        self.change(graph, Transition.TRANSITION_DEACTIVATE)
        error = ask(client, graph).error
        assert isinstance(error, UnavailableError)
        assert (client.ready, client.problem) == (False, str(error))
        assert client.problem == "/edgetpu is inactive; expected it to be active"
        assert not client.needs_user
        assert not client.invoke(NUMBERS, lambda _: None)
        self.change(graph, Transition.TRANSITION_ACTIVATE)
        assert sums(ask_until_available(client, graph)) == SUMS
        assert client.problem == ""

    @staticmethod
    def change(graph: Any, transition: int) -> None:
        request = Transition(id=transition)
        assert graph.call(ChangeState, "/edgetpu/change_state", transition=request).success


def test_of_several_drivers_the_next_is_used_while_the_first_is_gone(
    graph: Any, start_node: Any, model_dir: Path, make_client: Any
) -> None:
    def start(name: str) -> Any:
        options = {"backend": "cpu", "model_dirs": f"[{model_dir}]"}
        process = start_node("edgetpu_driver", "edgetpu_node", "-r", f"__node:={name}", **options)
        graph.await_device(f"/{name}")
        return process

    first, second = start("first"), start("second")
    client = make_client(driver=["first", "second"], request_timeout=SHORT_TIMEOUT)

    def answered_by(driver: str) -> bool:
        results: list[InferenceResult] = []
        graph.spin_until(lambda: client.invoke(NUMBERS, results.append))
        asked, _ = client.target
        graph.spin_until(lambda: bool(results))
        answered = results[0].error is None and sums(results[0]) == SUMS and asked == driver
        graph.spin_for(0.0 if answered else 0.1)  # the other driver need not work without a pause
        return answered

    graph.spin_until(lambda: answered_by("/first"))
    first.kill()
    graph.spin_until(lambda: answered_by("/second"))
    first = start("first")
    graph.spin_until(lambda: answered_by("/first"))
    first.stop()
    second.stop()


class TestInOneProcess:
    @pytest.fixture
    def driver(self, graph: Any, model_dir: Path) -> Iterator[DriverNode]:
        driver = make_driver(graph, model_dir)
        yield driver
        driver.destroy_node()

    @pytest.mark.usefixtures("driver")
    def test_the_answer_comes_by_the_executor_after_the_call_has_returned(
        self, graph: Any, make_client: Any
    ) -> None:
        client = make_client()
        graph.spin_until(lambda: client.ready)
        threads: list[int] = []
        assert client.invoke(NUMBERS, lambda _: threads.append(threading.get_ident()))
        assert client.busy
        assert not threads
        graph.spin_until(lambda: bool(threads))
        assert threads == [threading.get_ident()]

    @pytest.mark.usefixtures("driver")
    def test_the_answer_to_a_closed_client_is_ignored(self, graph: Any, make_client: Any) -> None:
        closed, other = make_client(), make_client()
        graph.spin_until(lambda: closed.ready and other.ready)
        results: list[InferenceResult] = []
        assert closed.invoke(NUMBERS, results.append)
        closed.close()
        assert isinstance(results[0].error, UnavailableError)
        ask(other, graph)
        assert len(results) == 1

    @pytest.mark.usefixtures("driver")
    def test_the_next_request_may_be_sent_from_the_answer_of_the_last(
        self, graph: Any, make_client: Any
    ) -> None:
        client = make_client()
        graph.spin_until(lambda: client.ready)
        results: list[InferenceResult] = []

        def again(result: InferenceResult) -> None:
            results.append(result)
            if len(results) < 3:
                assert client.invoke(NUMBERS, again)

        client.invoke(NUMBERS, again)
        graph.spin_until(lambda: len(results) == 3)
        assert [sums(result) for result in results] == [SUMS] * 3

    def test_a_driver_that_leaves_is_looked_for_elsewhere(
        self, graph: Any, model_dir: Path, start_driver: Any, make_client: Any
    ) -> None:
        driver = make_driver(graph, model_dir)
        client = make_client()
        graph.spin_until(lambda: client.ready)
        driver.destroy_node()
        results: list[InferenceResult] = []
        client.invoke(NUMBERS, results.append)
        graph.spin_until(lambda: bool(results))
        assert isinstance(results[0].error, UnavailableError)
        start_driver()
        assert sums(ask_until_available(client, graph)) == SUMS


@pytest.fixture(scope="module", params=["direct", "service"])
def any_driver(
    request: pytest.FixtureRequest, start_node: Any, graph: Any, model_dir: Path
) -> Iterator[None]:
    """A driver in this process or in one of its own, for all tests that follow."""
    if request.param == "service":
        process = start_driver_process(graph, start_node, model_dir)
        yield
        process.stop()
    else:
        driver = make_driver(graph, model_dir)
        yield
        driver.destroy_node()


@pytest.mark.usefixtures("any_driver")
@pytest.mark.parametrize("is_given_up", [False, True])
def test_inputs_go_with_the_request_without_the_garbage_collector(
    graph: Any, make_client: Any, is_given_up: bool
) -> None:
    client = meet(make_client(), graph)
    assert sums(ask(client, graph)) == SUMS
    results: list[InferenceResult] = []
    inputs = {"numbers": NUMBERS["numbers"].copy()}
    kept = weakref.ref(inputs["numbers"])
    gc.disable()
    try:
        graph.spin_until(lambda: client.invoke({"numbers": inputs.pop("numbers")}, results.append))
        if is_given_up:
            client.close()
        graph.spin_until(lambda: bool(results))
        graph.spin_until(lambda: kept() is None)
    finally:
        gc.enable()


@pytest.mark.usefixtures("any_driver")
class TestWeights:
    def test_a_model_under_its_own_name_accepts_weights(self, graph: Any, make_client: Any) -> None:
        mine, shared = meet(make_client(name="mine/sums"), graph), meet(make_client(), graph)
        swap = give(mine, graph, np.array([[0, 1, 0, 0], [0, 0, 0, 1]]))
        assert isinstance(swap, WeightResult)
        assert (swap.version, swap.clipped, swap.worst_error, swap.shape) == (1, 0, 0.0, (2, 4))
        assert swap.row_scales.tolist() == [1.0, 1.0]
        result = ask(mine, graph)
        assert sums(result) == [[6 + 3, 8 + 3]]
        assert result.weights_version == 1
        assert sums(ask(shared, graph)) == SUMS

    @pytest.mark.parametrize(
        ("weights", "error", "message"),
        [
            (np.full((2, 4), np.nan), InputError, "expected weights that are finite as float32; got 8 NaN"),
            (np.full((2, 4), 200.0), ClippingError, "8 of 8 are beyond, by up to 73"),
            (np.zeros(8), InputError, r"at most \[2, 4\]"),
        ],
    )
    def test_refused_weights_leave_the_old_ones_effective(
        self, graph: Any, make_client: Any, weights: Any, error: type[Exception], message: str
    ) -> None:
        client = meet(make_client(), graph)
        result = give(client, graph, weights)
        assert type(result) is error
        assert re.search(message, str(result))
        assert sums(ask(client, graph)) == SUMS


def test_all_frames_that_queue_in_a_subscription_are_taken_at_once(graph: Any) -> None:
    taken: list[list[int]] = []

    def on_message(message: UInt32) -> None:
        taken.append([each.data for each in take_waiting(subscription, message)])

    subscription = graph.node.create_subscription(UInt32, "frames", on_message, 5)
    publisher = graph.node.create_publisher(UInt32, "frames", 5)
    graph.spin_until(lambda: publisher.get_subscription_count() == 1)
    for number in range(4):
        publisher.publish(UInt32(data=number))
    graph.spin_until(lambda: bool(taken) and taken[-1][-1] == 3)
    assert taken == [[0, 1, 2, 3]]
