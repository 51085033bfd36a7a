"""Models by name on one accelerator that may be absent, get lost and come back; free of ROS."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend, RegisterValue
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.errors import (
    DeviceError,
    EdgeTpuError,
    InputError,
    ModelNotFoundError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host.device_connection import DeviceConnection
from edgetpu_driver.host.host_limits import HostLimits
from edgetpu_driver.host.host_status import HostStatus, State, StickStatus
from edgetpu_driver.host.hosted_model import HostedModel
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.host.inference_statistics import InferenceStatistics
from edgetpu_driver.host.reconnector import Reconnector
from edgetpu_driver.host.request_terms import BULK_TERMS, NORMAL_TERMS, RequestTerms
from edgetpu_driver.matrix.loaded_matrix import ProductRequest, needs_tiles, refuse_tiles
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.tflite.file_checks import read_model_file
from edgetpu_driver.toolchain.model_files import ModelFiles, plain_stem
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

DEFAULT_LIMITS = HostLimits()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~/-]*")


_Answer = TypeVar("_Answer")


def _ignore(_answer: object) -> None:
    """Do nothing with the answer."""


@dataclass
class _Timing:
    duration: float = 0.0


class ModelHost:
    """Models loaded by name, on a device that may be absent, get lost and come back.

    Models are loaded from files whether or not the device is present, stay loaded when it is lost and run
    again once it is back; until then `invoke` raises UnavailableError at once. All methods may be called from
    any thread. on_change: called whenever the state changed, by the thread that changed it.
    """

    def __init__(
        self,
        backends: Backend | Sequence[Backend],
        model_dirs: Sequence[str | Path],
        on_change: Callable[[], None] | None = None,
        limits: HostLimits = DEFAULT_LIMITS,
    ) -> None:
        backend = backends[0] if isinstance(backends, Sequence) else backends
        self.limits = limits
        self.files = ModelFiles(model_dirs, compiled=backend.compiled, uncompiled=backend.uncompiled)
        self._backend = backend
        self._on_change = on_change or (lambda: None)
        self._device = DeviceConnection(backend, self._attach_all, self._detach_all, self._changed)
        self._reconnector: Reconnector | None = None
        self._lock = self._device.lock
        self._models: dict[str, HostedModel] = {}
        self._statistics = InferenceStatistics()

    @property
    def state(self) -> State:
        """The state of the device."""
        return self._device.state

    @property
    def status_message(self) -> str:
        """One line on the state."""
        return self._device.status_message

    @property
    def gave_up(self) -> bool:
        """Whether `wait_timeout` has passed without a device; see `start`."""
        return self._reconnector is not None and self._reconnector.gave_up

    def start(self, *, wait_timeout: float = -1.0, refresh_period: float = 1.0) -> None:
        """Open the devices, and from now on read them, and open again those that are lost. Returns at once.

        wait_timeout: seconds to wait for the first device before giving up, which sets `gave_up` and calls
        `on_change`; negative: for ever. A device that is lost later is always waited for. refresh_period:
        seconds between two readings of a ready device.
        """
        self._reconnector = Reconnector(self, wait_timeout, self._on_change, refresh_period)
        self._reconnector.start()

    def _changed(self) -> None:
        if self._reconnector is not None:
            self._reconnector.wake()
        self._on_change()

    def submit_load(
        self,
        model: str,
        name: str = "",
        done: Callable[[HostedModel | EdgeTpuError], None] = _ignore,
        *,
        client: str = "",
        shared: bool = False,
    ) -> HostedModel:
        """Begin to load a model and return it at once, perhaps in the state QUEUED; see `load`.

        done: called once, with the model when it is loaded or with the error that prevented it. Raises
        BusyError beyond the limits, OwnershipError for the name of another client's model, and what
        ModelFiles.find raises.
        """
        loaded = self.load(model, name, client=client, shared=shared)
        done(loaded)
        return loaded

    def submit_invoke(
        self,
        name: str,
        inputs: Mapping[str, NDArray[Any]],
        done: Callable[[InferenceResult | EdgeTpuError], None],
        terms: RequestTerms = NORMAL_TERMS,
    ) -> None:
        """Run a loaded model once, without waiting; see `invoke`.

        done: called once, by a thread of the host, with the result or the error. What can be refused at once
        is raised: ModelNotFoundError, InputError, ModelUnsupportedError, UnavailableError, BusyError.
        """
        del terms
        self._answer(done, lambda: self.invoke(name, inputs))

    def submit_multiply(
        self,
        name: str,
        request: ProductRequest,
        done: Callable[[Product | EdgeTpuError], None],
        terms: RequestTerms = BULK_TERMS,
    ) -> None:
        """Multiply by the weights of a loaded model, without waiting; see `multiply` and `submit_invoke`."""
        del terms
        self._answer(done, lambda: self.multiply(name, request))

    def submit_set_weights(
        self,
        name: str,
        request: WeightRequest,
        done: Callable[[WeightResult | EdgeTpuError], None],
        terms: RequestTerms = BULK_TERMS,
    ) -> None:
        """Replace weights of a loaded model, without waiting; see `set_weights` and `submit_invoke`.

        The array of the request must not be changed before `done` was called. Also raises OwnershipError.
        """
        del terms
        self._answer(done, lambda: self.set_weights(name, request))

    def submit_registers(self, done: Callable[[tuple[RegisterValue, ...] | EdgeTpuError], None]) -> None:
        """Read state and error registers of all sticks, without waiting; `done` as in `submit_invoke`."""
        self.refresh()
        self._answer(done, self.registers)

    def _answer(self, done: Callable[[_Answer | EdgeTpuError], None], work: Callable[[], _Answer]) -> None:
        try:
            answer: _Answer | EdgeTpuError = work()
        except EdgeTpuError as error:
            answer = error
        done(answer)

    def load(self, model: str, name: str = "", *, client: str = "", shared: bool = False) -> HostedModel:
        """Load a model from the model directories; do nothing if the same file is already loaded as `name`.

        model: file stem, file name or path (see ModelFiles.find). name: what `invoke` calls it, by default
        the stem without "_edgetpu"; a different file under a name in use replaces the previous one. A model
        that can be read but not run here is loaded too, with an `unsupported_reason`. Raises what
        ModelFiles.find raises, ModelFormatError and ModelUnsupportedError for a file that cannot be read,
        InputError for an invalid name.
        """
        if name and not _NAME.fullmatch(name):
            raise InputError(
                "expected a name of letters, digits and the characters _ . ~ / - that begins with a letter or"
                f" digit; got {name[:100]!r}"
            )
        path = self.files.find(model)
        name = name or plain_stem(path)
        data = read_model_file(path)
        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            present = self._models.get(name)
            same = present is not None and (present.path, present.sha256) == (path, digest)
            # A model that could not run is parsed again: a file it lacked may be there by now.
            if present is not None and same and not present.unsupported_reason:
                return present
        loaded = HostedModel(name, path, digest, self._backend.parse(path, data), self._backend.attach)
        loaded.owner, loaded.shared = client, shared
        with self._lock:
            if self._device.ready:
                loaded.attach()
            self._models[name] = loaded
        if present is not None:
            present.close()
        return loaded

    def unload(self, name: str, client: str = "") -> None:  # noqa: ARG002
        """Forget a model; requests under way are still answered. OwnershipError for another client's."""
        with self._lock:
            model = self.model(name)
            del self._models[name]
        model.close()

    def model(self, name: str) -> HostedModel:
        """The model of that name; ModelNotFoundError, with the names of the loaded ones, if there is none."""
        with self._lock:
            model = self._models.get(name)
            if model is None:
                names = ", ".join(self._models) or "none"
                raise ModelNotFoundError(f"no model '{name}' is loaded; loaded: {names}")
            return model

    def models(self) -> tuple[HostedModel, ...]:
        """The loaded models, in the order in which they were loaded."""
        with self._lock:
            return tuple(self._models.values())

    def invoke(self, name: str, inputs: Mapping[str, NDArray[Any]]) -> InferenceResult:
        """Run a loaded model once.

        Raises ModelNotFoundError, InputError, ModelUnsupportedError for a model that cannot run here,
        UnavailableError without a device, or the DeviceError of a fault after which the device must be opened
        again, which is left to the caller of `connect`.
        """
        model = self.model(name)
        self._engine_of(model)  # refuses at once, not only after the work under way
        with model.running:
            # Looked up again: the engine from before may have the weights of a request that failed.
            engine, opening = self._engine_of(model)
            with self._timed(opening) as timing:
                refuse_tiles(name, engine, model.last_weights)
                outputs = engine.run(inputs)
            return InferenceResult(
                outputs,
                engine_duration=timing.duration,
                device_duration=engine.device_duration,
                weights_version=model.weights_version,
                model_sha256=model.sha256,
            )

    def multiply(self, name: str, request: ProductRequest) -> Product:
        """Multiply by the weights of a loaded Dense model; see MatMul.multiply. Also raises as `invoke`."""
        model = self.model(name)
        with model.running:
            engine, opening = self._engine_of(model)
            with self._timed(opening):
                matmul = model.matrix(engine).product(model.last_weights)
                product = request.apply(matmul)
            return replace(product, weights_version=model.weights_version)

    def set_weights(self, name: str, request: WeightRequest) -> WeightResult:
        """Replace the values of one weight tensor of a loaded model, between two of its inferences.

        The weights stay in effect when the device is lost and comes back. A matrix larger than a Dense model
        is cut into tiles for `multiply`; `invoke` raises InputError until a smaller one is set. Raises what
        `invoke` and SwappableEngine.set_weights raise, also if the model is unloaded or the device lost in
        the meantime; the previous weights then stay in effect.
        """
        model = self.model(name)
        # The caller may go on to change the array.
        request = replace(request, weights=np.array(request.weights))
        with model.running:
            with self._lock:
                engine, opening = model.engine, self._device.opening
                if engine is None:
                    raise self._refusal(model)
            try:
                if needs_tiles(engine, request):
                    result = model.matrix(engine).set_weights(request)
                else:
                    result = engine.set_weights(request)
            except DeviceError as error:
                self._device.lose(error, opening)
                raise
            with self._lock:
                if self._models.get(name) is not model:
                    raise ModelNotFoundError(
                        f"model '{name}' was unloaded before its new weights were in effect"
                    )
                if model.engine is not engine:
                    raise UnavailableError(
                        f"the device was lost before the new weights of '{name}' were in effect"
                    )
                return replace(result, version=model.record_weights(request))

    def connect(self) -> None:
        """Open the device anew and attach the loaded models; the outcome is the new state. Takes seconds."""
        self._device.open()

    def reset(self) -> None:
        """Give the device up, so that the next `connect` brings it up from scratch; models stay loaded."""
        self._device.give_up(State.RECOVERING, "reset on request")

    def close(self) -> None:
        """Close the device; models stay loaded for the next `connect`."""
        reconnector, self._reconnector = self._reconnector, None
        if reconnector is not None:
            reconnector.stop()
        self._device.close()

    def refresh(self) -> None:
        """Read counters and temperature from the device; see DeviceConnection.refresh."""
        self._device.refresh()

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read the device's error and status registers; none while there is no device."""
        return self._device.registers()

    def end_period(self) -> None:
        """End the period over which latencies and utilisation are taken."""
        self._statistics.end_period()

    def status(self) -> HostStatus:
        """The present state, the figures of the last period, and the counters."""
        resident = tuple(model.name for model in self.models() if model.resident)
        statistics, device = self._statistics, self._device
        with self._lock:
            return HostStatus(
                state=device.state,
                status_message=device.status_message,
                readings=device.readings,
                resident=resident,
                period=statistics.period,
                inferences=statistics.inferences,
                recoveries=device.reopened + device.readings.recoveries,
                dropped=statistics.dropped,
                sticks=(
                    StickStatus(
                        device.state,
                        device.status_message,
                        device.readings,
                        resident=resident,
                        utilisation=statistics.period.utilisation,
                        inferences=statistics.inferences,
                        recoveries=device.reopened + device.readings.recoveries,
                    ),
                ),
            )

    def _engine_of(self, model: HostedModel) -> tuple[AttachedEngine, int]:
        """The engine of a model and the opening of its device; counts and raises a refusal."""
        with self._lock:
            if model.engine is None:
                self._statistics.drop()
                raise self._refusal(model)
            return model.engine, self._device.opening

    @contextmanager
    def _timed(self, opening: int) -> Iterator[_Timing]:
        """Count work in an engine; an error of the device makes it be opened again."""
        timing = _Timing()
        start = time.perf_counter()
        try:
            yield timing
        except DeviceError as error:
            self._statistics.drop()
            self._device.lose(error, opening)
            raise
        timing.duration = time.perf_counter() - start
        self._statistics.add(timing.duration)

    def _refusal(self, model: HostedModel) -> EdgeTpuError:
        """Why a model without an engine does not run."""
        if self._models.get(model.name) is not model:
            return ModelNotFoundError(f"model '{model.name}' was unloaded meanwhile")
        if model.unsupported_reason:
            return ModelUnsupportedError(f"model '{model.name}' cannot run here: {model.unsupported_reason}")
        return UnavailableError(f"no device: {self._device.status_message}")

    def _attach_all(self) -> None:
        for model in self._models.values():
            model.attach()

    def _detach_all(self) -> None:
        for model in self._models.values():
            model.detach()
