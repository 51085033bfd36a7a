"""The messages of ~/status and of a device's registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from builtin_interfaces.msg import Time

from edgetpu_driver.backends.backend import Readings, RegisterValue
from edgetpu_driver.host.host_status import HostStatus, StickStatus
from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_msgs.msg import DeviceStatus, Register
from edgetpu_msgs.msg import StickStatus as StickStatusMessage


def device_status(status: HostStatus, backend: str, stamp: Time) -> DeviceStatus:
    """Make the message of ~/status."""
    readings, period = status.readings, status.period
    return DeviceStatus(
        stamp=stamp,
        state=int(status.state),
        message=one_line(status.status_message),
        backend=backend,
        firmware=readings.firmware,
        resident_models=list(status.resident),
        utilisation=period.utilisation,
        inferences=status.inferences,
        bytes_sent=readings.bytes_sent,
        bytes_received=readings.bytes_received,
        retries=readings.retries,
        recoveries=status.recoveries,
        dropped=status.dropped,
        thermal_warnings=readings.thermal_warnings,
        latency_p50=period.latency_p50,
        latency_p99=period.latency_p99,
        waiting=status.waiting,
        expired=status.expired,
        refused=status.refused,
        sticks=[_stick_status(stick) for stick in status.sticks],
        uploaded_models=list(status.uploads),
        uploads_of_models=list(status.uploads.values()),
        **_fields_of_readings(readings),
    )


def _stick_status(stick: StickStatus) -> StickStatusMessage:
    return StickStatusMessage(
        state=int(stick.state),
        message=one_line(stick.status_message),
        throttled=stick.throttled,
        resident_models=list(stick.resident),
        waiting=stick.waiting,
        utilisation=stick.utilisation,
        throughput=stick.throughput,
        inferences=stick.inferences,
        uploads_avoided=stick.uploads_avoided,
        recoveries=stick.recoveries,
        failed_checks=stick.failed_checks,
        **_fields_of_readings(stick.readings),
    )


def _fields_of_readings(readings: Readings) -> dict[str, Any]:
    """The fields that DeviceStatus and StickStatus have in common, as read from the device."""
    return {
        "serial": readings.serial,
        "bus_path": readings.bus_path,
        "link_speed": readings.link_speed,
        "clock_preset": readings.clock_preset,
        "temperature": readings.temperature,
        "sram_used": readings.sram_used,
        "sram_total": readings.sram_total,
        "uploads": readings.uploads,
    }


def register_messages(registers: Iterable[RegisterValue]) -> list[Register]:
    """List registers with their values."""
    return [Register(name=r.name, address=r.address, value=r.value, bus_path=r.bus_path) for r in registers]
