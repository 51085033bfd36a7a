"""The client of the driver: its terms, full queues, results of other models, and several drivers.

The drivers are scripted, so that each answer is the one under test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.backends.backend import ParsedModel, Placement
from edgetpu_driver.errors import BusyError, EdgeTpuError, ExpiredError, InputError, ModelNotFoundError
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.models.model_parts import ReadModel
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.node_kit.clients import local_drivers, model_client
from edgetpu_driver.node_kit.clients.driver_choice import DRIVER_SETTING, driver_names
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.messages.error_codes import answer_error
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_LATCHED
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from edgetpu_msgs.msg import DeviceStatus, ErrorCode
from edgetpu_msgs.srv import LoadModel
from testdata.timeouts import PATIENCE

SPEC = TensorSpec("x", (1, 2), np.dtype(np.int8), 1.0, 0)
INPUTS = {"x": np.array([[1, 2]], np.int8)}
PARSED = ParsedModel((SPEC,), (SPEC,), Placement.CACHED, parameter_bytes=2, caching_token=0, source=None)
GOOD = InferenceResult({"x": INPUTS["x"]}, model_sha256="file")


class ScriptedDriver:
    """A driver in this process with preset answers, which records its requests."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loads: list[tuple[str, str, str, bool]] = []
        self.terms: list[RequestTerms] = []
        self.options: list[tuple[int, bool]] = []
        """The part and `reset` of the inferences."""
        self.parts_set: list[int] = []
        """The parts whose weights were set."""
        self.answers: list[InferenceResult | EdgeTpuError] = []
        """Answers to the next inferences; GOOD when there are none."""
        self.version = 0
        local_drivers.register(name, self)  # type: ignore[arg-type]

    def active_host(self) -> Any:
        return self

    def submit_load(self, model: str, name: str, done: Any, *, client: str, shared: bool) -> None:
        self.loads.append((model, name, client, shared))
        loaded = HostedModel(name or model, ())
        loaded.set_read("file", 0, ReadModel(PARSED))
        done(loaded)

    def submit_invoke(
        self, _name: str, _inputs: Any, done: Any, terms: RequestTerms, *, part: int, reset: bool
    ) -> None:
        self.terms.append(terms)
        self.options.append((part, reset))
        done(self.answers.pop(0) if self.answers else GOOD)

    def submit_set_weights(
        self, _name: str, request: WeightRequest, done: Any, terms: RequestTerms, *, part: int
    ) -> None:
        self.terms.append(terms)
        self.parts_set.append(part)
        self.version += 1
        done(WeightResult(self.version, np.ones(1, np.float32), 0, 0.0, 0.0, request.weights.shape, True))


@pytest.fixture
def driver(graph: Any) -> Iterator[ScriptedDriver]:  # noqa: ARG001
    yield ScriptedDriver("/scripted")
    local_drivers.unregister("/scripted")


@pytest.fixture
def make_client(graph: Any, patient_clients: None) -> Iterator[Callable[..., ModelClient]]:  # noqa: ARG001
    clients: list[ModelClient] = []

    def make(driver: Any = "/scripted", **options: Any) -> ModelClient:
        clients.append(ModelClient(graph.node, "m", driver=driver, **options))
        graph.spin_until(lambda: clients[-1].ready)
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def ask(client: ModelClient, graph: Any, **options: Any) -> InferenceResult:
    results: list[InferenceResult] = []
    graph.spin_until(lambda: client.invoke(INPUTS, results.append, **options))
    graph.spin_until(lambda: bool(results))
    return results[0]


def give(client: ModelClient, graph: Any, **options: Any) -> None:
    results: list[WeightResult | EdgeTpuError] = []
    assert client.set_weights(WeightRequest(np.ones((1, 2))), results.append, **options)
    graph.spin_until(lambda: bool(results))
    assert isinstance(results[0], WeightResult)


@pytest.mark.parametrize(
    ("told", "waited"), [(0.5, 0.5), (1e30, 60.0), (np.inf, 60.0), (-1.0, 0.0), (-np.inf, 0.0), (np.nan, 0.0)]
)
def test_a_busy_driver_puts_its_clients_off_for_a_minute_at_most(told: float, waited: float) -> None:
    answer = LoadModel.Response(error=ErrorCode(value=ErrorCode.BUSY), retry_after=told)
    error = answer_error(answer)
    assert isinstance(error, BusyError)
    assert error.retry_after == waited


class TestTerms:
    def test_requests_carry_the_nodes_name_a_priority_and_a_deadline(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        client = make_client(priority=Priority.REAL_TIME, deadline=0.2, name="mine")
        ask(client, graph)
        give(client, graph)
        assert driver.terms == [
            RequestTerms("/tester", Priority.REAL_TIME, 0.2),
            RequestTerms("/tester", Priority.BULK, 0.8 * PATIENCE),
        ]

    def test_a_request_without_a_deadline_gets_one_that_leaves_time_for_the_answer(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        ask(make_client(request_timeout=50.0), graph)
        assert driver.terms == [RequestTerms("/tester", Priority.NORMAL, 40.0)]

    @pytest.mark.parametrize(("name", "shared"), [("", True), ("mine", False)])
    def test_only_a_model_without_a_name_of_its_own_is_shared(
        self, driver: ScriptedDriver, make_client: Any, name: str, shared: bool
    ) -> None:
        make_client(name=name)
        assert driver.loads == [("m", name, "/tester", shared)]

    def test_the_part_and_whether_state_is_reset_reach_the_driver(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        client = make_client(name="mine")
        ask(client, graph)
        ask(client, graph, part=1, reset=True)
        assert driver.options == [(0, False), (1, True)]
        give(client, graph)
        give(client, graph, part=1)
        assert driver.parts_set == [0, 1]


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the time of clients stand still, until a test sets its attribute `now`."""
    clock = SimpleNamespace(now=time.monotonic())
    monkeypatch.setattr(model_client, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


class TestFullQueues:
    @pytest.mark.parametrize("refusal", [BusyError("full", 0.01), ExpiredError("late")])
    def test_a_request_that_was_not_run_is_sent_again(
        self, graph: Any, driver: ScriptedDriver, make_client: Any, refusal: EdgeTpuError
    ) -> None:
        client = make_client(deadline=0.2)
        driver.answers = [refusal, refusal]
        assert ask(client, graph).error is None
        assert len(driver.terms) == 3

    @pytest.mark.parametrize("refusal", [BusyError("full", 0.01), ExpiredError("late")])
    def test_one_that_is_not_wanted_any_more_is_not(
        self, graph: Any, driver: ScriptedDriver, make_client: Any, refusal: EdgeTpuError
    ) -> None:
        client = make_client()
        driver.answers = [refusal]
        assert ask(client, graph, still_wanted=lambda: False).error is refusal
        assert len(driver.terms) == 1
        assert client.ready

    def test_a_driver_that_is_busy_for_longer_than_a_request_lasts_fails_it(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        client = make_client()
        driver.answers = [BusyError("full", 2 * PATIENCE)]
        assert isinstance(ask(client, graph).error, BusyError)
        assert client.ready

    def test_a_driver_that_was_busy_gets_its_whole_time_for_the_request_that_is_sent_again(
        self, graph: Any, driver: ScriptedDriver, make_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = make_client(request_timeout=2.0)
        clock = stopped_clock(monkeypatch)
        held: list[Any] = []
        results: list[InferenceResult] = []
        driver.answers = [BusyError("full", 1.9)]
        graph.spin_until(lambda: client.invoke(INPUTS, results.append))
        graph.spin_until(lambda: client._request.again is not None)
        monkeypatch.setattr(driver, "submit_invoke", lambda *given, **_: held.append(given[2]))
        clock.now += 2.1  # the process was slow; the request itself would have been lost after 2 s
        graph.spin_until(lambda: bool(held))
        clock.now += 1.7
        client._step()
        held[0](GOOD)
        graph.spin_until(lambda: bool(results))
        assert results[0].error is None

    def test_a_driver_that_stays_busy_fails_it_in_the_end(
        self, graph: Any, driver: ScriptedDriver, make_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = make_client(request_timeout=2.0)
        clock = stopped_clock(monkeypatch)
        results: list[InferenceResult] = []
        driver.answers = [BusyError("full", 1.9), BusyError("full", 1.9)]
        graph.spin_until(lambda: client.invoke(INPUTS, results.append))
        graph.spin_until(lambda: client._request.again is not None)
        clock.now += 1.9
        graph.spin_until(lambda: bool(results))
        assert isinstance(results[0].error, BusyError)
        assert client.ready

    def test_one_that_expires_when_its_time_is_nearly_over_fails(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        client = make_client(deadline=2 * PATIENCE)
        driver.answers = [ExpiredError("late")]
        assert isinstance(ask(client, graph).error, ExpiredError)
        assert client.ready


class TestOtherModels:
    def test_a_result_of_another_file_has_the_model_loaded_again(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        client = make_client()
        driver.answers = [InferenceResult(model_sha256="another")]
        error = ask(client, graph).error
        assert isinstance(error, ModelNotFoundError)
        assert str(error) == "the driver has another model as 'm'"
        assert ask(client, graph).error is None
        assert len(driver.loads) == 2

    def test_a_model_of_another_form_is_loaded_again(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        client = make_client()
        for count in (2, 3):
            driver.answers = [InputError("expected 'x' int8[1, 3]")]
            error = ask(client, graph).error
            assert isinstance(error, ModelNotFoundError)
            assert str(error) == "the driver has another model as 'm': expected 'x' int8[1, 3]"
            assert ask(client, graph).error is None
            assert len(driver.loads) == count

    def test_a_model_that_refuses_its_own_inputs_is_loaded_again_once(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        client, refusal = make_client(), InputError("expected a smaller matrix")
        driver.answers = [refusal, refusal, refusal]
        errors = [ask(client, graph).error for _ in range(3)]
        assert [type(error) for error in errors] == [ModelNotFoundError, InputError, InputError]
        assert len(driver.loads) == 2

    def test_a_result_with_other_weights_than_were_set_has_the_model_loaded_again(
        self, graph: Any, driver: ScriptedDriver, make_client: Any
    ) -> None:
        client = make_client(name="mine")
        give(client, graph)
        driver.answers = [InferenceResult(model_sha256="file", weights_version=2)]
        assert str(ask(client, graph).error) == (
            "expected version 1 of the weights of 'mine', which were set here; got 2"
        )
        graph.spin_until(lambda: client.ready)
        give(client, graph)
        driver.answers = [InferenceResult(model_sha256="file", weights_version=2)]
        assert ask(client, graph).error is None


class TestSeveralDrivers:
    @pytest.fixture
    def drivers(self, graph: Any) -> Iterator[tuple[ScriptedDriver, ScriptedDriver]]:  # noqa: ARG002
        yield ScriptedDriver("/first"), ScriptedDriver("/second")
        local_drivers.unregister("/first")
        local_drivers.unregister("/second")

    def test_the_first_that_is_ready_is_used_and_used_again_when_it_is_back(
        self, graph: Any, drivers: tuple[ScriptedDriver, ScriptedDriver], make_client: Any
    ) -> None:
        first, second = drivers
        publishers = {
            driver.name: graph.node.create_publisher(DeviceStatus, f"{driver.name}/status", QOS_LATCHED)
            for driver in drivers
        }

        def tell(driver: ScriptedDriver, state: int) -> None:
            publishers[driver.name].publish(DeviceStatus(state=state))

        client = make_client("/first,/second")
        for driver, state, expected in (
            (second, DeviceStatus.READY, "/second"),
            (first, DeviceStatus.READY, "/first"),
            (first, DeviceStatus.ABSENT, "/second"),
            (first, DeviceStatus.READY, "/first"),
        ):

            def uses_expected(driver: Any = driver, state: int = state, expected: str = expected) -> bool:
                tell(driver, state)
                return client.ready and client.target == (expected, "m")

            graph.spin_until(uses_expected)
            count = len(first.terms if expected == "/first" else second.terms)
            assert ask(client, graph).error is None
            assert len(first.terms if expected == "/first" else second.terms) == count + 1

    @pytest.mark.parametrize("value", ["a, /b/c", ["a", "/b/c"]])
    def test_names_are_a_list_or_separated_by_commas(self, value: Any) -> None:
        assert driver_names(value) == ("a", "/b/c")
        assert DRIVER_SETTING.refusal(value) is None

    @pytest.mark.parametrize(
        ("value", "refusal"),
        [
            ("", "expected a node's name, letters, digits and _ between slashes; got ''"),
            ("a,", "expected a node's name, letters, digits and _ between slashes; got ''"),
            (
                ["a", "no space"],
                "expected a node's name, letters, digits and _ between slashes; got 'no space'",
            ),
            ([], "expected a node's name, letters, digits and _ between slashes; got ''"),
            ("a,a", "expected each driver once"),
            (201 * "a", "expected a node's name of at most 200 characters; got 201"),
            (3, "expected a name or a list of names; got 3"),
        ],
    )
    def test_other_values_are_refused(self, value: Any, refusal: str) -> None:
        assert DRIVER_SETTING.refusal(value) == refusal
