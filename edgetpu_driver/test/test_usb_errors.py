"""Messages for sticks that cannot be used: the reason and the remedy."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from usb.core import USBError

from edgetpu_driver import EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.errors import DeviceAccessError, DeviceBusyError, DeviceNotFoundError, FirmwareError
from edgetpu_driver.virtual import usb_port
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from testdata.devices.virtual_backend import FIRMWARE


class Stubborn(VirtualEdgeTpu):
    """Accepts its firmware but stays in boot mode."""

    def reset_device(self, dev_handle: Any) -> None:  # noqa: ARG002
        raise USBError("Entity not found", errno=errno.ENOENT)


def test_without_a_stick_the_message_says_to_plug_it_in() -> None:
    stick = VirtualEdgeTpu()
    stick.unplug()
    with pytest.raises(DeviceNotFoundError, match=r"no Edge TPU is on the bus; plug it in.*18d1:9302"):
        EdgeTpu.open(usb_backend=stick)


@pytest.mark.parametrize("boot_mode", [False, True])
def test_without_access_the_message_names_the_udev_rule(
    monkeypatch: pytest.MonkeyPatch, boot_mode: bool
) -> None:
    def refuse(_: Any) -> None:
        raise USBError("Access denied (insufficient permissions)", errno=errno.EACCES)

    stick = VirtualEdgeTpu(boot_mode=boot_mode)
    monkeypatch.setattr(stick, "open_device", refuse)
    says = r"opening the stick at 2-1: Access denied.*; install the udev rule 60-edgetpu\.rules"
    with pytest.raises(DeviceAccessError, match=says):
        EdgeTpu.open(usb_backend=stick, firmware=FIRMWARE)


def test_of_a_busy_stick_the_message_names_those_who_may_have_it() -> None:
    stick = VirtualEdgeTpu()
    says = "claiming the stick at 2-1: Resource busy; another process, or an open EdgeTpu of this one, has it"
    with EdgeTpu.open(usb_backend=stick), pytest.raises(DeviceBusyError, match=says):
        EdgeTpu.open(usb_backend=stick)


def test_a_stick_that_stays_in_boot_mode() -> None:
    stick = Stubborn(boot_mode=True)
    says = r"the Edge TPU at 2-1 took its firmware but stays in boot mode after 25 s; unplug it, plug it into"
    with pytest.raises(FirmwareError, match=says):
        EdgeTpu.open(usb_backend=stick, firmware=FIRMWARE)


def test_a_stick_in_boot_mode_without_an_image() -> None:
    with pytest.raises(FirmwareError, match="2-1 is in boot mode and needs its firmware: pass the path of"):
        EdgeTpu.open(usb_backend=VirtualEdgeTpu(boot_mode=True))


@pytest.mark.parametrize("fault", [Fault.BIT_ERROR, Fault.STALL, Fault.TIMEOUT, Fault.SHORT_PACKET])
def test_a_fault_while_the_firmware_is_loaded_is_got_over(fault: Fault) -> None:
    for after in range(8):
        stick = VirtualEdgeTpu(boot_mode=True)
        stick.fail(fault, Transfer.CONTROL, after)
        with EdgeTpu.open(usb_backend=stick, firmware=FIRMWARE) as tpu:
            assert tpu.info().firmware == "1.00"


def test_a_slow_stick_is_awaited_after_the_firmware_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usb_port, "time", SimpleNamespace(monotonic=lambda: 0.0))
    stick = VirtualEdgeTpu(boot_mode=True)
    stick.fail(Fault.SLOW_REENUMERATION, Transfer.RESET)
    with EdgeTpu.open(usb_backend=stick, firmware=FIRMWARE):
        assert stick.clock.monotonic() < 4
