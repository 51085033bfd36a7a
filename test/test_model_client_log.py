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
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.clients.remote_model import LoadResult
from testdata.devices.fake_timers import Clock


class DriverWithoutDevice:
    """A transport to a driver that loads models, and whose device comes after the first request."""

    available = True

    def __init__(self, *_: Any, **__: Any) -> None:
        self._answers: list[EdgeTpuError | None] = [UnavailableError("no device: opening it"), None]

    def load(self, model: str, name: str, done: Callable[[LoadResult], None]) -> None:
        del model
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

    def load(self, *_: Any) -> None: ...


@pytest.mark.parametrize("other_nodes", [0.0, 6.0])  # seconds in which they are made in the same process
def test_a_driver_that_answers_late_is_no_warning_until_the_start_should_be_over(
    monkeypatch: pytest.MonkeyPatch, graph: Any, other_nodes: float
) -> None:
    lines: list[str] = []
    steps: list[Callable[[], None]] = []
    clock = Clock()
    logger = SimpleNamespace(
        info=lambda text: lines.append(f"info: {text}"), warning=lambda text: lines.append(f"warning: {text}")
    )
    monkeypatch.setattr(graph.node, "get_logger", lambda: logger)
    monkeypatch.setattr(model_client, "ServiceTransport", SilentDriver)
    for module in (client_problem, model_client):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(model_client, "create_steady_timer", lambda _node, _period, step: steps.append(step))
    monkeypatch.setattr(graph.node, "destroy_timer", steps.remove)
    ModelClient(graph.node, "sums", request_timeout=2.0)
    for seconds in (other_nodes, 2.1, 0.1, 2.1, 0.1, 2.1):
        clock.now += seconds
        steps[0]()
    assert lines == [
        "info: model 'sums': no answer from /edgetpu for 2 s",
        "warning: model 'sums': no answer from /edgetpu for 2 s",
    ]
