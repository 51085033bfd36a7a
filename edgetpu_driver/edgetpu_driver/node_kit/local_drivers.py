"""The driver nodes of this process, which clients in the same process call without DDS."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from edgetpu_driver.host.hosted_model import HostedModel
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult


class LocalDriver(Protocol):
    """A driver that can be called directly, from any thread. All calls raise EdgeTpuError."""

    def load_model(self, model: str, name: str = "") -> HostedModel:
        """Load a model, as ~/load_model does."""
        ...

    def invoke(self, name: str, inputs: Mapping[str, NDArray[Any]]) -> InferenceResult:
        """Run a loaded model once, as ~/invoke does."""
        ...

    def set_weights(self, name: str, request: WeightRequest) -> WeightResult:
        """Replace weights of a loaded model, as ~/set_weights does."""
        ...


_drivers: dict[str, LocalDriver] = {}
_lock = threading.Lock()


def register(node_name: str, driver: LocalDriver) -> None:
    """Register a driver under its node's fully qualified name ("/edgetpu")."""
    with _lock:
        _drivers[node_name] = driver


def unregister(node_name: str) -> None:
    """Remove a driver; an unknown name is ignored."""
    with _lock:
        _drivers.pop(node_name, None)


def find(node_name: str) -> LocalDriver | None:
    """Return the driver of that fully qualified name, or None."""
    with _lock:
        return _drivers.get(node_name)
