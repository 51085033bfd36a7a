"""What the model host keeps and tells: models, inferences, weights and its state."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from edgetpu_driver.backends.backend import ParsedModel, Readings
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.host.inference_statistics import Period
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.weights.replacement import WeightRequest

if TYPE_CHECKING:
    from edgetpu_driver.matrix.hosted import HostedMatrix


class State(IntEnum):
    """State of the accelerator; the numbers are those of edgetpu_msgs/DeviceStatus."""

    ABSENT = 0
    BOOT = 1
    STARTING = 2
    READY = 3
    RECOVERING = 4
    FAILED = 5
    CLOSED = 6


@dataclass(frozen=True)
class LoadedModel:
    """A model under the name it is invoked by."""

    name: str
    path: Path
    sha256: str
    parsed: ParsedModel

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What the model takes."""
        return self.parsed.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the model gives."""
        return self.parsed.outputs


@dataclass(frozen=True)
class HostStatus:
    """Everything the host knows of its device and of the work done."""

    state: State
    message: str
    readings: Readings
    resident: tuple[str, ...]
    period: Period
    inferences: int
    recoveries: int
    """Times the device was brought back, by the driver of the device or by opening it again."""
    dropped: int
    """Requests for a loaded model that got no result."""


UNCONFIGURED = HostStatus(
    state=State.CLOSED,
    message="the driver is not configured",
    readings=Readings(),
    resident=(),
    period=Period(),
    inferences=0,
    recoveries=0,
    dropped=0,
)


@dataclass
class Entry:
    """A loaded model and what it takes to run it."""

    model: LoadedModel
    engine: SwappableEngine | None = None
    """There is one exactly while the device is ready and the model can run on it."""
    problem: str = ""
    """Why the model cannot run, with or without a device."""
    running: threading.Lock = field(default_factory=threading.Lock)
    """Held while the engine runs or takes weights; never waited for with the host's lock held."""
    weights: dict[str, WeightRequest] = field(default_factory=dict)
    """What is in force, by tensor, to be set again on the next engine."""
    weights_version: int = 0
    matrix: HostedMatrix | None = None
    """Made for the engine when it is first asked for."""

    @property
    def last_weights(self) -> WeightRequest | None:
        """The weights that were set last; None while those of the file are in force."""
        return next(reversed(self.weights.values()), None)
