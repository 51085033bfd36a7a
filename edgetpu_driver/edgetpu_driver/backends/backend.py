"""The protocol of backends. Each has one accelerator; models are parsed for it and attached to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.files.detached_reading import DetachedReading, no_answer
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.sidecar_files import SidecarFiles

if TYPE_CHECKING:
    from edgetpu_driver.compiled_model import CompiledModel
    from edgetpu_driver.usb.connector import OnPhase
    from edgetpu_driver.weights.weight_locations import WeightLocations

SRAM_BYTES = 8 * 2**20
"""Parameter memory of an Edge TPU, bytes: 16 tiles with 2048 rows of 256 bytes each."""


class Placement(IntEnum):
    """Where a model's parameters are while it runs; the numbers are those of edgetpu_msgs/ModelInfo."""

    HOST = 0
    CACHED = 1
    STREAMED = 2


@dataclass(frozen=True)
class ParsedModel:
    """A model as read from its file; no device is needed."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    placement: Placement
    parameter_bytes: int
    caching_token: int
    source: Any
    """The model in the backend's own form."""
    unsupported_reason: str = ""
    """Why it cannot run on this backend, as far as its files tell; empty if it can."""
    sidecars: SidecarFiles | None = None
    """The sidecar files, which tell where the model keeps its weights; None: those next to the model file."""
    region: int = 0
    """Rows of the chip's memory that its cached parameters fill, as bits; models with common rows displace
    each other."""

    def locations_in(self, copy: CompiledModel) -> WeightLocations:
        """Where the weights are in `copy`: the model itself, or a copy that was compiled together with it.

        The weights of the model itself are looked for only once, for all devices and however often these
        return. Looking for them raises BusyError while the files next to the model do not answer.
        """
        return self._locations if self._locations.holds_for(copy) else self._locations_of(copy)

    @cached_property
    def _locations(self) -> WeightLocations:
        return self._locations_of(self.source)

    def _locations_of(self, model: CompiledModel) -> WeightLocations:
        from edgetpu_driver.weights.weight_locations import WeightLocations

        return WeightLocations(model, self.sidecars or self._sidecars_of_file.result)

    @cached_property
    def _sidecars_of_file(self) -> DetachedReading[SidecarFiles]:
        path: Path | None = self.source.path
        what = f"the files next to {path.name}" if path is not None else ""
        return DetachedReading(partial(SidecarFiles.next_to, path), partial(no_answer, what))


@dataclass(frozen=True)
class Readings:
    """The state of a device and its counters; the defaults mean "unknown" or "none"."""

    serial: str = ""
    bus_path: str = ""
    """"<bus>-<port>[.<port>...]"."""
    link_speed: float = 0.0
    """Speed of the link, Mbit/s."""
    firmware: str = ""
    clock_preset: str = ""
    temperature: float = float("nan")
    """Temperature of the die, degrees Celsius."""
    sram_used: int = 0
    sram_total: int = 0
    """Bytes of parameter memory."""
    uploads: int = 0
    """Parameter uploads since the backend was made; the counters that follow start there too."""
    bytes_sent: int = 0
    bytes_received: int = 0
    retries: int = 0
    recoveries: int = 0
    thermal_warnings: int = 0
    """Number of readings with a new temperature warning of the chip."""
    warm: bool = False
    """Whether this reading has a new temperature warning."""


@dataclass(frozen=True)
class RegisterValue:
    """One register of the device, as read."""

    name: str
    address: int
    value: int
    bus_path: str = ""
    """Bus path of the stick that the register was read from."""


class Backend(Protocol):
    """One accelerator, present or not. Models are parsed without it and attached once it is open."""

    name: str
    compiled: bool
    """Whether it runs compiled models."""
    uncompiled: bool
    """Whether it runs plain graphs."""

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a model from its file's bytes; ModelFormatError or ModelUnsupportedError if it cannot be read.

        A model that can be read but not run has an `unsupported_reason`.
        """
        ...

    def parse_part(self, model: CompiledModel) -> ParsedModel:
        """Take one part for the Edge TPU of a model; ModelUnsupportedError if the backend has no Edge TPU."""
        ...

    def adopt(self, model: ParsedModel) -> None:
        """Take over a model that another backend of the same kind has parsed; raises as `parse`."""
        ...

    @property
    def simulated_time(self) -> Callable[[], float] | None:
        """The clock of an open device that is simulated, in seconds; None for a real one."""
        ...

    def open(self, on_phase: OnPhase | None = None) -> None:
        """Find the device and bring it up, which may take seconds; reports its phases. Raises DeviceError."""
        ...

    def close(self) -> None:
        """Release the device; engines attached to it become unusable."""
        ...

    def attach(self, model: ParsedModel) -> AttachedEngine:
        """Make an engine that runs a parsed model on the open device; ModelUnsupportedError if it cannot run.

        Each call makes another engine, with its own weights. Where the backend can do so, the parameters of
        such engines are resident together.
        """
        ...

    def set_clock(self, preset: str) -> None:
        """Run the open device at a clock preset from now on. Raises InputError, DeviceError."""
        ...

    def read(self) -> Readings:
        """Read state and counters; while the device is not open, return the last ones. Raises DeviceError."""
        ...

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read the error and status registers. Raises DeviceError."""
        ...
