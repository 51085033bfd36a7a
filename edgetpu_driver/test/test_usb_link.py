"""Failures of USB transfers as typed exceptions, and reads in several packets."""

from __future__ import annotations

import errno
from array import array
from collections import deque
from contextlib import closing
from typing import Any

import pytest
from usb.core import USBError

from edgetpu_driver.errors import (
    DeviceAccessError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    ProtocolError,
    TransferError,
    TransferLengthError,
    TransferStallError,
    TransferTimeoutError,
)
from edgetpu_driver.usb.discovery import find_sticks
from edgetpu_driver.usb.framing import Event, Frame, Tag
from edgetpu_driver.usb.link import Reception, UsbLink
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer


class ScriptedReads(VirtualEdgeTpu):
    """Answers bulk reads with the packets or raises the errors listed, in order."""

    def __init__(self, *answers: bytes | USBError) -> None:
        super().__init__()
        self.asked: list[int] = []
        self._answers = deque(answers)

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: array[int], timeout: int) -> int:  # noqa: ARG002
        self.asked.append(len(buff))
        answer = self._answers.popleft()
        if isinstance(answer, USBError):
            raise answer
        buff[: len(answer)] = array("B", answer)
        return len(answer)


def link_to(stick: VirtualEdgeTpu) -> closing[UsbLink]:
    return closing(UsbLink(stick, find_sticks(stick)[0]))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ETIMEDOUT, TransferTimeoutError),
        (errno.EPIPE, TransferStallError),
        (errno.EOVERFLOW, TransferLengthError),
        (errno.EIO, TransferError),
        (errno.ENODEV, DeviceLostError),
        (errno.EACCES, TransferError),
        (errno.EBUSY, TransferError),
        (None, TransferError),
    ],
)
def test_an_error_of_pyusb_becomes_one_of_ours(code: int | None, kind: type[DeviceError]) -> None:
    says = "reading 1024 bytes from endpoint 0x81: it failed"
    stick = ScriptedReads(USBError("it failed", errno=code))
    with link_to(stick) as link, pytest.raises(kind, match=says) as caught:
        link.receive(Reception(100))
    assert type(caught.value) is kind


def test_missing_access_names_the_udev_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    stick = VirtualEdgeTpu()

    def refuse(_: Any) -> None:
        raise USBError("Access denied", errno=errno.EACCES)

    monkeypatch.setattr(stick, "open_device", refuse)
    with pytest.raises(DeviceAccessError, match=r"udev rule 60-edgetpu\.rules"):
        link_to(stick)


def test_a_stick_that_another_process_holds_is_busy() -> None:
    stick = VirtualEdgeTpu()
    with link_to(stick), pytest.raises(DeviceBusyError, match="another process"):
        link_to(stick)


def test_a_read_asks_for_whole_packets() -> None:
    stick = ScriptedReads(b"12345678")
    reception = Reception(8)
    with link_to(stick) as link:
        link.receive(reception)
    assert stick.asked == [1024]
    assert reception.data.tobytes() == b"12345678"


def test_short_packets_are_put_together() -> None:
    stick = ScriptedReads(b"a" * 256, b"b" * 256, b"c" * 100)
    reception = Reception(612)
    with link_to(stick) as link:
        link.receive(reception)
    assert reception.data.tobytes() == b"a" * 256 + b"b" * 256 + b"c" * 100


def test_more_bytes_than_promised_are_an_error() -> None:
    says = "expected 8 bytes; got at least 16"
    with link_to(ScriptedReads(bytes(16))) as link, pytest.raises(TransferLengthError, match=says):
        link.receive(Reception(8))


def test_a_read_that_ends_early_is_an_error() -> None:
    says = "expected 8 bytes; got only 4"
    with link_to(ScriptedReads(bytes(4), b"")) as link, pytest.raises(TransferLengthError, match=says):
        link.receive(Reception(8))


def test_an_event_is_parsed() -> None:
    with link_to(ScriptedReads(bytes(12) + b"\x04\0\0\0")) as link:
        assert link.read_event() == Event(0, 0, Tag.INTERRUPT_0)


def test_a_short_event_is_an_error() -> None:
    says = "expected an event packet of 16 bytes; got 8"
    with link_to(ScriptedReads(bytes(8))) as link, pytest.raises(TransferLengthError, match=says):
        link.read_event()


def test_an_event_with_an_unknown_tag_is_an_error() -> None:
    stick = ScriptedReads(bytes(12) + b"\x09\0\0\0")
    with link_to(stick) as link, pytest.raises(ProtocolError, match="9"):
        link.read_event()


def test_a_frame_taken_in_part_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stick = VirtualEdgeTpu()
    monkeypatch.setattr(stick, "bulk_write", lambda *_: 5)
    with (
        link_to(stick) as link,
        pytest.raises(TransferLengthError, match="expected to send 11 bytes; sent 5"),
    ):
        link.send(Frame(Tag.INSTRUCTIONS, b"abc"))


def test_a_control_transfer_is_tried_five_times() -> None:
    stick = VirtualEdgeTpu()
    with link_to(stick) as link:
        stick.fail(Fault.STALL, Transfer.CONTROL, times=4)
        assert link.read_register(0x1A318) == 0x80050410
        stick.fail(Fault.STALL, Transfer.CONTROL, times=5)
        with pytest.raises(TransferStallError):
            link.read_register(0x1A318)


def test_the_traffic_is_counted_framing_included(monkeypatch: pytest.MonkeyPatch) -> None:
    stick = ScriptedReads(bytes(8))
    monkeypatch.setattr(stick, "bulk_write", lambda *_: 24)
    with link_to(stick) as link:
        link.send(Frame(Tag.INSTRUCTIONS, bytes(16)))
        link.receive(Reception(8))
        assert (link.traffic.sent, link.traffic.received) == (24, 8)
