"""What can stand behind the driver: a USB stick, a virtual one, or the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgetpu_driver.compiled_model import VIRTUAL_COMPILER, CompiledModel, caching_token
from edgetpu_driver.engines.engine import MatrixEngine
from edgetpu_driver.errors import DeviceLostError, EdgeTpuError, ModelUnsupportedError
from edgetpu_driver.model_files import is_compiled, plain_stem
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.weight_places import Companions

if TYPE_CHECKING:
    from edgetpu_driver.device import EdgeTpu
    from edgetpu_driver.engines.stick import StickEngine
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
    companions: Companions | None = None
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

    def attach(self, model: ParsedModel) -> MatrixEngine:
        """Make a parsed model ready to run on the open device; ModelUnsupportedError if it cannot run.

        Called again, it makes another engine, which has weights of its own.
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
        engine = CpuEngine(data)  # refuses what cannot run
        return ParsedModel(
            inputs=engine.inputs,
            outputs=engine.outputs,
            placement=Placement.HOST,
            parameter_bytes=sum(constants.values()),
            caching_token=0,
            source=data,
        )

    def open(self, on_phase: OnPhase | None = None) -> None:  # noqa: ARG002
        """Load LiteRT now, not with the first model; DependencyMissingError without it."""
        from edgetpu_driver.engines import cpu  # noqa: F401

    def close(self) -> None:
        """Nothing is held."""

    def attach(self, model: ParsedModel) -> MatrixEngine:
        """Give an engine for the graph."""
        from edgetpu_driver.engines.cpu import CpuEngine

        return CpuEngine(model.source)

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
    simulated = False
    """Whether it runs what is packed for the virtual stick, whose instructions no chip understands."""

    def __init__(self, open_device: Callable[[OnPhase | None], EdgeTpu]) -> None:
        self._open_device = open_device
        self._tpu: EdgeTpu | None = None
        self._engines: dict[CompiledModel, list[StickEngine]] = {}
        self._earlier = Readings()
        self._last = Readings()

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a compiled model."""
        model = replace(CompiledModel.parse(data, plain_stem(path)), path=path)
        return ParsedModel(
            inputs=model.inputs,
            outputs=model.outputs,
            placement=Placement.CACHED if model.is_cached else Placement.STREAMED,
            parameter_bytes=model.parameter_bytes,
            caching_token=model.parameter_caching_token,
            source=model,
            problem=_complaint(model.check_runnable) or self._packed_problem(model),
        )

    def _packed_problem(self, model: CompiledModel) -> str:
        if self.simulated or model.compiler != VIRTUAL_COMPILER:
            return ""
        return (
            f"'{model.name}' is packed for the virtual stick, a real one cannot run it; run edgetpu_compiler "
            f"on {model.name}.tflite"
        )

    def open(self, on_phase: OnPhase | None = None) -> None:
        """Find the stick and bring it up."""
        self._tpu = self._open_device(on_phase)

    def close(self) -> None:
        """Shut the stick down and release it."""
        tpu, self._tpu = self._tpu, None
        self._engines.clear()
        if tpu is not None:
            tpu.close()
        # A stick counts from its opening on; the backend counts from its making on.
        self._earlier = self._last = replace(self._last, temperature=float("nan"), sram_used=0, warm=False)

    def attach(self, model: ParsedModel) -> MatrixEngine:
        """Prepare the model's transfers; its parameters are uploaded by the first run that needs them."""
        from edgetpu_driver.engines.stick import StickEngine

        if model.problem:
            raise ModelUnsupportedError(model.problem)
        engine = StickEngine(self._opened(), model.source, model.companions)
        self._engines.setdefault(model.source, []).append(engine)
        return engine

    def forget(self, model: ParsedModel) -> None:
        """Drop the prepared transfers."""
        for engine in self._engines.pop(model.source, ()):
            engine.forget()

    def is_resident(self, model: ParsedModel) -> bool:
        """Whether the model's parameters are in the stick's memory now."""
        return any(engine.resident for engine in self._engines.get(model.source, ()))

    def read(self) -> Readings:
        """Read thermometer and counters."""
        if self._tpu is not None:
            info, earlier = self._tpu.info(), self._earlier
            thermal_warnings = earlier.thermal_warnings + info.thermal_warnings
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
                thermal_warnings=thermal_warnings,
                warm=thermal_warnings > self._last.thermal_warnings,
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
    simulated = True

    def __init__(
        self,
        open_device: Callable[[OnPhase | None], EdgeTpu],
        teach: Callable[[CompiledModel, bytes], object],
        pack: Callable[..., bytes],
    ) -> None:
        super().__init__(open_device)
        self._teach = teach
        self._pack = pack

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a compiled model, to run as the graph beside it computes, or pack a plain graph."""
        if not is_compiled(path):
            parsed = super().parse(path, self._pack(data, name=plain_stem(path)))
            self._teach(parsed.source, data)
            return replace(parsed, companions=Companions(data))
        parsed = super().parse(path, data)
        problem = parsed.problem or _complaint(lambda: self._teach_from(path, parsed.source))
        return replace(parsed, problem=problem)

    def _teach_from(self, path: Path, model: CompiledModel) -> None:
        graph = path.with_name(f"{plain_stem(path)}.tflite")
        if not graph.is_file():
            raise ModelUnsupportedError(
                f"the virtual stick runs {path.name} only with its graph beside it; there is no {graph}"
            )
        self._teach(model, graph.read_bytes())


def _complaint(work: Callable[[], object]) -> str:
    """Do the work; what an error of ours says against it, or an empty string."""
    try:
        work()
    except EdgeTpuError as error:
        return str(error)
    return ""


def pack_for_virtual_stick(graphs: Mapping[str, bytes], *, together: bool) -> dict[str, bytes]:
    """Compiled models of plain graphs, by name, for the virtual stick.

    together: to be in the chip's memory together. Raises ModelFormatError and ModelUnsupportedError.
    """
    from edgetpu_driver.virtual.packer import pack

    token = caching_token(b"".join(graphs[name] for name in sorted(graphs))) if together else None
    return {name: pack(graph, name=name, token=token) for name, graph in graphs.items()}


BACKENDS = ("usb", "virtual", "cpu")
"""Names `make_backend` knows."""


def make_backend(
    name: str,
    *,
    serial: str = "",
    bus_path: str = "",
    firmware: str = "",
    preset: str = "high",
    resets: bool = True,
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
            lambda on_phase: EdgeTpu.open(
                None,
                serial or None,
                image,
                bus_path=bus_path or None,
                preset=clock,
                resets=resets,
                on_phase=on_phase,
            )
        )

    from edgetpu_driver.virtual import VirtualEdgeTpu
    from edgetpu_driver.virtual.packer import pack

    stick = VirtualEdgeTpu()
    return VirtualStickBackend(
        lambda on_phase: EdgeTpu.open(stick, preset=clock, resets=resets, on_phase=on_phase),
        stick.teach,
        pack,
    )
