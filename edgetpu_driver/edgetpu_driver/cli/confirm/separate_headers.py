"""A pyusb backend that sends each frame's header in a separate transfer, like the vendor's driver."""

from __future__ import annotations

from array import array
from typing import Any

from edgetpu_driver.usb.framing import HEADER


class SeparateHeaders:
    """Forwards everything to another pyusb backend, but splits frames in two."""

    def __init__(self, backend: Any) -> None:
        self.apart = True
        """Whether headers are sent separately."""
        self._backend = backend
        self._left = 0
        """Remaining bytes of the current frame."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def claim_interface(self, handle: Any, interface: int) -> Any:
        """Claim the interface; discards an incomplete frame."""
        self._left = 0
        return self._backend.claim_interface(handle, interface)

    def bulk_write(self, handle: Any, endpoint: int, interface: int, data: array[int], timeout: int) -> int:
        """Write a frame or the next part of one."""
        write = self._backend.bulk_write
        begins = not self._left
        if begins:
            self._left = HEADER.size + int(HEADER.unpack_from(data)[0])
        self._left -= len(data)
        if not (begins and self.apart and len(data) > HEADER.size):
            return int(write(handle, endpoint, interface, data, timeout))
        sent = int(write(handle, endpoint, interface, data[: HEADER.size], timeout))
        if sent < HEADER.size:
            return sent
        return sent + int(write(handle, endpoint, interface, data[HEADER.size :], timeout))
