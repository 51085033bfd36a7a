"""The state of the device a host runs models on, and the host's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    INACTIVE = 7
    """The device may be ready, but the driver node takes no requests."""


@dataclass(frozen=True)
class StickStatus:
    """The state of one stick of a host; the fields are those of edgetpu_msgs/StickStatus."""

    state: State
    status_message: str
    """One line that explains the state."""
    readings: Readings
    """Serial number, bus path, link speed, effective clock preset, temperature, memory, uploads."""
    throttled: bool = False
    """Whether the clock is reduced because the chip is hot."""
    resident: tuple[str, ...] = ()
    """Names of the models whose parameters are in its memory."""
    waiting: int = 0
    """Requests that wait for this stick alone."""
    utilisation: float = 0.0
    """Share of the last period spent in engines, 0..1."""
    throughput: float = 0.0
    """Requests completed per second of the last period."""
    inferences: int = 0
    """Requests run since the host was made; the counters that follow start there too."""
    uploads_avoided: int = 0
    """Inferences whose parameters were resident already."""
    recoveries: int = 0
    """Number of recoveries."""
    failed_checks: int = 0
    """Number of self-checks with a wrong answer."""


@dataclass(frozen=True)
class HostStatus:
    """The state of a host's sticks as a whole, and counters of the work done.

    `state` and `readings` are those of the stick that is closest to being ready, but with the counters of all
    sticks.
    """

    state: State
    status_message: str
    """One line that explains the state."""
    readings: Readings
    resident: tuple[str, ...]
    """Names of the models whose parameters are on the device."""
    period: Period
    inferences: int
    recoveries: int
    """Number of times a device was reset or reopened after a fault."""
    dropped: int
    """Number of requests for a loaded model that ended without a result."""
    waiting: int = 0
    """Number of requests that wait now."""
    expired: int = 0
    """Number of requests whose deadline passed before work on them began."""
    refused: int = 0
    """Number of requests answered BUSY."""
    sticks: tuple[StickStatus, ...] = ()
    uploads: Mapping[str, int] = field(default_factory=dict)
    """Number of uploads of parameters by the name of the loaded model; without models that had none."""


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
