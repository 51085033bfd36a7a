"""Chooses the driver that the clients of a node use: the first in the node's order that answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from rclpy.node import Node

from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_LATCHED
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_msgs.msg import DeviceStatus

PENALTY = 5.0
"""Seconds for which a driver that did not answer is avoided even if its state is READY."""

_NODE_NAME = re.compile(r"(~?/)?[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)
_LONGEST_NAME = 200
"""Longest name, characters. Given by rcl: with namespace and /get_device_info, a service's may have 247."""


def driver_names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names in a value of the parameter `driver`: a list, or a text separated by commas."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts)


def _refusal(value: Any) -> str | None:
    if not isinstance(value, str) and not (
        isinstance(value, Sequence) and all(isinstance(v, str) for v in value)
    ):
        return f"expected a name or a list of names; got {value!r}"
    names = driver_names(value)
    for name in names or ("",):
        if not _NODE_NAME.fullmatch(name):
            return f"expected a node's name, letters, digits and _ between slashes; got '{name}'"
        if len(name) > _LONGEST_NAME:
            return f"expected a node's name of at most {_LONGEST_NAME} characters; got {len(name)}"
    return "expected each driver once" if len(set(names)) < len(names) else None


DRIVER_SETTING = Setting(
    "driver",
    "edgetpu",
    "Name of the driver node, relative to this node's namespace or absolute (/...). Several, as a list or "
    "separated by commas: the first of them that is ready is used.",
    check=_refusal,
    any_type=True,
)
"""The parameter of every node that uses a driver."""


@dataclass
class _Driver:
    name: str
    """Fully qualified."""
    ready: bool = False
    """Whether it has reported since its last failure that its device is ready."""
    avoided_until: float = 0.0


class DriverChoice:
    """The drivers of one node, in the order in which it prefers them.

    The state that each publishes on ~/status says which of them have a device; a driver that did not answer
    is avoided until it publishes its state again, and for some seconds at least. A single driver is always
    the choice, and its state is not subscribed to.
    """

    def __init__(self, node: Node, names: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        # The fully qualified name after remapping; "~" and relative names are resolved like a service's.
        self._drivers = [
            _Driver(node.resolve_service_name(f"{name}/invoke").removesuffix("/invoke")) for name in names
        ]
        self._clock = clock
        self._present = self._drivers[0]
        if len(self._drivers) > 1:
            for driver in self._drivers:
                self._watch(node, driver)

    @property
    def names(self) -> tuple[str, ...]:
        """The fully qualified names of all drivers."""
        return tuple(driver.name for driver in self._drivers)

    @property
    def name(self) -> str:
        """The fully qualified name of the driver to use now."""
        now = self._clock()
        for driver in self._drivers:
            if driver.ready and now >= driver.avoided_until:
                self._present = driver
                break
        return self._present.name

    def failed(self, name: str) -> None:
        """Avoid a driver that did not answer, or has no device."""
        for driver in self._drivers:
            if driver.name == name:
                driver.ready, driver.avoided_until = False, self._clock() + PENALTY

    def _watch(self, node: Node, driver: _Driver) -> None:
        def on_status(status: DeviceStatus) -> None:
            driver.ready = status.state == DeviceStatus.READY

        node.create_subscription(DeviceStatus, f"{driver.name}/status", on_status, QOS_LATCHED)


_of_nodes: WeakKeyDictionary[Node, dict[tuple[str, ...], DriverChoice]] = WeakKeyDictionary()


def driver_choice(node: Node, value: str | Sequence[str]) -> DriverChoice:
    """The choice among the drivers of a parameter's value; all clients of a node share it."""
    names = driver_names(value)
    choices = _of_nodes.setdefault(node, {})
    if names not in choices:
        choices[names] = DriverChoice(node, names)
    return choices[names]
