"""The protocol of a backend: one accelerator, present or not, that models are parsed for and attached to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.weights.sidecar_files import SidecarFiles

if TYPE_CHECKING:
    from edgetpu_driver.usb.connector import OnPhase

SRAM_BYTES = 8 * 2**20
"""Parameter memory of an Edge TPU."""


class Placement(IntEnum):
    """Where a model's parameters are while it runs; the numbers are those of edgetpu_msgs/ModelInfo."""

    HOST = 0
    CACHED = 1
    STREAMED = 2


@dataclass(frozen=True)
class ParsedModel:
    """A model as read from its file, before any device is needed."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    placement: Placement
    parameter_bytes: int
    caching_token: int
    source: Any
    """What the backend that parsed it runs."""
    problem: str = ""
    """Why it cannot run on this backend, found in the files alone; empty when nothing speaks against it."""
    sidecars: SidecarFiles | None = None
    """What else tells where its weights are; None for what lies beside its file."""


@dataclass(frozen=True)
class Readings:
    """What a backend reads from its device; the defaults say "unknown" or "there is none"."""

    serial: str = ""
    bus_path: str = ""
    """"<bus>-<port>[.<port>...]"."""
    link_speed: float = 0.0
    """Mbit/s."""
    firmware: str = ""
    clock_preset: str = ""
    temperature: float = float("nan")
    """Degrees Celsius."""
    sram_used: int = 0
    sram_total: int = 0
    """Bytes of parameter memory."""
    uploads: int = 0
    """Parameter uploads; this and what follows count since the backend was made."""
    bytes_sent: int = 0
    bytes_received: int = 0
    retries: int = 0
    recoveries: int = 0
    thermal_warnings: int = 0
    """Readings that found a warning of the chip's temperature since the reading before."""
    warm: bool = False
    """Whether this reading found one."""


@dataclass(frozen=True)
class RegisterValue:
    """One register of the device, as read."""

    name: str
    address: int
    value: int


class Backend(Protocol):
    """One accelerator, present or not. Models are parsed without it and attached to it once it is open."""

    name: str
    compiled: bool
    """Whether it runs what edgetpu_compiler wrote."""
    uncompiled: bool
    """Whether it runs plain graphs."""

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a model from its file's bytes; ModelFormatError or ModelUnsupportedError if it cannot be read.

        One that can be read but not run has a `problem`.
        """
        ...

    def open(self, on_phase: OnPhase | None = None) -> None:
        """Find the device and bring it up; may take seconds and tells what takes them. Raises DeviceError."""
        ...

    def close(self) -> None:
        """Release the device; engines attached before are of no use any more."""
        ...

    def attach(self, model: ParsedModel) -> SwappableEngine:
        """Make a parsed model ready to run on the open device; ModelUnsupportedError if it cannot run.

        Called again, it makes another engine, which has weights of its own. These stay in the device's memory
        beside those of other engines, where that can be done.
        """
        ...

    def is_resident(self, model: ParsedModel) -> bool:
        """Whether the model's parameters are on the device now."""
        ...

    def forget(self, model: ParsedModel) -> None:
        """Give back what attaching the model took."""
        ...

    def read(self) -> Readings:
        """Read what is known of the device; the last reading when it is not open. Raises DeviceError."""
        ...

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read the error and status registers. Raises DeviceError."""
        ...
