"""The virtual Edge TPU as a USB device: descriptors, handles, registers, faults."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import usb.core

from edgetpu_driver.usb.registers import Register
from edgetpu_driver.virtual import VirtualEdgeTpu, usb_port
from edgetpu_driver.virtual.bus import VirtualBus
from edgetpu_driver.virtual.fault_injection import Fault, FaultScript, Transfer
from edgetpu_driver.virtual.simulated_registers import RegisterFile


def found(stick: VirtualEdgeTpu | VirtualBus) -> usb.core.Device:
    return usb.core.find(backend=stick, idVendor=0x18D1, idProduct=0x9302)


def test_pyusb_finds_it_with_its_interface_and_endpoints() -> None:
    device = found(VirtualEdgeTpu(bus=2, ports=(1, 3), serial="A1"))
    endpoints = [endpoint.bEndpointAddress for endpoint in device[0][(0, 0)]]
    assert (device.bus, device.port_numbers, device.serial_number) == (2, (1, 3), "A1")
    assert endpoints == [0x01, 0x81, 0x82, 0x83]


def test_pyusb_reads_and_writes_registers() -> None:
    device = found(VirtualEdgeTpu())
    assert device.ctrl_transfer(0xC0, 1, 0xA318, 0x1, 4).tobytes() == b"\x10\x04\x05\x80"
    assert device.ctrl_transfer(0x40, 0, 0x8788, 0x4, b"\x7f" + bytes(7)) == 8
    assert device.ctrl_transfer(0xC0, 0, 0x8788, 0x4, 8).tobytes() == b"\x7f" + bytes(7)


@pytest.mark.parametrize(("request_number", "size"), [(0, 4), (1, 8), (0, 8)])
def test_a_register_access_of_the_wrong_width_stalls(request_number: int, size: int) -> None:
    with pytest.raises(usb.core.USBError, match="Pipe error"):
        found(VirtualEdgeTpu()).ctrl_transfer(0xC0, request_number, 0xA318, 0x1, size)


def test_pyusb_sees_all_sticks_of_a_bus() -> None:
    bus = VirtualBus(VirtualEdgeTpu(ports=(1,)), VirtualEdgeTpu(ports=(2,), boot_mode=True))
    devices = usb.core.find(find_all=True, backend=bus)
    assert [(device.port_number, hex(device.idVendor)) for device in devices] == [
        (1, "0x18d1"),
        (2, "0x1a6e"),
    ]


def test_a_device_found_before_it_was_plugged_in_again_is_gone() -> None:
    stick = VirtualEdgeTpu()
    device = found(stick)
    stick.unplug()
    stick.plug()
    with pytest.raises(usb.core.USBError, match="No such device"):
        device.ctrl_transfer(0xC0, 1, 0xA318, 0x1, 4)


def test_sleep_disables_and_clears_the_64_bit_registers() -> None:
    registers = RegisterFile(celsius=40.0)
    registers.write(Register.scalarCoreRunControl, 1)
    registers.write(Register.scu_ctrl_3, 3 << 22)
    assert (registers.asleep, registers.read(Register.scalarCoreRunControl)) == (True, None)
    registers.write(Register.scu_ctrl_3, 2 << 22)
    assert (registers.asleep, registers.read(Register.scalarCoreRunControl)) == (False, 0)


def test_the_power_state_cannot_be_written() -> None:
    registers = RegisterFile(celsius=40.0)
    registers.write(Register.scu_ctrl_3, 0x300)
    assert registers.read(Register.scu_ctrl_3) == 0


def test_run_control_shows_in_run_status() -> None:
    registers = RegisterFile(celsius=40.0)
    registers.write(Register.scalarCoreRunControl, 2)
    assert registers.read(Register.scalarCoreRunStatus) == 4


def test_tiles_are_reached_through_the_broadcast_id_only() -> None:
    registers = RegisterFile(celsius=40.0)
    registers.write(Register.opRunControl, 1)
    assert registers.read(Register.opRunControl) == 0
    registers.write(Register.tileconfig0, 0x7F)
    registers.write(Register.opRunControl, 1)
    assert registers.read(Register.opRunControl) == 1


def test_a_fault_strikes_after_the_given_transfers_and_the_given_number_of_times() -> None:
    script = FaultScript()
    script.add(Fault.STALL, Transfer.EVENT, after=1, times=2)
    assert [script.strike(Transfer.EVENT) for _ in range(4)] == [None, Fault.STALL, Fault.STALL, None]
    assert script.strike(Transfer.OUTPUT) is None


def test_a_wrong_event_cannot_strike_a_write() -> None:
    with pytest.raises(ValueError, match="WRONG_EVENT cannot occur in BULK_OUT transfers"):
        FaultScript().add(Fault.WRONG_EVENT, Transfer.BULK_OUT)


def test_a_slow_stick_appears_though_nothing_moves_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(usb_port, "time", SimpleNamespace(monotonic=lambda: now))
    stick = VirtualEdgeTpu()
    stick.unplug()
    stick.plug(after=1.5)
    assert list(stick.enumerate_devices()) == []
    now += 1.4
    assert list(stick.enumerate_devices()) == []
    now += 0.2
    assert len(list(stick.enumerate_devices())) == 1
