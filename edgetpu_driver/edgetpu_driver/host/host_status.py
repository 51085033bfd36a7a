"""The state of the device a host runs models on, and the host's figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from edgetpu_driver.backends.backend import Readings
from edgetpu_driver.host.inference_statistics import Period


class State(IntEnum):
    """State of the device; the numbers are those of edgetpu_msgs/DeviceStatus."""

    ABSENT = 0
    BOOT = 1
    STARTING = 2
    READY = 3
    RECOVERING = 4
    FAILED = 5
    CLOSED = 6


@dataclass(frozen=True)
class HostStatus:
    """The state of the device, its readings, and counters of the work done."""

    state: State
    status_message: str
    """One line on the state."""
    readings: Readings
    resident: tuple[str, ...]
    """Names of the models whose parameters are on the device."""
    period: Period
    inferences: int
    recoveries: int
    """How often the device was recovered, by its driver or by opening it again."""
    dropped: int
    """Requests for a loaded model that got no result."""


UNCONFIGURED = HostStatus(
    state=State.CLOSED,
    status_message="the driver is not configured",
    readings=Readings(),
    resident=(),
    period=Period(),
    inferences=0,
    recoveries=0,
    dropped=0,
)
