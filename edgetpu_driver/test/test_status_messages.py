"""The state of the driver as messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus

from edgetpu_driver.backends.backend import Readings
from edgetpu_driver.host import host_status
from edgetpu_driver.host.host_status import UNCONFIGURED, State
from edgetpu_driver.nodes.device_status_messages import device_status
from edgetpu_driver.nodes.driver_diagnostics import diagnostic, stick_diagnostic, stick_warnings
from edgetpu_msgs.msg import DeviceStatus, StickStatus


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


def test_the_status_lists_each_stick() -> None:
    sticks = tuple(
        host_status.StickStatus(State.READY, "", Readings(serial=name), throttled=name == "B", waiting=3)
        for name in "AB"
    )
    listed = device_status(replace(UNCONFIGURED, sticks=sticks, refused=5), "usb", Time())
    assert [(stick.serial, stick.throttled, stick.waiting) for stick in listed.sticks] == [
        ("A", False, 3),
        ("B", True, 3),
    ]
    assert listed.refused == 5


def test_a_stick_with_a_reduced_clock_is_a_warning() -> None:
    stick = StickStatus(state=int(State.READY), serial="A", bus_path="2-1", throttled=True)
    entry = stick_diagnostic(stick, "edgetpu")
    assert (entry.name, entry.hardware_id) == ("edgetpu: stick A", "A")
    assert (entry.level, entry.message) == (
        DiagnosticStatus.WARN,
        "ready; the clock is reduced because of the temperature",
    )


def test_wrong_results_of_all_sticks_are_counted_together() -> None:
    sticks = [StickStatus(failed_checks=count) for count in (0, 1, 2)]
    assert stick_warnings(sticks) == ["3 self-checks gave a wrong result"]
