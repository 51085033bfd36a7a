"""What the client of the driver logs while a graph starts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.errors import EdgeTpuError, UnavailableError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.node_kit.clients import client_problem, model_client
from edgetpu_driver.node_kit.clients.load_result import LoadResult
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from testdata.devices.fake_timers import Clock


class DriverWithoutDevice:
    """A transport to a driver that loads models, and whose device comes after the first request."""

    available = True

    def __init__(self, *_: Any, **__: Any) -> None:
        self._answers: list[EdgeTpuError | None] = [UnavailableError("no device: opening it"), None]

    def load(self, _model: str, name: str, done: Callable[[LoadResult], None], *, wait: bool) -> None:
        del wait
        done(LoadResult(name))

    def invoke(self, *arguments: Any) -> None:
        arguments[3](InferenceResult(error=self._answers.pop(0)))

    def cancel(self) -> None: ...

    def close(self) -> None: ...


def test_a_client_that_sends_a_request_at_once_logs_each_state_of_a_start_once(
    monkeypatch: pytest.MonkeyPatch, graph: Any
) -> None:
    lines: list[str] = []
    steps: list[Callable[[], None]] = []
    logger = SimpleNamespace(info=lines.append, warning=lines.append)
    monkeypatch.setattr(graph.node, "get_logger", lambda: logger)
    monkeypatch.setattr(model_client, "ServiceTransport", DriverWithoutDevice)
    monkeypatch.setattr(model_client, "RETRY_PERIOD", 0.0)
    monkeypatch.setattr(model_client, "create_steady_timer", lambda _node, _period, step: steps.append(step))
    monkeypatch.setattr(graph.node, "destroy_timer", steps.remove)
    client = ModelClient(
        graph.node, "sums", name="own", on_ready=lambda: client.invoke({}, lambda _: None) and None
    )
    for _ in range(4):
        steps[0]()
    assert lines == ["model 'sums': no device: opening it", "model 'sums' is loaded on /edgetpu as 'own'"]
    assert client.problem == ""


class SilentDriver(DriverWithoutDevice):
    """A transport to a driver that is there, and does not answer."""

    def load(self, *_: Any, wait: bool) -> None: ...


class SlowDriver(DriverWithoutDevice):
    """A transport to a driver that needs 20 s to load a model."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock, self._begin = clock, clock.now
        self.asked: list[tuple[float, bool]] = []
        """When, s after the begin, the driver was asked for the model, and whether to wait for it."""
        self._waiting: list[Callable[[LoadResult], None]] = []

    def load(self, _model: str, _name: str, done: Callable[[LoadResult], None], *, wait: bool) -> None:
        self.asked.append((round(self._clock.now - self._begin, 1), wait))
        if wait:
            self._waiting.append(done)
        else:
            done(LoadResult(loading=True))

    def cancel(self) -> None:
        self._waiting.clear()

    def answer(self) -> None:
        """Answer the request that waits once the model is loaded."""
        if self._clock.now - self._begin > 20.0 and self._waiting:
            self._waiting.pop()(LoadResult("large"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (client_problem, model_client):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, graph: Any) -> list[str]:
    """The log."""
    lines: list[str] = []
    logger = SimpleNamespace(
        info=lambda text: lines.append(f"info: {text}"), warning=lambda text: lines.append(f"warning: {text}")
    )
    monkeypatch.setattr(graph.node, "get_logger", lambda: logger)
    return lines


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, graph: Any) -> list[Callable[[], None]]:
    """The callbacks of timers, each of which stands for its timer."""
    steps: list[Callable[[], None]] = []

    def create(_node: Any, _period: float, step: Callable[[], None]) -> Callable[[], None]:
        steps.append(step)
        return step

    monkeypatch.setattr(model_client, "create_steady_timer", create)
    monkeypatch.setattr(graph.node, "destroy_timer", steps.remove)
    return steps


def test_a_client_that_is_closed_during_the_start_logs_nothing(
    monkeypatch: pytest.MonkeyPatch,
    graph: Any,
    clock: Clock,
    lines: list[str],
    steps: list[Callable[[], None]],
) -> None:
    monkeypatch.setattr(model_client, "ServiceTransport", SilentDriver)
    client = ModelClient(graph.node, "sums", request_timeout=2.0)
    while not lines:
        steps[0]()
        clock.now += 0.1
    client.close()
    assert client.problem == "the client is closed"
    assert lines == ["info: model 'sums': no answer from /edgetpu for 2 s"]


@pytest.mark.parametrize("other_nodes", [0.0, 6.0])  # seconds in which they are made in the same process
def test_a_driver_that_answers_late_is_no_warning_until_the_start_should_be_over(
    monkeypatch: pytest.MonkeyPatch,
    graph: Any,
    clock: Clock,
    lines: list[str],
    steps: list[Callable[[], None]],
    other_nodes: float,
) -> None:
    monkeypatch.setattr(model_client, "ServiceTransport", SilentDriver)
    ModelClient(graph.node, "sums", request_timeout=2.0)
    clock.now += other_nodes
    for _ in range(70):
        steps[0]()
        clock.now += 0.1
    assert lines == [
        "info: model 'sums': no answer from /edgetpu for 2 s",
        "warning: model 'sums': no answer from /edgetpu for 2 s",
    ]


def test_a_driver_that_takes_long_to_load_a_model_is_not_called_silent(
    monkeypatch: pytest.MonkeyPatch,
    graph: Any,
    clock: Clock,
    lines: list[str],
    steps: list[Callable[[], None]],
) -> None:
    driver = SlowDriver(clock)
    monkeypatch.setattr(model_client, "ServiceTransport", lambda *_, **__: driver)
    client = ModelClient(graph.node, "large", request_timeout=2.0)
    for _ in range(210):
        steps[0]()
        clock.now += 0.1
        driver.answer()
    assert client.ready
    assert lines == [
        "info: model 'large': being loaded on /edgetpu",
        "info: model 'large' is loaded on /edgetpu",
    ]
    assert [when for when, wait in driver.asked if not wait] == [1.1, 3.2, 7.3, 15.4]
