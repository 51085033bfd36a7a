"""Loading the firmware into a stick in boot mode, by USB DFU 1.1."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from edgetpu_driver.errors import DeviceError, FirmwareError, TransferError, reason_of
from edgetpu_driver.files.file_access import read_file
from edgetpu_driver.usb.link import INTERFACE, UsbLink

SINGLE_ENDPOINT_SHA256 = "3b07311b174b81fd14fd2c887f40d646c0ebf2f140cc5ee5cf8befa0f3e3dc7f"
"""SHA-256 of the vendor's image of 10 783 bytes, the only one whose protocol this driver implements."""
WHERE_TO_GET_IT = (
    "the file driver/usb/apex_latest_single_ep.bin of github.com/google-coral/libedgetpu,"
    f" SHA-256 {SINGLE_ENDPOINT_SHA256}"
)
DEFAULT_BLOCK_SIZE = 256
"""Size of a DFU block if the descriptors give none, bytes."""

_log = logging.getLogger(__name__)

_CLASS_OUT = 0x21
"""bmRequestType of a class request to the interface, host to device."""
_CLASS_IN = 0xA1
"""bmRequestType of a class request to the interface, device to host."""
_DOWNLOAD, _UPLOAD, _GET_STATUS, _CLEAR_STATUS, _ABORT = 1, 2, 3, 4, 6
"""Requests of USB DFU 1.1, table 3.2."""
_FUNCTIONAL_DESCRIPTOR = 0x21
"""Type of the DFU functional descriptor (USB DFU 1.1, 4.1.3)."""
_STATUS_SIZE = 6
"""Size of the answer to GETSTATUS, bytes (USB DFU 1.1, 6.1.2)."""
_LONGEST_WAIT = 1.0
"""Maximum delay between two status requests, s; a stick could ask for 4.6 hours."""
LARGEST_IMAGE = 2**20
"""Maximum size of an image, bytes; the vendor's has 11 kB."""
_MAX_STATUS_READS = 100
"""Maximum number of status requests per block, in case a stick stays busy. Uncritical."""


class DfuState(IntEnum):
    """States of a device in boot mode (USB DFU 1.1, section 6.1.2)."""

    APP_IDLE = 0
    APP_DETACH = 1
    IDLE = 2
    DOWNLOAD_SYNC = 3
    DOWNLOAD_BUSY = 4
    DOWNLOAD_IDLE = 5
    MANIFEST_SYNC = 6
    MANIFEST = 7
    MANIFEST_WAIT_RESET = 8
    UPLOAD_IDLE = 9
    ERROR = 10


_BUSY = (DfuState.DOWNLOAD_SYNC, DfuState.DOWNLOAD_BUSY, DfuState.MANIFEST_SYNC, DfuState.MANIFEST)


@dataclass(frozen=True)
class FirmwareImage:
    """A verified image; FirmwareError if its digest is wrong."""

    data: bytes
    sha256: str = SINGLE_ENDPOINT_SHA256

    def __post_init__(self) -> None:
        import hashlib  # takes 3 ms: loads OpenSSL

        digest = hashlib.sha256(self.data).hexdigest()
        if digest != self.sha256:
            raise FirmwareError(
                f"expected a firmware image with the SHA-256 {self.sha256};"
                f" this one of {len(self.data)} bytes has {digest}"
            )

    @classmethod
    def read(cls, path: str | Path) -> FirmwareImage:
        """The vendor's image from a file; FirmwareError if it cannot be read or is another one."""
        try:
            return cls(read_file(path, LARGEST_IMAGE))
        except OSError as error:
            raise FirmwareError(
                f"cannot read the firmware image: {reason_of(error)}; get {WHERE_TO_GET_IT}"
            ) from error


def load_firmware(link: UsbLink, image: FirmwareImage) -> None:
    """Download the image into a stick in boot mode, read it back, and reset the stick to start it.

    The link is unusable afterwards: the stick enumerates again, running. A failed download is retried once.
    Raises FirmwareError if the stick refuses a block or the image read back differs.
    """
    try:
        _download(link, image)
    except (FirmwareError, TransferError) as error:
        _log.warning("loading the firmware failed, retrying once: %s", error)
        _download(link, image)
    with contextlib.suppress(DeviceError):  # the stick leaves the bus before it can answer
        link.reset()


def _download(link: UsbLink, image: FirmwareImage) -> None:
    size = _block_size(link)
    _enter_idle(link)
    blocks = [image.data[start : start + size] for start in range(0, len(image.data), size)]
    for number, block in enumerate(blocks):
        link.control_out(_CLASS_OUT, _DOWNLOAD, number, INTERFACE, block)
        _expect(link, DfuState.DOWNLOAD_IDLE, f"block {number}")
    link.control_out(_CLASS_OUT, _DOWNLOAD, len(blocks), INTERFACE)
    _expect(link, DfuState.IDLE, "the end of the image")
    if _read_back(link, len(image.data), size) != image.data:
        raise FirmwareError(
            "the firmware read back from the stick differs from the image sent; plug it in again"
        )


def _block_size(link: UsbLink) -> int:
    """Bytes per block: wTransferSize of the DFU functional descriptor."""
    descriptors = link.extra_descriptors()
    while len(descriptors) >= 2 and descriptors[0]:
        if descriptors[1] == _FUNCTIONAL_DESCRIPTOR and descriptors[0] >= 7:
            return int.from_bytes(descriptors[5:7], "little") or DEFAULT_BLOCK_SIZE
        descriptors = descriptors[descriptors[0] :]
    return DEFAULT_BLOCK_SIZE


def _status(link: UsbLink) -> tuple[int, float, DfuState]:
    """Status code, seconds to wait before the next request, state."""
    data = link.control_in(_CLASS_IN, _GET_STATUS, 0, INTERFACE, _STATUS_SIZE)
    if len(data) != _STATUS_SIZE or data[4] not in list(DfuState):
        raise FirmwareError(
            f"expected a DFU status of {_STATUS_SIZE} bytes with a known state; got {data.hex()}"
        )
    return data[0], int.from_bytes(data[1:4], "little") / 1000, DfuState(data[4])


def _enter_idle(link: UsbLink) -> None:
    """Return to DFU_IDLE: an earlier attempt may have been interrupted."""
    _, _, state = _status(link)
    if state == DfuState.ERROR:
        link.control_out(_CLASS_OUT, _CLEAR_STATUS, 0, INTERFACE)
    elif state != DfuState.IDLE:
        link.control_out(_CLASS_OUT, _ABORT, 0, INTERFACE)


def _expect(link: UsbLink, expected: DfuState, after: str) -> None:
    for _ in range(_MAX_STATUS_READS):
        status, wait, state = _status(link)
        if status == 0 and state == expected:
            return
        if status != 0 or state not in _BUSY:
            break
        link.clock.sleep(min(wait, _LONGEST_WAIT))
    raise FirmwareError(
        f"expected the DFU state {expected.name} after {after}; got {state.name}, status {status}"
    )


def _read_back(link: UsbLink, length: int, block_size: int) -> bytes:
    """The first `length` bytes of the stick's firmware memory."""
    content = b""
    for number in range(length // block_size + 1):
        block = link.control_in(_CLASS_IN, _UPLOAD, number, INTERFACE, block_size)
        content += block
        if len(block) < block_size:
            break
    return content[:length]


def firmware_image(firmware: str | Path | FirmwareImage | None, bus_path: str) -> FirmwareImage:
    """The image to load into a stick in boot mode; FirmwareError with instructions if there is none."""
    if isinstance(firmware, FirmwareImage):
        return firmware
    if firmware is None:
        raise FirmwareError(
            f"the stick at {bus_path} is in boot mode and needs its firmware:"
            f" pass the path of {WHERE_TO_GET_IT}"
        )
    return FirmwareImage.read(firmware)
