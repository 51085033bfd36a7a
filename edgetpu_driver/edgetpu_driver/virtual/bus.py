"""Several virtual sticks on one bus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from edgetpu_driver.virtual.pyusb_backend import VirtualEdgeTpu


class VirtualBus:
    """A pyusb backend that presents the given sticks, each in its own port, with a shared clock."""

    def __init__(self, *sticks: VirtualEdgeTpu) -> None:
        self._sticks = list(sticks)
        self.clock = sticks[0].clock
        for stick in sticks:
            stick.clock = self.clock

    def enumerate_devices(self) -> Iterator[Any]:
        """The devices of all sticks."""
        return (device for stick in self._sticks for device in stick.enumerate_devices())

    def swap(self, index: int, stick: VirtualEdgeTpu) -> None:
        """Unplug a stick and plug in another."""
        self._sticks[index].unplug()
        stick.clock = self.clock
        self._sticks[index] = stick

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def pass_on(device: Any, *arguments: Any) -> Any:
            return getattr(device.stick, name)(device, *arguments)

        return pass_on
