"""What can stand behind the driver: a USB stick, a virtual one, or the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.engine import Engine
from edgetpu_driver.errors import DeviceLostError, ModelUnsupportedError
from edgetpu_driver.model_files import is_compiled, plain_stem
from edgetpu_driver.tensor import TensorSpec

if TYPE_CHECKING:
    from edgetpu_driver.device import EdgeTpu

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
        """Read a model from its file's bytes; ModelFormatError or ModelUnsupportedError if it cannot run."""
        ...

    def open(self) -> None:
        """Find the device and bring it up; may take seconds. Raises DeviceError."""
        ...

    def close(self) -> None:
        """Release the device; engines attached before are of no use any more."""
        ...

    def attach(self, model: ParsedModel) -> Engine:
        """Make a parsed model ready to run on the open device."""
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


class CpuBackend:
    """LiteRT on the host's processor: always there."""

    name = "cpu"
    compiled = False
    uncompiled = True

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a plain graph."""
        from edgetpu_driver.engines.cpu import CpuEngine
        from edgetpu_driver.tflite.model import parse_model

        if is_compiled(path):
            raise ModelUnsupportedError(
                f"{path.name} is compiled for the Edge TPU; expected the graph it was compiled from, "
                f"{plain_stem(path)}.tflite"
            )
        constants = {t.buffer: len(t.data) for graph in parse_model(data).subgraphs for t in graph.tensors}
        engine = CpuEngine(data)
        return ParsedModel(
            inputs=engine.inputs,
            outputs=engine.outputs,
            placement=Placement.HOST,
            parameter_bytes=sum(constants.values()),
            caching_token=0,
            source=engine,
        )

    def open(self) -> None:
        """Load LiteRT now, not with the first model; DependencyMissingError without it."""
        from edgetpu_driver.engines import cpu  # noqa: F401

    def close(self) -> None:
        """Nothing is held."""

    def attach(self, model: ParsedModel) -> Engine:
        """Give the engine made when the model was parsed."""
        engine: Engine = model.source
        return engine

    def is_resident(self, model: ParsedModel) -> bool:  # noqa: ARG002
        """Every loaded graph is in memory."""
        return True

    def forget(self, model: ParsedModel) -> None:
        """The graph goes with the parsed model."""

    def read(self) -> Readings:
        """There is nothing to read."""
        return Readings()

    def registers(self) -> tuple[RegisterValue, ...]:
        """There are none."""
        return ()


class StickBackend:
    """A stick on USB; what `open_device` opens."""

    name = "usb"
    compiled = True
    uncompiled = False

    def __init__(self, open_device: Callable[[], EdgeTpu]) -> None:
        self._open_device = open_device
        self._tpu: EdgeTpu | None = None
        self._earlier = Readings()
        self._last = Readings()

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a compiled model."""
        model = CompiledModel.parse(data, plain_stem(path))
        model.check_runnable()
        return ParsedModel(
            inputs=model.inputs,
            outputs=model.outputs,
            placement=Placement.CACHED if model.is_cached else Placement.STREAMED,
            parameter_bytes=model.parameter_bytes,
            caching_token=model.parameter_caching_token,
            source=model,
        )

    def open(self) -> None:
        """Find the stick and bring it up."""
        self._tpu = self._open_device()

    def close(self) -> None:
        """Shut the stick down and release it."""
        tpu, self._tpu = self._tpu, None
        if tpu is not None:
            tpu.close()
        # A stick counts from its opening on; the backend counts from its making on.
        self._earlier = self._last = replace(self._last, temperature=float("nan"), sram_used=0)

    def attach(self, model: ParsedModel) -> Engine:
        """Prepare the model's transfers; its parameters are uploaded by the first run that needs them."""
        from edgetpu_driver.engines.stick import StickEngine

        return StickEngine(self._opened(), model.source)

    def forget(self, model: ParsedModel) -> None:
        """Drop the prepared transfers."""
        if self._tpu is not None:
            self._tpu.forget(model.source)

    def is_resident(self, model: ParsedModel) -> bool:
        """Whether the model's parameters are in the stick's memory now."""
        return self._tpu is not None and self._tpu.is_resident(model.source)

    def read(self) -> Readings:
        """Read thermometer and counters."""
        if self._tpu is not None:
            info, earlier = self._tpu.info(), self._earlier
            self._last = Readings(
                serial=info.serial,
                bus_path=info.bus_path,
                link_speed=info.link_speed,
                firmware=info.firmware,
                clock_preset=info.clock_preset.value,
                temperature=info.temperature,
                sram_used=info.parameter_bytes,
                sram_total=SRAM_BYTES,
                uploads=earlier.uploads + info.uploads,
                bytes_sent=earlier.bytes_sent + info.bytes_sent,
                bytes_received=earlier.bytes_received + info.bytes_received,
                retries=earlier.retries + info.retries,
                recoveries=earlier.recoveries + info.recoveries,
            )
        return self._last

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read the error and status registers."""
        values = self._opened().registers()
        return tuple(RegisterValue(r.name, r.value, value) for r, value in values.items())

    def _opened(self) -> EdgeTpu:
        if self._tpu is None:
            raise DeviceLostError("the device is not open")
        return self._tpu


class VirtualStickBackend(StickBackend):
    """A virtual stick, which is taught what each model computes; it runs plain graphs too, packed for it."""

    name = "virtual"
    uncompiled = True

    def __init__(
        self,
        open_device: Callable[[], EdgeTpu],
        teach: Callable[[CompiledModel, bytes], object],
        pack: Callable[..., bytes],
    ) -> None:
        super().__init__(open_device)
        self._teach = teach
        self._pack = pack

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a compiled model with the graph it was compiled from beside it, or pack a plain graph."""
        graph = data
        if not is_compiled(path):
            data = self._pack(graph, name=plain_stem(path))
        else:
            source = path.with_name(f"{plain_stem(path)}.tflite")
            if not source.is_file():
                raise ModelUnsupportedError(
                    f"the virtual stick runs {path.name} only with its graph beside it; there is no {source}"
                )
            graph = source.read_bytes()
        parsed = super().parse(path, data)
        self._teach(parsed.source, graph)
        return parsed


BACKENDS = ("usb", "virtual", "cpu")
"""Names `make_backend` knows."""


def make_backend(
    name: str, *, serial: str = "", bus_path: str = "", firmware: str = "", preset: str = "high"
) -> Backend:
    """Make the backend of that name; no device is needed yet. The options are those of EdgeTpu.open."""
    if name == "cpu":
        return CpuBackend()

    from edgetpu_driver.device import EdgeTpu
    from edgetpu_driver.usb.bringup import ClockPreset

    image = Path(firmware).expanduser() if firmware else None
    clock = ClockPreset(preset)
    if name == "usb":
        return StickBackend(
            lambda: EdgeTpu.open(None, serial or None, image, bus_path=bus_path or None, preset=clock)
        )

    from edgetpu_driver.virtual import VirtualEdgeTpu
    from edgetpu_driver.virtual.packer import pack

    stick = VirtualEdgeTpu()
    return VirtualStickBackend(lambda: EdgeTpu.open(stick, preset=clock), stick.teach, pack)
