"""The clock rates of the chip."""

from __future__ import annotations

from enum import Enum

from edgetpu_driver.errors import InputError
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import GCB_CLOCK_DIVIDER, Register


class ClockPreset(Enum):
    """Clock rates of the chip; higher rates make it hotter."""

    LOW = "low"
    """Main clock 63 MHz, AXI 125 MHz, USB core 250 MHz."""
    MEDIUM = "medium"
    """125, 125 and 500 MHz."""
    HIGH = "high"
    """250, 125 and 500 MHz: the vendor's standard."""
    MAX = "max"
    """500, 250 and 500 MHz."""

    @property
    def fields(self) -> tuple[int, int, int]:
        """Values of GCB_CLOCK_DIVIDER, AXI_CLOCK_125M and USB_CORE_CLOCK_250M."""
        return _FIELDS[self]


_FIELDS = {
    ClockPreset.LOW: (3, 1, 1),
    ClockPreset.MEDIUM: (2, 1, 0),
    ClockPreset.HIGH: (1, 1, 0),
    ClockPreset.MAX: (0, 0, 0),
}


def clock_preset(preset: ClockPreset | str) -> ClockPreset:
    """The preset of that name; InputError if there is none."""
    try:
        return ClockPreset(preset)
    except ValueError:
        names = ", ".join(each.value for each in ClockPreset)
        raise InputError(f"expected a clock preset of {names}; got {preset}") from None


def set_clock(link: UsbLink, preset: ClockPreset) -> None:
    """Change the main clock of a chip that is running; the other clocks stay."""
    link.change_register(Register.scu_ctrl_3, (GCB_CLOCK_DIVIDER, preset.fields[0]))
