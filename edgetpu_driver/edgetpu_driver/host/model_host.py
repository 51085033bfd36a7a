"""Models by name on one accelerator that comes and goes: load, run, count; free of ROS."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend, Readings, RegisterValue
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import (
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    EdgeTpuError,
    InputError,
    ModelNotFoundError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.host.inference_statistics import InferenceStatistics
from edgetpu_driver.host.records import UNCONFIGURED, Entry, HostStatus, LoadedModel, State
from edgetpu_driver.matrix.hosted import HostedMatrix, ProductRequest, needs_tiles, refuse_tiles
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.tensor import check_inputs
from edgetpu_driver.toolchain.model_files import ModelFiles, plain_stem
from edgetpu_driver.weights.replacement import WeightRequest, WeightResult

if TYPE_CHECKING:
    from edgetpu_driver.usb.connector import Phase

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~/-]*")


@dataclass
class _Timing:
    duration: float = 0.0


class ModelHost:
    """Models loaded by name, on a device that may be absent, get lost and come back.

    Models are loaded from files whether or not the device is there, stay loaded when it is lost and run again
    once it is back; until then `invoke` raises UnavailableError at once. All methods may be called from any
    thread. `on_change` is called, from the thread that caused it, whenever the state changed.
    """

    def __init__(
        self,
        backend: Backend,
        model_dirs: Sequence[str | Path],
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self.files = ModelFiles(model_dirs, compiled=backend.compiled, uncompiled=backend.uncompiled)
        self._backend = backend
        self._on_change = on_change or (lambda: None)
        self._lock = threading.RLock()
        self._device_lock = threading.Lock()
        self._models: dict[str, Entry] = {}
        self._state = UNCONFIGURED.state
        self._message = UNCONFIGURED.message
        self._readings = Readings()
        self._statistics = InferenceStatistics()
        self._reopened = 0
        self._opening = 0
        self._recovering = False

    @property
    def state(self) -> State:
        """The present state."""
        return self._state

    @property
    def message(self) -> str:
        """One line on the state."""
        return self._message

    def load(self, model: str, name: str = "") -> LoadedModel:
        """Load a model from the model directories, or do nothing when the same file is loaded as `name`.

        model: file stem, file name or path (see ModelFiles.find). name: what `invoke` calls it, by default
        the stem without "_edgetpu". A different file under a name in use takes its place. A model that can be
        read but not run here is loaded too; `problem` then says why. Raises what ModelFiles.find raises,
        ModelFormatError and ModelUnsupportedError for a file that cannot be read, InputError for a bad name.
        """
        if name and not _NAME.fullmatch(name):
            raise InputError(
                "expected a name of letters, digits and the characters _ . ~ / - that begins with a letter or"
                f" digit; got {name[:100]!r}"
            )
        path = self.files.find(model)
        name = name or plain_stem(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelNotFoundError(f"cannot read {path}: {error.strerror}") from None
        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            present = self._models.get(name)
            same = present is not None and (present.model.path, present.model.sha256) == (path, digest)
            # What was missing beside a file that could not run may be there by now.
            if present is not None and same and not present.problem:
                return present.model
        parsed = self._backend.parse(path, data)
        loaded = LoadedModel(name, path, digest, parsed)
        entry = Entry(loaded, problem=parsed.problem)
        with self._lock:
            if self._state is State.READY:
                self._attach(entry)
            self._models[name] = entry
        if present is not None:
            self._forget(present)
        return loaded

    def unload(self, name: str) -> None:
        """Forget a model; requests under way are still answered."""
        with self._lock:
            entry = self._entry(name)
            del self._models[name]
        self._forget(entry)

    def model(self, name: str) -> LoadedModel:
        """Give a loaded model; ModelNotFoundError, with the names of the loaded ones, if there is none."""
        with self._lock:
            return self._entry(name).model

    def problem(self, name: str) -> str:
        """Say why a loaded model cannot run, whatever the state of the device; empty when it can."""
        with self._lock:
            return self._entry(name).problem

    def models(self) -> tuple[LoadedModel, ...]:
        """Give the loaded models, in the order in which they were loaded."""
        with self._lock:
            return tuple(entry.model for entry in self._models.values())

    def is_resident(self, model: LoadedModel) -> bool:
        """Whether the model's parameters are on the device now."""
        return self._state is State.READY and self._backend.is_resident(model.parsed)

    def invoke(self, name: str, inputs: Mapping[str, NDArray[Any]]) -> InferenceResult:
        """Run a loaded model once.

        Raises ModelNotFoundError, InputError, ModelUnsupportedError for a model with a `problem`,
        UnavailableError without a device, or the DeviceError of a fault that needs the device opened anew,
        which is then left to whoever calls `connect`.
        """
        with self._lock:
            entry = self._entry(name)
        self._engine_to_run(name, entry)  # refuses at once, not only after the work under way
        check_inputs(entry.model.inputs, inputs)
        with entry.running:
            # One from before may have got weights of a swap that failed.
            engine, opening = self._engine_to_run(name, entry)
            with self._timed(opening) as timing:
                refuse_tiles(name, engine, entry.last_weights)
                outputs = engine.run(inputs)
            version = entry.weights_version
        return InferenceResult(outputs, engine_duration=timing.duration, weights_version=version)

    def multiply(self, name: str, request: ProductRequest) -> Product:
        """Multiply by the weights of a loaded Dense model; see MatMul.multiply. Raises as `invoke` too."""
        with self._lock:
            entry = self._entry(name)
        with entry.running:
            engine, opening = self._engine_to_run(name, entry)
            with self._timed(opening):
                matmul = self._matrix(entry, engine).product(entry.last_weights)
                product = request.apply(matmul)
            return replace(product, weights_version=entry.weights_version)

    def set_weights(self, name: str, request: WeightRequest) -> WeightResult:
        """Replace the values of one weight tensor of a loaded model, between two of its inferences.

        The weights stay in force when the device is lost and comes back. Raises what `invoke` raises, and
        what SwappableEngine.set_weights does; the old weights then stay in force. So do they when the model
        is unloaded or the device lost in the meantime. A matrix larger than a Dense model is cut into tiles
        for `multiply`; `invoke` raises InputError until a smaller one is set.
        """
        with self._lock:
            entry = self._entry(name)
        # The caller may go on to change the array.
        request = replace(request, weights=np.array(request.weights))
        with entry.running:
            with self._lock:
                engine, opening = entry.engine, self._opening
                if engine is None:
                    raise self._refusal(name, entry)
            try:
                if needs_tiles(engine, request):
                    swap = self._matrix(entry, engine).set_weights(request)
                else:
                    swap = engine.set_weights(request)
            except DeviceError as error:
                self._lose(error, opening)
                raise
            with self._lock:
                if self._models.get(name) is not entry:
                    raise ModelNotFoundError(
                        f"model '{name}' was unloaded before its new weights were in force"
                    )
                if entry.engine is not engine:
                    raise UnavailableError(
                        f"the device was lost before the new weights of '{name}' were in force"
                    )
                entry.weights_version += 1
                entry.weights.pop(request.tensor, None)
                entry.weights[request.tensor] = request
                return replace(swap, version=entry.weights_version)

    def weights_version(self, name: str) -> int:
        """How often the weights of a loaded model were replaced."""
        with self._lock:
            return self._entry(name).weights_version

    def connect(self) -> None:
        """Open the device anew and attach the loaded models; the outcome is the new state. Takes seconds."""
        with self._device_lock:
            if self._state is State.CLOSED:
                self._set_state(State.STARTING, "looking for the device")
            try:
                self._backend.close()
                self._backend.open(self._on_phase)
                self._readings = self._backend.read()
            except (DeviceNotFoundError, DeviceLostError) as error:
                return self._set_state(State.ABSENT, str(error))
            except EdgeTpuError as error:
                return self._set_state(State.FAILED, str(error))
            except Exception as error:
                # Whatever a USB library throws: the caller tries again, and the state says why it has to.
                return self._set_state(State.FAILED, f"{type(error).__name__}: {error}")
            with self._lock:
                try:
                    for entry in self._models.values():
                        self._attach(entry)
                except DeviceError as error:
                    return self._detach(State.RECOVERING, str(error))
                self._reopened += self._recovering
                self._recovering = False
                self._opening += 1
                return self._set_state(State.READY, "")

    def reset(self) -> None:
        """Give the device up, so that the next `connect` brings it up from scratch; models stay loaded."""
        self._detach(State.RECOVERING, "reset on request")

    def close(self) -> None:
        """Close the device; models stay loaded for the next `connect`."""
        with self._device_lock:
            self._detach(UNCONFIGURED.state, UNCONFIGURED.message)
            self._backend.close()

    def refresh(self) -> None:
        """Read counters and temperature from the device; this also notices that it is gone.

        Waits for a request that is under way, and for as long as a hanging transfer takes.
        """
        with self._lock:
            opening, ready = self._opening, self._state is State.READY
        if ready:
            try:
                self._readings = self._backend.read()
            except DeviceError as error:
                self._lose(error, opening)

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read the device's error and status registers; none while there is no device."""
        return self._backend.registers() if self._state is State.READY else ()

    def end_period(self) -> None:
        """End the period over which latencies and utilisation are taken."""
        self._statistics.end_period()

    def status(self) -> HostStatus:
        """Give the state now, the figures of the last period and the counters."""
        resident = tuple(model.name for model in self.models() if self.is_resident(model))
        tally = self._statistics
        with self._lock:
            return HostStatus(
                state=self._state,
                message=self._message,
                readings=self._readings,
                resident=resident,
                period=tally.period,
                inferences=tally.inferences,
                recoveries=self._reopened + self._readings.recoveries,
                dropped=tally.dropped,
            )

    def _entry(self, name: str) -> Entry:
        entry = self._models.get(name)
        if entry is None:
            names = ", ".join(self._models) or "none"
            raise ModelNotFoundError(f"no model '{name}' is loaded; loaded: {names}")
        return entry

    def _engine_to_run(self, name: str, entry: Entry) -> tuple[SwappableEngine, int]:
        """The engine of a model, and the opening of the device that it is of; counts and raises a refusal."""
        with self._lock:
            if entry.engine is None:
                self._statistics.drop()
                raise self._refusal(name, entry)
            return entry.engine, self._opening

    @contextmanager
    def _timed(self, opening: int) -> Iterator[_Timing]:
        """Count work in an engine; a fault of the device that is left over makes it start over."""
        timing = _Timing()
        start = time.perf_counter()
        try:
            yield timing
        except DeviceError as error:
            self._statistics.drop()
            self._lose(error, opening)
            raise
        timing.duration = time.perf_counter() - start
        self._statistics.add(timing.duration)

    def _matrix(self, entry: Entry, engine: SwappableEngine) -> HostedMatrix:
        if entry.matrix is None or entry.matrix.engine is not engine:
            another = partial(self._backend.attach, entry.model.parsed)
            entry.matrix = HostedMatrix(engine, another)
        return entry.matrix

    def _refusal(self, name: str, entry: Entry) -> EdgeTpuError:
        """Why a model without an engine does not run."""
        if self._models.get(name) is not entry:
            return ModelNotFoundError(f"model '{name}' was unloaded meanwhile")
        if entry.problem:
            return ModelUnsupportedError(f"model '{name}' cannot run here: {entry.problem}")
        return UnavailableError(f"no device: {self._message}")

    def _attach(self, entry: Entry) -> None:
        """Give a model its engine with the weights in force; DeviceError if these cannot be put there."""
        try:
            engine = self._backend.attach(entry.model.parsed)
            for request in entry.weights.values():
                if not needs_tiles(engine, request):
                    engine.set_weights(request)
        except DeviceError:
            raise
        except EdgeTpuError as error:
            entry.engine, entry.problem = None, str(error)
        else:
            entry.engine, entry.problem = engine, ""

    def _forget(self, entry: Entry) -> None:
        """Give back what a model took that is not in the list any more, after the work under way on it."""
        with entry.running:
            entry.engine = None
            self._backend.forget(entry.model.parsed)

    def _on_phase(self, phase: Phase, bus_path: str) -> None:
        """Show what takes the time; a device that fails at every attempt remains a failed one."""
        with self._lock:
            state = State[phase.name]
            if self._state is State.FAILED or (self._state is State.RECOVERING and state is State.STARTING):
                return
            self._set_state(state, f"the stick at {bus_path}: {phase.value}")

    def _lose(self, error: DeviceError, opening: int) -> None:
        """Give the device up, unless the error comes from an earlier opening of it."""
        with self._lock:
            if self._state is not State.READY or opening != self._opening:
                return
            self._recovering = True
            self._detach(State.ABSENT if isinstance(error, DeviceLostError) else State.RECOVERING, str(error))

    def _detach(self, state: State, message: str) -> None:
        with self._lock:
            for entry in self._models.values():
                entry.engine = None
            self._set_state(state, message)

    def _set_state(self, state: State, message: str) -> None:
        changed = (state, message) != (self._state, self._message)
        self._state, self._message = state, message
        if changed:
            self._on_change()
