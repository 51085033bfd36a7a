"""A graph whose nodes do not load, or keep the executor busy."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.task import Future
from std_srvs.srv import Trigger

from edgetpu_dashboard.nodes import graph_calls
from edgetpu_dashboard.nodes.graph_view import ViewedNode
from edgetpu_driver.errors import UnavailableError


def test_a_node_that_does_not_load_has_no_settings() -> None:
    def load() -> Any:
        raise SyntaxError("invalid syntax (own_node.py, line 1)")

    entry: Any = SimpleNamespace(load=load)
    assert ViewedNode(entry).settings == {}


def test_a_busy_executor_is_an_error_of_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_calls, "ANSWER", 0.01)
    node: Any = SimpleNamespace(executor=SimpleNamespace(create_task=lambda _run: None))
    calls = graph_calls.GraphCalls(node, str)
    with pytest.raises(UnavailableError, match=r"the dashboard did not answer within 0\.01 s"):
        asyncio.run(calls.in_executor(lambda: None))


class FakeClient:
    """A client of a service that does not answer; `asked` has its requests, `waiting` those not given up."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.waiting: list[Any] = []

    def service_is_ready(self) -> bool:
        return True

    def call_async(self, _request: Any) -> Any:
        self.asked.append(Future())
        self.waiting.append(self.asked[-1])
        return self.asked[-1]

    def remove_pending_request(self, future: Any) -> None:
        self.waiting.remove(future)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_request_that_nobody_waits_for_any_more_is_given_up(is_cancelled: bool) -> None:
    client = FakeClient()
    node: Any = SimpleNamespace(
        executor=SimpleNamespace(create_task=lambda run: run()),
        create_client=lambda *_arguments, **_options: client,
    )
    calls = graph_calls.GraphCalls(node, str)

    async def ask() -> None:
        asking = asyncio.create_task(calls.ask(Trigger, "node", "reset", 60.0 if is_cancelled else 0.01))
        for _ in range(10):  # until it waits for the answer
            await asyncio.sleep(0)
        if is_cancelled:
            assert len(client.waiting) == 1
            asking.cancel()
        with pytest.raises(asyncio.CancelledError if is_cancelled else UnavailableError):
            await asking

    asyncio.run(ask())
    assert (len(client.asked), client.waiting) == (1, [])
