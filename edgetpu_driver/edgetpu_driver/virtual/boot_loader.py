"""A virtual stick in boot mode: the DFU 1.1 state machine that receives the firmware."""

from __future__ import annotations

from edgetpu_driver.usb.firmware import DfuState
from edgetpu_driver.virtual.usb_descriptors import DFU_BLOCK_SIZE

_OUT, _IN = 0x21, 0xA1
"""Request types: to and from the interface, of its class."""
_DOWNLOAD, _UPLOAD, _GET_STATUS, _CLEAR_STATUS, _GET_STATE, _ABORT = 1, 2, 3, 4, 5, 6
"""Requests of USB DFU 1.1, table 3.2."""
_MEMORY_SIZE = 0x8000
"""Bytes that an upload reads back: more than the vendor's image of 11 kB. The limit of silicon is unknown."""
_WRONG_STATE = 0x0E  # errUNKNOWN: unspecified error


class BootLoader:
    """Accepts blocks in order, then an empty block; a reset then starts the firmware."""

    def __init__(self) -> None:
        self.image = b""
        self.complete = False
        self._state = DfuState.IDLE
        self._status = 0
        self._blocks = 0

    def control(self, request_type: int, request: int, value: int, data: bytes, size: int) -> bytes | None:
        """Answer a class request (empty if no data was requested); None is a stall."""
        if (request_type, request) == (_IN, _GET_STATUS):
            return bytes((self._status, 0, 0, 0, self._state, 0))[:size]
        if (request_type, request) == (_IN, _GET_STATE):
            return bytes((self._state,))
        if (request_type, request) == (_IN, _UPLOAD):
            return self._upload(value, size)
        if request_type != _OUT:
            return None
        if request in (_CLEAR_STATUS, _ABORT):
            self.__init__()  # type: ignore[misc]
            return b""
        return self._download(value, data) if request == _DOWNLOAD else None

    def _download(self, number: int, block: bytes) -> bytes | None:
        starting = self._state is DfuState.IDLE and number == 0 and len(block) > 0
        if starting:
            self.image, self.complete, self._blocks = b"", False, 0
        if not starting and self._state is not DfuState.DOWNLOAD_IDLE:
            self._refuse()
            return None
        if number != self._blocks or len(block) > DFU_BLOCK_SIZE:
            self._refuse()
            return None
        self._blocks += 1
        self.image += block
        self.complete = not block
        self._state = DfuState.DOWNLOAD_IDLE if block else DfuState.IDLE
        return b""

    def _upload(self, number: int, size: int) -> bytes | None:
        if self._state not in (DfuState.IDLE, DfuState.UPLOAD_IDLE):
            self._refuse()
            return None
        start = number * DFU_BLOCK_SIZE
        block = self.image.ljust(_MEMORY_SIZE, b"\0")[start : start + size]
        self._state = DfuState.UPLOAD_IDLE if len(block) == size else DfuState.IDLE
        return block

    def _refuse(self) -> None:
        self._state, self._status = DfuState.ERROR, _WRONG_STATE
