"""The state of the driver as messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus

from edgetpu_driver.backends.backend import Readings
from edgetpu_driver.host.host_status import UNCONFIGURED, State
from edgetpu_driver.nodes.device_status_messages import device_status, diagnostic
from edgetpu_msgs.msg import DeviceStatus


def status(state: State, message: str = "") -> DeviceStatus:
    readings = Readings(serial="S1", thermal_warnings=2)
    return device_status(
        replace(UNCONFIGURED, state=state, status_message=message, readings=readings), "usb", Time()
    )


def test_a_device_that_is_ready_is_fine() -> None:
    entry = diagnostic(status(State.READY), "robot1/edgetpu")
    assert (entry.name, entry.level, entry.message) == (
        "robot1/edgetpu: device",
        DiagnosticStatus.OK,
        "ready",
    )
    assert entry.hardware_id == "S1"
    assert {value.key: value.value for value in entry.values}["thermal warnings"] == "2"


def test_further_problems_raise_the_level_to_warning() -> None:
    entry = diagnostic(status(State.READY), "edgetpu", ["it is hot"])
    assert (entry.level, entry.message) == (DiagnosticStatus.WARN, "ready; it is hot")


def test_a_warning_does_not_hide_an_error() -> None:
    entry = diagnostic(status(State.ABSENT, "no stick"), "edgetpu", ["it is hot"])
    assert (entry.level, entry.message) == (DiagnosticStatus.ERROR, "no stick; it is hot")
