"""A perception node has the driver unload the graph that another has replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.task import Future

from edgetpu_perception.nodes.perception_node import PerceptionNode


class FakeClient:
    """A client of ~/unload_model; `waiting` has the requests without an answer."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def service_is_ready(self) -> bool:
        return True

    def call_async(self, request: Any) -> Future:
        future = Future()
        future.name = request.name
        self.waiting.append(future)
        return future

    def remove_pending_request(self, future: Future) -> None:
        self.waiting = [each for each in self.waiting if each is not future]


def test_a_request_to_unload_that_was_not_answered_is_given_up_with_the_next() -> None:
    client = FakeClient()
    node: Any = SimpleNamespace(
        _unload_clients={"/edgetpu": client}, _unloading=None, get_fully_qualified_name=lambda: "/node"
    )
    for name in ("first", "second", "third"):
        PerceptionNode._unload(node, "/edgetpu", name)
        assert [each.name for each in client.waiting] == [name]
