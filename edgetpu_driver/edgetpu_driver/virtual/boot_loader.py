"""A virtual stick in boot mode: the DFU 1.1 state machine that receives the firmware."""

from __future__ import annotations

from edgetpu_driver.usb.firmware_loading import DfuState
from edgetpu_driver.virtual.usb_descriptors import DFU_BLOCK_SIZE

_OUT, _IN = 0x21, 0xA1
"""Request types: to and from the interface, of its class."""
_DOWNLOAD, _UPLOAD, _GET_STATUS, _CLEAR_STATUS, _GET_STATE, _ABORT = 1, 2, 3, 4, 5, 6
"""Requests of USB DFU 1.1, table 3.2."""
_MEMORY_SIZE = 0x8000
"""Bytes that an upload reads back: more than the vendor's image of 11 kB. The limit of silicon is unknown."""
_WRONG_STATE = 0x0E  # errUNKNOWN: unspecified error
_LEFT_BY = {
    _CLEAR_STATUS: (DfuState.ERROR,),
    _ABORT: (DfuState.IDLE, DfuState.DOWNLOAD_IDLE, DfuState.UPLOAD_IDLE),
}
"""The states from which a request returns to IDLE (USB DFU 1.1, A.2)."""


class BootLoader:
    """Accepts blocks in order, a GETSTATUS after each, the last one empty; a reset starts the firmware."""

    def __init__(self) -> None:
        self.image = b""
        self.complete = False
        self._state = DfuState.IDLE
        self._status = 0
        self._blocks = 0
        """Blocks of the present transfer, in either direction."""

    def control(self, request_type: int, request: int, value: int, data: bytes, size: int) -> bytes | None:
        """Answer a class request (empty if no data was requested); None is a stall."""
        if (request_type, request) == (_IN, _GET_STATUS):
            return self._answer_status()[:size]
        if (request_type, request) == (_IN, _GET_STATE):
            return bytes((self._state,))
        if (request_type, request) == (_IN, _UPLOAD):
            return self._upload(value, size)
        if (request_type, request) == (_OUT, _DOWNLOAD):
            return self._download(value, data)
        leaves = _LEFT_BY.get(request, ()) if request_type == _OUT else ()
        if self._state not in leaves:
            self._refuse()
            return None
        self._state, self._status = DfuState.IDLE, 0
        return b""

    def _answer_status(self) -> bytes:
        """The status and the state that the device enters with this answer."""
        if self._state is DfuState.DOWNLOAD_SYNC:
            self._state = DfuState.DOWNLOAD_IDLE
        elif self._state is DfuState.MANIFEST_SYNC:
            self._state, self.complete = DfuState.IDLE, True
        return bytes((self._status, 0, 0, 0, self._state, 0))

    def _download(self, number: int, block: bytes) -> bytes | None:
        if self._state is DfuState.IDLE and block:
            self.image, self.complete, self._blocks = b"", False, 0
        elif self._state is not DfuState.DOWNLOAD_IDLE:
            self._refuse()
            return None
        if number != self._blocks or len(block) > DFU_BLOCK_SIZE:
            self._refuse()
            return None
        self._blocks += 1
        self.image += block
        self._state = DfuState.DOWNLOAD_SYNC if block else DfuState.MANIFEST_SYNC
        return b""

    def _upload(self, number: int, size: int) -> bytes | None:
        if self._state is DfuState.IDLE:
            self._blocks = 0
        elif self._state is not DfuState.UPLOAD_IDLE:
            self._refuse()
            return None
        if number != self._blocks or size > DFU_BLOCK_SIZE:
            self._refuse()
            return None
        self._blocks += 1
        start = number * DFU_BLOCK_SIZE
        block = self.image.ljust(_MEMORY_SIZE, b"\0")[start : start + size]
        self._state = DfuState.UPLOAD_IDLE if len(block) == size else DfuState.IDLE
        return block

    def _refuse(self) -> None:
        self._state, self._status = DfuState.ERROR, _WRONG_STATE
