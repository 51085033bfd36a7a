"""A graph whose nodes do not load, or keep the executor busy."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

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
