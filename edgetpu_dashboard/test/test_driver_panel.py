"""The panel of the driver."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="NiceGUI is not installed: tools/run.sh tools/install_extra.sh live")
pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from nicegui import Client, ui

from edgetpu_dashboard.web.driver_panel import driver_panel
from edgetpu_msgs.msg import DeviceStatus


def texts(status: DeviceStatus | None, *, running: bool) -> list[str]:
    """What the panel says first after a state of the driver has come."""
    nodes = {"edgetpu": SimpleNamespace(running=running)}
    page: Any = SimpleNamespace(view=SimpleNamespace(lock=threading.Lock(), status=status, nodes=nodes))
    client = Client(ui.page("/"), request=None)
    with client:
        driver_panel(page)
    found = [each.text for each in client.elements.values() if isinstance(each, ui.label)]
    client.delete()
    return found


def test_a_driver_that_runs_has_its_state() -> None:
    ready = DeviceStatus(backend="cpu", state=DeviceStatus.READY)
    assert texts(ready, running=True)[0] == "cpu: ready"


def test_the_state_of_a_driver_that_has_ended_is_not_shown() -> None:
    ready = DeviceStatus(backend="cpu", state=DeviceStatus.READY)
    assert texts(ready, running=False) == ["no driver is running"]
    assert texts(None, running=True) == ["no driver is running"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [((0.0021, 0.0154), "2.10, 15.40 ms"), ((math.nan, math.nan), "no inference lately")],
)
def test_latencies_are_shown_once_there_are_some(seconds: tuple[float, float], shown: str) -> None:
    ready = DeviceStatus(
        backend="cpu", state=DeviceStatus.READY, latency_p50=seconds[0], latency_p99=seconds[1]
    )
    found = texts(ready, running=True)
    assert found[found.index("latency p50, p99") + 1] == shown
