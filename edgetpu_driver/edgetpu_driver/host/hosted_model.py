"""A model loaded under a name, and the engines that run it while its device is ready."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

from edgetpu_driver.backends.backend import ParsedModel, Placement
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.errors import DeviceError, EdgeTpuError
from edgetpu_driver.matrix.loaded_matrix import LoadedMatrix, needs_tiles
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.weights.weight_request import WeightRequest

Attach = Callable[[ParsedModel], AttachedEngine]
"""Backend.attach."""


class ModelState(IntEnum):
    """How far a model is; the numbers are those of edgetpu_msgs/ModelInfo."""

    LOADED = 0
    QUEUED = 1
    FAILED = 2


class HostedModel:
    """A model of a ModelHost. Others may read its properties at any time; the host changes it."""

    def __init__(self, name: str, path: Path, sha256: str, parsed: ParsedModel, attach: Attach) -> None:
        self.name = name
        self.state = ModelState.LOADED
        self.message = ""
        """Why it could not be loaded; else empty."""
        self.owner = ""
        """The client that loaded it; empty: anonymous clients."""
        self.shared = False
        """Whether other clients may set its weights and unload it."""
        self.sticks: tuple[str, ...] = ()
        """Bus paths of the sticks it is assigned to."""
        self.path = path
        self.sha256 = sha256
        """Of the file, in hexadecimal."""
        self.parsed = parsed
        self.unsupported_reason = parsed.unsupported_reason
        """Why the model cannot run, whatever the state of the device; empty if it can, as far as known."""
        self.running = threading.Lock()
        """Held while an engine runs or takes weights; never waited for with the host's lock held."""
        self.engine: AttachedEngine | None = None
        """Present exactly while the device is ready and the model can run on it."""
        self.weights_version = 0
        """How often weights were replaced."""
        self._attach = attach
        self._engines: list[AttachedEngine] = []
        self._weights: dict[str, WeightRequest] = {}
        self._matrix: LoadedMatrix | None = None

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in the model's order."""
        return self.parsed.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in the model's order."""
        return self.parsed.outputs

    @property
    def placement(self) -> Placement:
        """Where its parameters are while it runs; HOST as long as that is not known."""
        return self.parsed.placement

    @property
    def parameter_bytes(self) -> int:
        """Size of its parameters; 0 as long as that is not known."""
        return self.parsed.parameter_bytes

    @property
    def caching_token(self) -> int:
        """Models with the same one can be resident together; 0: never resident, or not known yet."""
        return self.parsed.caching_token

    @property
    def resident(self) -> bool:
        """Whether the model's parameters are on the device now."""
        return any(engine.resident for engine in self._engines)

    @property
    def last_weights(self) -> WeightRequest | None:
        """The weights that were set last; None while those of the file are in effect."""
        return next(reversed(self._weights.values()), None)

    def attach(self) -> None:
        """Make the engine, with the weights in effect; DeviceError if these cannot be uploaded.

        Any other error becomes the `unsupported_reason`.
        """
        try:
            engine = self._new_engine()
            for request in self._weights.values():
                if not needs_tiles(engine, request):
                    engine.set_weights(request)
        except DeviceError:
            raise
        except EdgeTpuError as error:
            self.engine, self.unsupported_reason = None, str(error)
        else:
            self.engine, self.unsupported_reason = engine, ""

    def detach(self) -> None:
        """Drop the engines, whose device is gone."""
        self.engine, self._engines, self._matrix = None, [], None

    def close(self) -> None:
        """Release the engines after the work under way on them."""
        with self.running:
            engines = self._engines
            self.detach()
            for engine in engines:
                engine.close()

    def record_weights(self, request: WeightRequest) -> int:
        """Remember weights that are in effect now, for the next engine; the new version."""
        self.weights_version += 1
        self._weights.pop(request.tensor, None)
        self._weights[request.tensor] = request
        return self.weights_version

    def matrix(self, engine: AttachedEngine) -> LoadedMatrix:
        """What multiplies by the weights of the model; ModelUnsupportedError if it is not Dense."""
        if self._matrix is None or self._matrix.engine is not engine:
            self._matrix = LoadedMatrix(engine, self._new_engine)
        return self._matrix

    def _new_engine(self) -> AttachedEngine:
        engine = self._attach(self.parsed)
        self._engines.append(engine)
        return engine
