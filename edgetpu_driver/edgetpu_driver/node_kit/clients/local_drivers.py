"""The driver nodes of this process, which clients in the same process call without DDS."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from edgetpu_driver.errors import EdgeTpuError

if TYPE_CHECKING:  # a process without a driver loads no host
    from edgetpu_driver.host.model_host import ModelHost
    from edgetpu_driver.host.models.hosted_model import HostedModel


class LocalDriver(Protocol):
    """A driver whose host can be called directly, from any thread."""

    def active_host(self) -> ModelHost:
        """Return the host that runs the models; UnavailableError unless the driver is active."""
        ...

    def submit_load(
        self,
        model: str | Sequence[str],
        name: str,
        done: Callable[[HostedModel | EdgeTpuError], None],
        *,
        client: str = "",
        shared: bool = False,
    ) -> HostedModel:
        """Begin to load a model, as ~/load_model does; see ModelHost."""
        ...


_drivers: dict[str, list[LocalDriver]] = {}
_lock = threading.Lock()


def register(node_name: str, driver: LocalDriver) -> None:
    """Register a driver under its node's fully qualified name ("/edgetpu")."""
    with _lock:
        _drivers.setdefault(node_name, []).append(driver)


def unregister(node_name: str, driver: LocalDriver | None = None) -> None:
    """Remove a driver, or all of that name; one that is not registered is ignored."""
    with _lock:
        others = [each for each in _drivers.pop(node_name, []) if driver is not None and each is not driver]
        if others:
            _drivers[node_name] = others


def find(node_name: str) -> LocalDriver | None:
    """Return the first driver with that fully qualified name; None if there is none."""
    with _lock:
        return next(iter(_drivers.get(node_name, ())), None)
