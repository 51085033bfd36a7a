"""How long the client of the driver waits for an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.errors import UnavailableError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.node_kit.clients import client_problem, model_client
from edgetpu_driver.node_kit.clients.answer_patience import LONGEST, AnswerPatience
from edgetpu_driver.node_kit.clients.load_result import LoadResult
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from testdata.devices.fake_timers import Clock


class SlowDriver:
    """A transport to a driver that loads models at once, and answers requests later."""

    available = True
    asked: list[Callable[[InferenceResult], None]]

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def load(self, _model: str, name: str, done: Callable[[LoadResult], None], *, wait: bool) -> None:
        del wait
        done(LoadResult(name))

    def invoke(self, *arguments: Any) -> None:
        self.asked.append(arguments[3])

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class Patient:
    """A client of a slow driver, and the answers to its requests."""

    def __init__(self, node: Any, clock: Clock, steps: list[Callable[[], None]]) -> None:
        """steps: gets the callbacks of timers."""
        self._clock = clock
        self._client = ModelClient(node, "large", request_timeout=2.0)
        (self._step,) = steps
        self.answers: list[InferenceResult] = []

    def ask(self, seconds: float) -> None:
        """Send a request that the driver needs so many seconds for."""
        while not self._client.invoke({}, self.answers.append):
            self._clock.now += 1.0
            self._step()
        self._clock.now += seconds
        count = len(self.answers)
        self._step()
        if len(self.answers) == count:
            SlowDriver.asked[-1](InferenceResult())


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, graph: Any) -> Patient:
    clock = Clock()
    steps: list[Callable[[], None]] = []
    SlowDriver.asked = []
    monkeypatch.setattr(model_client, "ServiceTransport", SlowDriver)
    for module in (client_problem, model_client):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(model_client, "create_steady_timer", lambda _node, _period, step: steps.append(step))
    return Patient(graph.node, clock, steps)


def test_a_model_that_takes_longer_than_usual_gives_results_after_the_first_request(client: Patient) -> None:
    for _ in range(3):
        client.ask(3.0)
    first, *others = client.answers
    assert isinstance(first.error, UnavailableError)
    assert str(first.error) == "no answer from /edgetpu for 2 s"
    assert [each.error for each in others] == [None, None]


def test_a_lost_driver_is_noticed_as_soon_as_ever_once_it_was_fast_again(client: Patient) -> None:
    for seconds in (3.0, 0.1, 3.0):
        client.ask(seconds)
    assert [str(each.error) for each in client.answers] == [
        "no answer from /edgetpu for 2 s",
        "None",
        "no answer from /edgetpu for 2 s",
    ]


def test_patience_has_an_end() -> None:
    patience = AnswerPatience(2.0)
    for _ in range(10):
        patience.missed()
    assert patience.seconds == LONGEST
    patience.forget()
    assert patience.seconds == 2.0
