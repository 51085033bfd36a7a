"""The backend `usb`: a stick on USB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgetpu_driver.backends.backend import SRAM_BYTES, ParsedModel, Placement, Readings, RegisterValue
from edgetpu_driver.backends.model_copies import ModelCopies
from edgetpu_driver.compiled_model import VIRTUAL_COMPILER, CompiledModel
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.errors import BusyError, DeviceLostError, EdgeTpuError, ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import COMPILED_SUFFIX, is_compiled, plain_stem
from edgetpu_driver.files.detached_reading import DetachedReading, no_answer
from edgetpu_driver.toolchain.dense_compiler import compile_dense, is_dense
from edgetpu_driver.toolchain.edgetpu_compiler import compile_command
from edgetpu_driver.weights.sidecar_files import SidecarFiles

if TYPE_CHECKING:
    from edgetpu_driver.stick.edge_tpu import EdgeTpu
    from edgetpu_driver.usb.connector import OnPhase


class StickBackend:
    """The stick that `open_device` opens."""

    name = "usb"
    compiled = True
    uncompiled = False
    simulated = False
    """Whether it runs models packed for the virtual stick, which no real chip can run."""

    def __init__(self, open_device: Callable[[OnPhase | None], EdgeTpu], bus_path: str = "") -> None:
        """bus_path: of the stick that `open_device` opens; empty if it may open different ones."""
        self.bus_path = bus_path
        self._open_device = open_device
        self._tpu: EdgeTpu | None = None
        self._copies: dict[tuple[str, int], ModelCopies] = {}
        """Attached models by the SHA-256 of the model file and the index of the operator."""
        self._reading: dict[Path, DetachedReading[list[CompiledModel]]] = {}
        """Readings of the files of copies that have not ended yet."""
        self._earlier = Readings()
        self._last = Readings()

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Read a compiled model, or generate the program for a graph that is only a matrix."""
        if is_compiled(path) or not is_dense(data):
            return self.parse_part(replace(CompiledModel.parse(data, plain_stem(path)), path=path))
        written = CompiledModel.parse(compile_dense(data, plain_stem(path)).file, plain_stem(path))
        return replace(self.parse_part(replace(written, path=path)), sidecars=SidecarFiles(data))

    def parse_part(self, model: CompiledModel) -> ParsedModel:
        """Take one part for the Edge TPU of a compiled model."""
        return ParsedModel(
            inputs=model.inputs,
            outputs=model.outputs,
            placement=Placement.CACHED if model.is_cached else Placement.STREAMED,
            parameter_bytes=model.parameter_bytes,
            caching_token=model.parameter_caching_token,
            source=model,
            unsupported_reason=error_text(model.check_runnable) or self._packed_reason(model),
            region=model.parameter_region,
        )

    def _packed_reason(self, model: CompiledModel) -> str:
        if self.simulated or model.compiler != VIRTUAL_COMPILER:
            return ""
        return (
            f"'{model.name}' is packed for the virtual stick, a real one cannot run it; run "
            f"`{compile_command(f'{model.name}.tflite')}`"
        )

    def adopt(self, model: ParsedModel) -> None:
        """Do nothing: a stick gets everything that it needs with the transfers of a model."""

    @property
    def simulated_time(self) -> Callable[[], float] | None:
        """The clock of a virtual stick that is open; None for a real one."""
        clock = None if self._tpu is None else self._tpu.simulated_clock
        return None if clock is None else clock.monotonic

    def open(self, on_phase: OnPhase | None = None) -> None:
        """Find the stick and bring it up. Raises DeviceError."""
        self._tpu = self._open_device(on_phase)

    def close(self) -> None:
        """Shut the stick down and release it."""
        tpu, self._tpu = self._tpu, None
        self._copies.clear()
        if tpu is not None:
            tpu.close()
        # The counters of a stick start when it is opened, those of the backend when it is made.
        self._earlier = self._last = replace(self._last, temperature=float("nan"), sram_used=0, warm=False)

    def attach(self, model: ParsedModel) -> AttachedEngine:
        """Prepare the model's transfers; its parameters are uploaded by the first run that needs them.

        If the same file is already attached, a copy that was compiled together with it is used, as long as
        one is left. Such copies are resident together; engines that share a copy displace each other's
        parameters.
        """
        from edgetpu_driver.engines.stick_engine import StickEngine

        if model.unsupported_reason:
            raise ModelUnsupportedError(model.unsupported_reason)
        tpu, source = self._opened(), model.source
        key = source.sha256, source.operator
        copies = self._copies.setdefault(key, ModelCopies())
        copy, release_copy = copies.take(source, partial(self._find_copy, model))

        def release() -> bool:
            is_last = release_copy()
            if is_last and self._copies.get(key) is copies:
                del self._copies[key]  # which holds the model
            return is_last

        def closed() -> None:
            if release():
                for each in (source, *copies.found()):
                    self._rest(each)

        try:
            return StickEngine(tpu, copy, on_close=closed, locations=model.locations_in(copy))
        except BaseException:
            release()
            raise

    def _rest(self, model: CompiledModel) -> None:
        """Called when no engine uses a model any more; a real stick needs no action."""

    def _find_copy(self, model: ParsedModel, number: int) -> CompiledModel | None:
        """The copy of that number, from 1, that was compiled together with the model, if any."""
        source: CompiledModel = model.source
        path = copy_path(source.path, number) if source.path is not None else None
        if path is None:
            return None
        copies = [copy for copy in self._parts_of(path) if copy.operator == source.operator]
        if not copies:
            return None
        copy = copies[0]
        same = [
            (each.compiler, each.parameter_caching_token, each.inputs, each.outputs)
            for each in (source, copy)
        ]
        if same[0] != same[1] or not source.parameter_caching_token:
            return None
        return replace(copy, path=source.path)  # the files next to the other model tell where the weights are

    def _parts_of(self, path: Path) -> list[CompiledModel]:
        """The parts in a file; none if there is no such file, or while it does not answer."""
        reading = self._reading.setdefault(
            path, DetachedReading(partial(_parts_of, path), partial(no_answer, path.name))
        )
        try:
            parts = reading.result()
        except BusyError:
            return []
        self._reading.pop(path, None)
        return parts

    def set_clock(self, preset: str) -> None:
        """Change the clock of the chip. Raises InputError for an unknown preset, DeviceError."""
        self._opened().set_clock(preset)

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


def _parts_of(path: Path) -> list[CompiledModel]:
    return list(CompiledModel.load_parts(path)) if path.is_file() else []


def copy_path(path: Path, number: int) -> Path:
    """The path of a copy of a compiled model; copy 1 of x_edgetpu.tflite is x_copy2_edgetpu.tflite."""
    return path.with_name(f"{plain_stem(path)}_copy{number + 1}{COMPILED_SUFFIX}.tflite")


def error_text(work: Callable[[], object]) -> str:
    """Call `work`; the text of the EdgeTpuError it raises, or an empty string."""
    try:
        work()
    except EdgeTpuError as error:
        return str(error)
    return ""
