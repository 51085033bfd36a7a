"""Loading the firmware into a stick in boot mode."""

from __future__ import annotations

import hashlib
from array import array
from pathlib import Path
from typing import Any

import pytest
from usb.core import USBError

from edgetpu_driver import EdgeTpu
from edgetpu_driver.errors import FirmwareError
from edgetpu_driver.usb.firmware_loading import DfuState, FirmwareImage
from edgetpu_driver.virtual import VirtualEdgeTpu

CONTENT = bytes(range(256)) * 2 + b"end"
IMAGE = FirmwareImage(CONTENT, hashlib.sha256(CONTENT).hexdigest())

DOWNLOAD, UPLOAD, GET_STATUS = (0x21, 1), (0xA1, 2), (0xA1, 3)
CLEAR_STATUS, ABORT = (0x21, 4), (0x21, 6)


class DfuLog(VirtualEdgeTpu):
    """A stick in boot mode that logs its requests: (type, request, value, bytes)."""

    def __init__(self) -> None:
        super().__init__(boot_mode=True)
        self.log: list[tuple[int, int, int, bytes]] = []
        self.spoil = b""

    def ctrl_transfer(
        self,
        dev_handle: Any,
        bmRequestType: int,  # noqa: N803
        bRequest: int,  # noqa: N803
        wValue: int,  # noqa: N803
        wIndex: int,  # noqa: N803
        data: array[int],
        timeout: int,
    ) -> int:
        if bmRequestType in (0x21, 0xA1):
            sent = data.tobytes() if bmRequestType == 0x21 else b""
            self.log.append((bmRequestType, bRequest, wValue, sent))
        count = super().ctrl_transfer(dev_handle, bmRequestType, bRequest, wValue, wIndex, data, timeout)
        if (bmRequestType, bRequest) == UPLOAD and self.spoil:
            data[: len(self.spoil)] = array("B", self.spoil)
        return count


def test_the_image_goes_down_block_by_block_is_closed_by_an_empty_block_and_read_back() -> None:
    stick = DfuLog()
    EdgeTpu.open(usb_backend=stick, firmware=IMAGE).close()
    assert stick.log == [
        (*GET_STATUS, 0, b""),
        (*DOWNLOAD, 0, CONTENT[:256]),
        (*GET_STATUS, 0, b""),
        (*DOWNLOAD, 1, CONTENT[256:512]),
        (*GET_STATUS, 0, b""),
        (*DOWNLOAD, 2, b"end"),
        (*GET_STATUS, 0, b""),
        (*DOWNLOAD, 3, b""),
        (*GET_STATUS, 0, b""),
        (*UPLOAD, 0, b""),
        (*UPLOAD, 1, b""),
        (*UPLOAD, 2, b""),
    ]


def test_the_stick_returns_in_the_same_port_with_its_other_identity() -> None:
    stick = VirtualEdgeTpu(boot_mode=True, bus=3, ports=(1, 4))
    with EdgeTpu.open(usb_backend=stick, firmware=IMAGE) as tpu:
        assert tpu.info().bus_path == "3-1.4"
    (device,) = stick.enumerate_devices()
    descriptor = stick.get_device_descriptor(device)
    assert (descriptor.idVendor, descriptor.idProduct) == (0x18D1, 0x9302)


def test_without_an_image_the_error_says_where_to_get_it_and_its_digest() -> None:
    with pytest.raises(
        FirmwareError, match=r"2-1 is in boot mode.*google-coral/libedgetpu.*3b07311b174b81fd"
    ):
        EdgeTpu.open(usb_backend=VirtualEdgeTpu(boot_mode=True))


def test_an_image_with_another_digest_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "firmware.bin"
    path.write_bytes(CONTENT)
    stick = DfuLog()
    with pytest.raises(FirmwareError, match=f"this one of {len(CONTENT)} bytes has {IMAGE.sha256}"):
        EdgeTpu.open(usb_backend=stick, firmware=path)
    assert stick.log == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match=r"absent\.bin"):
        EdgeTpu.open(usb_backend=VirtualEdgeTpu(boot_mode=True), firmware=tmp_path / "absent.bin")


def test_a_stick_with_corrupted_firmware_is_not_started() -> None:
    stick = DfuLog()
    stick.spoil = b"wrong"
    with pytest.raises(FirmwareError, match="read back from the stick differs"):
        EdgeTpu.open(usb_backend=stick, firmware=IMAGE)


def test_a_stick_interrupted_during_loading_accepts_the_image() -> None:
    stick = DfuLog()
    (device,) = stick.enumerate_devices()
    handle = stick.open_device(device)
    stick.ctrl_transfer(handle, *DOWNLOAD, 0, 0, array("B", b"half an image"), 1000)
    with EdgeTpu.open(usb_backend=stick, firmware=IMAGE) as tpu:
        assert tpu.info().firmware == "1.00"


class BootLink:
    """Requests to a stick in boot mode."""

    def __init__(self) -> None:
        self.stick = VirtualEdgeTpu(boot_mode=True)
        (device,) = self.stick.enumerate_devices()
        self.handle = self.stick.open_device(device)

    def send(self, request: tuple[int, int], value: int = 0, data: bytes = b"", index: int = 0) -> None:
        self.stick.ctrl_transfer(self.handle, *request, value, index, array("B", data), 1000)

    def read(self, request: tuple[int, int], value: int = 0, size: int = 6) -> bytes:
        buffer = array("B", bytes(size))
        return buffer[: self.stick.ctrl_transfer(self.handle, *request, value, 0, buffer, 1000)].tobytes()

    def state(self) -> DfuState:
        return DfuState(self.read(GET_STATUS)[4])


def test_a_block_before_the_status_of_the_last_one_stalls() -> None:
    link = BootLink()
    link.send(DOWNLOAD, 0, b"a block")
    with pytest.raises(USBError, match="Pipe error"):
        link.send(DOWNLOAD, 1, b"another")
    assert link.state() is DfuState.ERROR


def test_firmware_whose_end_was_not_confirmed_by_a_status_does_not_start() -> None:
    link = BootLink()
    link.send(DOWNLOAD, 0, b"a block")
    assert link.state() is DfuState.DOWNLOAD_IDLE
    link.send(DOWNLOAD, 1)
    link.stick.reset_device(link.handle)
    (device,) = link.stick.enumerate_devices()
    assert link.stick.get_device_descriptor(device).idVendor == 0x1A6E


def test_only_its_own_request_clears_an_error() -> None:
    link = BootLink()
    with pytest.raises(USBError, match="Pipe error"):
        link.send(DOWNLOAD, 7, b"a block")
    with pytest.raises(USBError, match="Pipe error"):
        link.send(ABORT)
    assert link.state() is DfuState.ERROR
    link.send(CLEAR_STATUS)
    assert link.state() is DfuState.IDLE


def test_blocks_are_read_back_in_order() -> None:
    link = BootLink()
    assert len(link.read(UPLOAD, 0, 256)) == 256
    with pytest.raises(USBError, match="Pipe error"):
        link.read(UPLOAD, 2, 256)


def test_a_request_to_another_interface_stalls() -> None:
    with pytest.raises(USBError, match="Pipe error"):
        BootLink().send(DOWNLOAD, 0, b"a block", index=1)
