"""Loading the firmware into a stick in boot mode."""

from __future__ import annotations

import hashlib
from array import array
from pathlib import Path
from typing import Any

import pytest

from edgetpu_driver import EdgeTpu
from edgetpu_driver.errors import FirmwareError
from edgetpu_driver.usb.firmware import FirmwareImage
from edgetpu_driver.virtual import VirtualEdgeTpu

CONTENT = bytes(range(256)) * 2 + b"end"
IMAGE = FirmwareImage(CONTENT, hashlib.sha256(CONTENT).hexdigest())

DOWNLOAD, UPLOAD, GET_STATUS = (0x21, 1), (0xA1, 2), (0xA1, 3)


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
