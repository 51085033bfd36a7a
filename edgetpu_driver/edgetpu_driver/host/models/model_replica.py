"""A hosted model on one stick: its engines and the weights that they hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import prod
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend, ParsedModel
from edgetpu_driver.engines.divisible_work import Pieces
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.errors import (
    DeviceError,
    EdgeTpuError,
    GraphProcessError,
    InputError,
    ModelUnsupportedError,
    UnavailableError,
    unexpected,
)
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.models.attach_attempts import AttachAttempts
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.models.weight_history import WeightHistory
from edgetpu_driver.matrix.loaded_matrix import LoadedMatrix, ProductRequest, needs_tiles
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.tflite.tensor import named_inputs
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

_log = logging.getLogger(__name__)


class Reader(Protocol):
    """A request that uses the weights until it ends."""

    client: str
    priority: int


class ModelReplica:
    """A model on one stick. Its methods are called by the thread that owns the stick."""

    def __init__(
        self,
        name: str,
        sha256: str,
        parsed: ParsedModel,
        history: WeightHistory,
        backend: Backend,
        limits: ClientLimits,
    ) -> None:
        """name, sha256: of the model. history: the weights that it is to have. limits: of products."""
        self.name = name
        self.sha256 = sha256
        self.parsed = parsed
        self.engine: AttachedEngine | None = None
        """The engine, only while the device is open and the model can run on it."""
        self.unsupported_reason = ""
        """Why it cannot run on this stick; empty if it can."""
        self.death = ""
        """How the process of its graph ended, until it is attached again; otherwise empty."""
        self.attempts = AttachAttempts()
        self.version = 0
        """Version of the weights it holds."""
        self.weights: WeightRequest | None = None
        """The weights that were set last; None while those in the file are in effect."""
        self.engine_weights: WeightRequest | None = None
        """The weights that `engine` was given last; a matrix in tiles is on other engines."""
        self.bus_path = ""
        # The following fields belong to the scheduler.
        self.readers: list[Reader] = []
        """The products in progress."""
        self.writing = False
        """Whether a change of its weights is in progress."""
        self.preparing = False
        """Whether a product is preparing its weights, so that no other product may begin."""
        self._history = history
        self._limits = limits
        self._backend = backend
        self._engines: list[AttachedEngine] = []
        self._earlier_uploads = 0
        self._matrix: LoadedMatrix | None = None

    @property
    def reading(self) -> bool:
        """Whether products are in progress; belongs to the scheduler as well."""
        return bool(self.readers)

    @property
    def resident(self) -> bool:
        """Whether its parameters are in the stick's memory now; never waits for the device."""
        return any(engine.resident for engine in tuple(self._engines))

    @property
    def uploads(self) -> int:
        """Number of uploads of its parameters to the stick since it was assigned to it."""
        return self._earlier_uploads + sum(engine.uploads for engine in tuple(self._engines))

    def attach(self, bus_path: str) -> None:
        """Make the engine, with the weights of the file. Raises DeviceError.

        Any other error becomes the `unsupported_reason`. A graph whose process dies is tried again, because
        something else may have ended the process: once immediately, then whenever `attempts` is due.
        """
        self.bus_path = bus_path
        self._release()
        self.attempts.begun()
        for again in (not self.attempts.failures, False):
            try:
                self.engine, self.unsupported_reason = self._new_engine(self._engines), ""
            except DeviceError:
                raise
            except Exception as error:
                if again and isinstance(error, GraphProcessError):
                    continue
                self._fail(error)
            return

    def detach(self) -> None:
        """Drop the engines of a lost device."""
        self.attempts = AttachAttempts()
        self._drop()

    def close(self) -> None:
        """Release the engines."""
        self.attempts = AttachAttempts()
        self._release()

    def _drop(self) -> None:
        self._earlier_uploads = self.uploads
        self.engine, self._engines, self._matrix = None, [], None
        self.death, self.version, self.weights, self.engine_weights = "", 0, None, None
        self.readers.clear()
        self.writing = self.preparing = False

    def _release(self) -> None:
        engines = self._engines
        self._drop()
        for engine in engines:
            engine.close()

    def _fail(self, error: Exception) -> None:
        """Note why it cannot run, permanently or until it is attached again."""
        reason, again = self._reason(error), False
        if isinstance(error, GraphProcessError):
            again = self.attempts.failed(time.monotonic())
        self.engine = None
        self.unsupported_reason, self.death = ("", reason) if again else (reason, "")

    def invoking(self, inputs: Mapping[str, NDArray[Any]], reset: bool = False) -> Pieces[InferenceResult]:
        """Run the model once, from a state of zeros if `reset`. Raises InputError, DeviceError."""
        yield from ()
        engine = self._attached()
        matrix = self.weights
        if matrix is not None and matrix is not self.engine_weights:
            raise InputError(
                f"model '{self.name}' holds a matrix {list(matrix.weights.shape)} in tiles: "
                "multiply by it with ~/matmul"
            )
        start = perf_counter()
        if reset:
            engine.reset()
        outputs = engine.run(named_inputs(engine.inputs, inputs))
        self.attempts.ran()
        return InferenceResult(
            outputs,
            engine_duration=perf_counter() - start,
            device_duration=engine.device_duration,
            weights_version=self.version,
            model_sha256=self.sha256,
        )

    def multiplying(self, request: ProductRequest) -> Pieces[Product]:
        """Multiply by the weights in effect; see MatMul.multiply."""
        engine = self._attached()
        if self._matrix is None:
            with self._preparation():
                yield partial(_look_for_weights, engine)
        version, matrix = self.version, self._matrix_of(engine)
        tiles = 1 if self.weights is None else _tiles(engine, self.weights)
        self._limits.check_product(request.batch, request.passes, tiles)
        if not matrix.holds(self.weights):
            with self._preparation():
                yield from matrix.holding(self.weights)
        product = yield from matrix.multiplying(request, self.weights)
        return replace(product, weights_version=version)

    @contextmanager
    def _preparation(self) -> Iterator[None]:
        """Within the context, no other product may begin."""
        self.preparing = True
        try:
            yield
        finally:
            self.preparing = False

    def setting(self, request: WeightRequest) -> Pieces[tuple[WeightRequest, WeightResult]]:
        """Replace weights on this stick; returns the request with copies of its arrays, and the result."""
        copy = yield partial(np.array, request.weights)  # the caller may change its arrays afterwards
        bias, gains = (None if each is None else np.array(each) for each in (request.bias, request.row_gains))
        request = replace(request, weights=copy, bias=bias, row_gains=gains)
        engine = self._attached()
        if (yield partial(needs_tiles, engine, request)):
            self._check_tiles(engine, request)
            return request, (yield from self._matrix_of(engine).setting_weights(request))
        commit = yield partial(engine.prepare_weights, request)
        result = commit()
        self.engine_weights = request
        return request, result

    def updating(self) -> Pieces[None]:
        """Set the weights that were set on other sticks, or before the device was opened.

        Raises DeviceError. Any other error becomes the `unsupported_reason`, because the model must not run
        with old weights. The death of a graph's process is handled as in `attach`.
        """
        for again in (True, False):
            try:
                yield from self._setting_missing_weights()
            except DeviceError:
                raise
            except Exception as error:
                if again and isinstance(error, GraphProcessError):
                    continue
                _log.warning("cannot restore the weights of model '%s': %s", self.name, self._reason(error))
                self._fail(error)
            return

    def _setting_missing_weights(self) -> Pieces[None]:
        while missing := self._history.since(self.version):
            version, request = missing[0]
            engine = self._attached()
            if (yield partial(needs_tiles, engine, request)):
                yield from self._matrix_of(engine).holding(request)
            else:
                commit = yield partial(engine.prepare_weights, request)
                commit()
                self.engine_weights = request
            self.version, self.weights = version, request
            yield None

    def _reason(self, error: Exception) -> str:
        """Why it cannot run, as one line; errors other than EdgeTpuError are logged."""
        if isinstance(error, EdgeTpuError):
            return str(error)
        _log.error("unexpected error while preparing model '%s'", self.name, exc_info=error)
        return str(unexpected(error))

    def _check_tiles(self, engine: AttachedEngine, request: WeightRequest) -> None:
        tensor = engine.weight_tensor(request.tensor)
        if request.bias is not None:
            raise ModelUnsupportedError(f"'{tensor.name}' is a matrix in tiles, which has no bias")
        tiles, most = _tiles(engine, request), self._limits.tiles
        if tiles > most:
            raise InputError(
                f"expected a matrix of at most {most} tiles of {list(tensor.shape)}; got "
                f"{list(request.weights.shape)}, which takes {tiles}"
            )

    def _attached(self) -> AttachedEngine:
        if self.engine is None:
            raise self._not_attached()
        return self.engine

    def _not_attached(self) -> UnavailableError:
        return UnavailableError(f"model '{self.name}' is not on the stick at {self.bus_path}")

    def _matrix_of(self, engine: AttachedEngine) -> LoadedMatrix:
        """The matrix multiplication with the model's weights; ModelUnsupportedError if it is not Dense."""
        if self._matrix is None:
            self._matrix = LoadedMatrix(engine, partial(self._new_engine, self._engines))
        return self._matrix

    def _new_engine(self, engines: list[AttachedEngine]) -> AttachedEngine:
        """Make one more engine unless `engines` were released meanwhile; may be called by any thread."""
        if engines is not self._engines:
            raise self._not_attached()
        engine = self._backend.attach(self.parsed)
        engines.append(engine)
        if engines is not self._engines:
            engine.close()
        return engine


def _look_for_weights(engine: AttachedEngine) -> None:
    """Have an engine look for its only weights, which may take long the first time."""
    with suppress(EdgeTpuError):  # raised again by whatever needs them
        engine.weight_tensor()


def _tiles(engine: AttachedEngine, request: WeightRequest) -> int:
    """Number of tiles, each of the size of the Dense model, that weights for it take."""
    tile = engine.weight_tensor(request.tensor).shape
    return prod(-(-size // most) for size, most in zip(request.weights.shape, tile, strict=True))
