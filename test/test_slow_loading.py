"""A model that the driver needs long to load, as seen by its clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.parameter import Parameter

from edgetpu_driver.host import model_table
from edgetpu_driver.node_kit.clients import local_drivers
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.nodes.driver_node import DriverNode
from testdata.timeouts import PATIENCE


@pytest.fixture
def read(graph: Any, model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A driver that loads no model until this is set."""
    event = threading.Event()
    read_graph = model_table.read_graph

    def slow(path: Path) -> Any:
        event.wait(PATIENCE)
        return read_graph(path)

    values = {"backend": "cpu", "model_dirs": [str(model_dir)]}
    node = DriverNode(parameter_overrides=[Parameter(name, value=value) for name, value in values.items()])
    graph.add_node(node)
    graph.await_device()
    monkeypatch.setattr(model_table, "read_graph", slow)
    yield event
    event.set()
    graph.remove_node(node)
    node.destroy_node()


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "services"])
def test_a_model_that_takes_long_is_being_loaded_until_it_is(
    graph: Any, read: threading.Event, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    if not direct:
        monkeypatch.setattr(local_drivers, "find", lambda _: None)
    times_ready: list[bool] = []
    client = ModelClient(
        graph.node, "sums", on_ready=lambda: times_ready.append(client.ready), request_timeout=1.0
    )
    graph.spin_until(lambda: client.problem == "being loaded on /edgetpu")
    read.set()
    graph.spin_until(lambda: client.ready)
    assert client.problem == ""
    assert times_ready == [True]
    client.close()
