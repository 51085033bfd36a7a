"""A model loaded under a name: its file, its owner, its weights, and the sticks that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Protocol

from edgetpu_driver.backends.backend import ParsedModel, Placement
from edgetpu_driver.engines.whole_model.model_plan import ModelPlan
from edgetpu_driver.errors import EdgeTpuError, ModelNotFoundError
from edgetpu_driver.host.models.expected_time import ExpectedTime
from edgetpu_driver.host.models.model_parts import ReadModel
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.host.models.weight_history import WeightHistory
from edgetpu_driver.tflite.tensor import TensorSpec


class ModelState(IntEnum):
    """State of a model's loading; the numbers are those of edgetpu_msgs/ModelInfo."""

    LOADED = 0
    QUEUED = 1
    FAILED = 2


class Swap(Protocol):
    """A request to replace weights."""

    priority: int


@dataclass
class KnownRequests:
    """The requests for a model that a scheduler knows of."""

    unanswered: int = 0
    swaps_waiting: set[Swap] = field(default_factory=set)
    """Swaps of its weights that have not begun."""
    swap: Swap | None = None
    """The swap that has begun."""


class HostedModel:
    """A model of a ModelHost. Its properties may be read at any time; only the host changes it."""

    def __init__(self, name: str, paths: Sequence[Path], owner: str = "", shared: bool = False) -> None:
        """paths: of its file, or of its segments in their order."""
        self.name = name
        self.paths = tuple(paths)
        self.owner = owner
        """The client that loaded it; empty: anonymous clients."""
        self.shared = shared
        """Whether other clients may set its weights and unload it."""
        self.failure: EdgeTpuError | None = None
        """Why it could not be loaded; None if it was loaded, or is being loaded."""
        self.sha256 = ""
        """SHA-256 of the file, or of all segments concatenated, in hexadecimal; empty until it is loaded."""
        self.file_bytes = 0
        """Size of its files, bytes; 0 if it is unknown while queued, or if the model could not be loaded."""
        self.files_without_weights = b""
        """Labels, anchors and other metadata in the files; see `without_weights`."""
        self.parsed: ParsedModel | None = None
        """The model as a backend has parsed it; None until it is loaded."""
        self.tensors_of_file: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]] = (), ()
        """Inputs and outputs that are known before it is loaded: those in a small file, without checks."""
        self.plan: ModelPlan | None = None
        """How its parts are connected; None if one engine runs all of it."""
        self.parts: tuple[HostedModel, ...] = ()
        """The parts, one for each step of its plan; empty if one engine runs all of it."""
        self.on_device = True
        """Whether it is a part that sticks run; otherwise the CPU's worker runs it."""
        self.operators: tuple[str, ...] = ()
        """Names of the operators of a part."""
        self.weights = WeightHistory()
        """The weights that were set on it."""
        self.head_name = ""
        """Name in the catalogue if its graph can be a head of a joint graph; otherwise empty."""
        self.unloaded = False
        # The following fields belong to the scheduler.
        self.replicas: dict[int, ModelReplica] = {}
        """Its replicas by the number of the stick."""
        self.requests = KnownRequests()
        self.expected = ExpectedTime()

    @property
    def path(self) -> Path:
        """The path of its file, or of its first segment."""
        return self.paths[0]

    def set_read(
        self, sha256: str, file_bytes: int, read: ReadModel, files_without_weights: bytes = b""
    ) -> None:
        """Take what was read from the files; see `without_weights`."""
        self.files_without_weights = files_without_weights
        several = sum(part.on_device for part in read.parts) > 1
        parts: list[HostedModel] = []
        for each in read.parts:
            name = f"{self.name} on the CPU"
            if each.on_device:
                number = 1 + sum(part.on_device for part in parts)
                name = f"{self.name} part {number}" if several else self.name
            part = HostedModel(name, self.paths, self.owner, self.shared)
            part.on_device, part.operators = each.on_device, each.operators
            part.sha256, part.parsed = sha256, each.parsed
            parts.append(part)
        self.plan, self.parts = read.plan, tuple(parts)
        self.sha256, self.file_bytes = sha256, file_bytes
        self.parsed = read.whole  # the last, as it makes the model LOADED

    def keep_weights_of(self, earlier: HostedModel) -> None:
        """Take over the weights of an earlier model that was read from the same files."""
        self.weights = earlier.weights
        if len(self.parts) == len(earlier.parts):  # unless a graph that was missing has changed the parts
            for part, same in zip(self.parts, earlier.parts, strict=True):
                part.weights = same.weights

    def set_failed(self, error: EdgeTpuError) -> None:
        """Make the state FAILED."""
        self.failure, self.file_bytes = error, 0

    @property
    def state(self) -> ModelState:
        """Whether it is loaded, being loaded, or could not be loaded."""
        if self.failure is not None:
            return ModelState.FAILED
        return ModelState.QUEUED if self.parsed is None else ModelState.LOADED

    @property
    def weights_version(self) -> int:
        """Number of times its weights were replaced."""
        if not self.parts:
            return self.weights.version
        return sum(part.weights.version for part in self.parts)

    @property
    def device_parts(self) -> tuple[HostedModel, ...]:
        """The models that run on sticks, in order: the model itself, or its parts for the Edge TPU."""
        return tuple(part for part in self.parts if part.on_device) if self.parts else (self,)

    @property
    def message(self) -> str:
        """Why it cannot be loaded, or cannot run here; empty if it can, as far as is known."""
        if self.failure is not None:
            return str(self.failure)
        deaths = (part.death for part in self.parts or (self,))
        return self.unsupported_reason or next((death for death in deaths if death), "")

    @property
    def death(self) -> str:
        """How the process of its graph ended, until it is attached to a stick again; otherwise empty."""
        replicas = tuple(self.replicas.values())
        if any(replica.engine is not None for replica in replicas):
            return ""
        return next((replica.death for replica in replicas if replica.death), "")

    @property
    def unsupported_reason(self) -> str:
        """Why it cannot run in any state of the device; empty if it can, as far as is known."""
        if self.parsed is not None and self.parsed.unsupported_reason:
            return self.parsed.unsupported_reason
        if self.parts:
            return next((part.unsupported_reason for part in self.parts if part.unsupported_reason), "")
        reason = ""
        for replica in tuple(self.replicas.values()):
            reason = replica.unsupported_reason
            if not reason:
                return ""
        return reason

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in the model's order; empty until it is loaded."""
        return () if self.parsed is None else self.parsed.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in the model's order; empty until it is loaded."""
        return () if self.parsed is None else self.parsed.outputs

    @property
    def placement(self) -> Placement:
        """Where its parameters are stored while it runs; HOST until that is known."""
        return Placement.HOST if self.parsed is None else self.parsed.placement

    @property
    def parameter_bytes(self) -> int:
        """Bytes of its parameters; 0 until that is known."""
        return 0 if self.parsed is None else self.parsed.parameter_bytes

    @property
    def caching_token(self) -> int:
        """Models with the same token can be resident together; 0: never resident, or not known yet."""
        return 0 if self.parsed is None else self.parsed.caching_token

    @property
    def region(self) -> int:
        """Rows of the chip's memory that its parameters fill, as bits; 0 until that is known."""
        return 0 if self.parsed is None else self.parsed.region

    @property
    def resident(self) -> bool:
        """Whether the model's parameters are on a device now."""
        if self.parts:
            return all(part.resident for part in self.parts)
        return any(replica.resident for replica in tuple(self.replicas.values()))

    @property
    def uploads(self) -> int:
        """Number of uploads of its parameters since it was loaded, to all sticks that it is assigned to."""
        replicas = (replica for part in self.device_parts for replica in tuple(part.replicas.values()))
        return sum(replica.uploads for replica in replicas)

    @property
    def sticks(self) -> tuple[str, ...]:
        """Bus paths of the sticks that it is assigned to, as far as they are known."""
        replicas = (replica for part in self.device_parts for replica in tuple(part.replicas.values()))
        return tuple(dict.fromkeys(replica.bus_path for replica in replicas if replica.bus_path))

    def is_free_to(self, client: str) -> bool:
        """Whether a client may replace its weights and unload it."""
        return self.shared or client == self.owner

    def gone(self) -> ModelNotFoundError:
        """The error of a request for a model that was unloaded before its turn."""
        return ModelNotFoundError(f"model '{self.name}' was unloaded meanwhile")
