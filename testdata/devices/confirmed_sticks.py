"""Sticks on which steps of `edgetpu confirm` fail, and functions that run steps on them."""

from __future__ import annotations

import errno
from array import array
from pathlib import Path
from typing import Any

from usb.core import USBError, USBTimeoutError

from edgetpu_driver.cli.confirm.all_steps import STEPS
from edgetpu_driver.cli.confirm.outcome import Outcome
from edgetpu_driver.cli.confirm.run import Course, run_steps
from edgetpu_driver.cli.confirm.step import Step
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.usb.chip_faults import QUIET_MS
from edgetpu_driver.usb.framing import HEADER
from edgetpu_driver.usb.registers import GCB_CLOCK_DIVIDER, Register
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from testdata.devices.virtual_backend import FIRMWARE

NAMES = [step.name for step in STEPS]
_VENDOR_OUT, _VENDOR_IN = 0x40, 0xC0
_EVENTS = 0x82


def step(name: str) -> Step:
    """The step of this name."""
    return STEPS[NAMES.index(name)]


def run(stick: VirtualEdgeTpu, *names: str, models: list[Path] | None = None) -> Course:
    """Run the steps with these names on a stick; without names, all steps."""
    trial = TrialStick(stick, firmware=FIRMWARE, models=models or [], simulated=True)
    return run_steps(trial, [step(name) for name in names or NAMES], lambda: None)


def outcome(stick: VirtualEdgeTpu, name: str, models: list[Path] | None = None) -> Outcome:
    """Run one step on a stick; its outcome."""
    (found,) = run(stick, name, models=models).outcomes
    return found


class Lying(VirtualEdgeTpu):
    """A stick one of whose registers reads as a given value."""

    def __init__(self, register: int, value: int, **options: Any) -> None:
        super().__init__(**options)
        self.register, self.value = register, value

    def lies(self) -> bool:
        """Whether the register is misreported now."""
        return True

    def ctrl_transfer(
        self,
        dev_handle: Any,
        bmRequestType: int,  # noqa: N803 - names of pyusb
        bRequest: int,  # noqa: N803
        wValue: int,  # noqa: N803
        wIndex: int,  # noqa: N803
        data: Any,
        timeout: int,
    ) -> int:
        """Answer a control transfer, with the wrong value for the register."""
        count = super().ctrl_transfer(dev_handle, bmRequestType, bRequest, wValue, wIndex, data, timeout)
        if bmRequestType == _VENDOR_IN and wIndex << 16 | wValue == self.register and self.lies():
            data[:count] = array("B", self.value.to_bytes(count, "little"))
        return count


class FaultyWhileWaiting(Lying):
    """A stick that reports an error while a program waits for its inputs."""

    def __init__(self) -> None:
        super().__init__(Register.hib_error_status, 2)

    def lies(self) -> bool:
        """Whether the register is misreported now."""
        return not self._chip.begins_program


class StopsWhenItsClockChanges(Lying):
    """A stick that hangs when the clock no longer has the rate of bring-up."""

    def __init__(self) -> None:
        super().__init__(Register.omc0_dc, 0)

    def lies(self) -> bool:
        """Whether the register is misreported now."""
        return False

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: Any, timeout: int) -> int:
        """Time out once the clock has changed."""
        if GCB_CLOCK_DIVIDER.of(self._chip._registers[Register.scu_ctrl_3]) != 1:
            raise USBTimeoutError("timed out", errno=errno.ETIMEDOUT)
        return super().bulk_write(dev_handle, ep, intf, data, timeout)


class TakesNoPayloadWithTheHeader(VirtualEdgeTpu):
    """A stick that needs the header of a frame in a separate transfer."""

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: Any, timeout: int) -> int:
        """Stall if a payload comes with the header."""
        begins = not self._chip._processor._stream
        if begins and len(data) > HEADER.size:
            raise USBError("Pipe error", errno=errno.EPIPE)
        return super().bulk_write(dev_handle, ep, intf, data, timeout)


class SendsLeftovers(VirtualEdgeTpu):
    """A stick with more output after the expected end."""

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: Any, timeout: int) -> int:
        """Answer even the read that checks that nothing is left."""
        if timeout == QUIET_MS:
            return len(buff)
        return super().bulk_read(dev_handle, ep, intf, buff, timeout)


class NeverQuiet(VirtualEdgeTpu):
    """A stick that loses the event at the end of a program whose output was not read."""

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: Any, timeout: int) -> int:
        """Read, but never that event."""
        if timeout == QUIET_MS and ep == _EVENTS:
            raise USBTimeoutError("timed out", errno=errno.ETIMEDOUT)
        return super().bulk_read(dev_handle, ep, intf, buff, timeout)


class Slow(VirtualEdgeTpu):
    """A stick on which each transfer from the host takes 5 ms longer."""

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: Any, timeout: int) -> int:
        """Write, 5 ms late."""
        self.clock.sleep(5e-3)
        return super().bulk_write(dev_handle, ep, intf, data, timeout)


class AlwaysWarns(VirtualEdgeTpu):
    """A stick whose thermal warning cannot be acknowledged."""

    def intr_read(self, dev_handle: Any, ep: int, intf: int, buff: Any, timeout: int) -> int:
        """Warn, then read the interrupt."""
        self.warn_of_heat()
        return super().intr_read(dev_handle, ep, intf, buff, timeout)


class ComesBackElsewhere(VirtualEdgeTpu):
    """A stick that is at another port once it runs its firmware."""

    def get_device_descriptor(self, dev: Any) -> Any:
        """The descriptor, with the present port."""
        descriptor = super().get_device_descriptor(dev)
        if not self._chip.boot_mode:
            descriptor.port_numbers = (4,)
        return descriptor


def failing(fault: Fault, on: Transfer, after: int = 0, *, boot_mode: bool = False) -> VirtualEdgeTpu:
    """A stick whose transfers of one kind fail after the first `after` of them."""
    stick = VirtualEdgeTpu(boot_mode=boot_mode)
    stick.fail(fault, on, after, times=1000)
    return stick


class DoesNotComeBack(SendsLeftovers):
    """A stick that does not come back after the reset that follows the first failed step."""

    resets = 0

    def reset_device(self, dev_handle: Any) -> None:
        """Reset; after the second one the stick is gone."""
        self.resets += 1
        if self.resets > 1:
            self.unplug()
        super().reset_device(dev_handle)


class InterruptedInAStep(VirtualEdgeTpu):
    """A stick during whose check for leftovers the user presses Ctrl-C."""

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: Any, timeout: int) -> int:
        """Read, or be interrupted."""
        if timeout == QUIET_MS:
            raise KeyboardInterrupt
        return super().bulk_read(dev_handle, ep, intf, buff, timeout)


class PulledOutAndInterrupted(StopsWhenItsClockChanges):
    """A stick that the user pulls out at the first transfer with another clock, and then presses Ctrl-C."""

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: Any, timeout: int) -> int:
        """Write, or be interrupted."""
        try:
            return super().bulk_write(dev_handle, ep, intf, data, timeout)
        except USBTimeoutError:
            self.unplug()
            raise KeyboardInterrupt from None


class InterruptedInItsRecovery(SendsLeftovers):
    """A stick during whose reset after a failed step the user presses Ctrl-C."""

    resets = 0

    def reset_device(self, dev_handle: Any) -> None:
        """Reset, or be interrupted."""
        self.resets += 1
        if self.resets > 1:
            raise KeyboardInterrupt
        super().reset_device(dev_handle)


class InterruptedWhileClosing(VirtualEdgeTpu):
    """A stick during whose closing, its second release after that of its reset, the user presses Ctrl-C."""

    releases = 0

    def release_interface(self, dev_handle: Any, intf: int) -> None:
        """Release it, or be interrupted."""
        self.releases += 1
        if self.releases == 2:
            raise KeyboardInterrupt
        super().release_interface(dev_handle, intf)
