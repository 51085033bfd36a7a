"""Bring-up and shutdown of the chip: the register sequence of the vendor's driver."""

from __future__ import annotations

from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import (
    ALL_TILES,
    AXI_CLOCK_125M,
    BOOT_FAILURE_MASK,
    FORCE_SLEEP,
    GATED_GCB,
    GCB_CLOCK_DIVIDER,
    INTERRUPT_CONTROLS,
    MBIST_MASK,
    MBIST_STATUS,
    PCIE_INACTIVE_PHY_MODE,
    PLL_LOCK_FAILURE,
    POWER_STATE,
    RUN_CONTROLS,
    THERMAL_SHUTDOWN_ENABLE,
    THERMAL_WARNING_ENABLE,
    TILE_RUN_CONTROLS,
    USB_CORE_CLOCK_250M,
    USB_INACTIVE_PHY_MODE,
    USB_SELECT_FAILURE,
    Register,
)

_SLEEP, _LEAVE_SLEEP = 3, 2  # of FORCE_SLEEP
_RUNNING, _ASLEEP = 0, 2  # of POWER_STATE
_GATED_BY_HARDWARE, _NEVER_GATED = 1, 2  # of GATED_GCB
_RUN, _HALT = 1, 2
"""Values of the engines' run control registers."""
_SLEEP_DELAYS = 0x1E02  # 30 cycles to wake, 2 to sleep
_INTERRUPT_DESCRIPTORS = 0xF0
"""Value of descr_ep: the device sends descriptors of interrupts only (0xFF: all)."""
SUPER_SPEED = 5000.0
"""Mbit/s of a USB 3 link."""


def bring_up(link: UsbLink, preset: ClockPreset) -> None:
    """Wake the chip, start its engines and enable its interrupts; parameter memory is empty afterwards."""
    link.change_register(Register.scu_ctrl_0, (PCIE_INACTIVE_PHY_MODE, 0), (USB_INACTIVE_PHY_MODE, 0))
    clock_gating = link.read_register(Register.scu_ctrl_2)
    if GATED_GCB.of(clock_gating) == _GATED_BY_HARDWARE:
        link.write_register(Register.scu_ctrl_2, GATED_GCB.put(clock_gating, _NEVER_GATED))
    _sleep(link)
    _wake(link, preset)
    link.write_register(Register.idleRegister, 1)
    _select_all_tiles(link)
    link.write_register(Register.deepSleep, _SLEEP_DELAYS)
    link.change_register(Register.scu_ctrl_2, (GATED_GCB, _GATED_BY_HARDWARE))
    link.read_register(Register.omc0_00)
    link.write_register(Register.descr_ep, _INTERRUPT_DESCRIPTORS)
    link.write_register(Register.multi_bo_ep, 0)
    link.write_register(Register.outfeed_chunk_length, _outfeed_chunk_length(link))
    _control_engines(link, _RUN)
    _set_interrupts(link, True)


def shut_down(link: UsbLink) -> None:
    """Disable the interrupts, halt all engines and put the chip to sleep; the link stays open.

    Gives up at once if the chip does not answer, so that closing never waits.
    """
    with link.impatient():
        _set_interrupts(link, False)
        _control_engines(link, _HALT)
        _sleep(link)


def _sleep(link: UsbLink) -> None:
    state = link.read_register(Register.scu_ctrl_3)
    if FORCE_SLEEP.of(state) == _SLEEP:
        return
    link.write_register(Register.scu_ctrl_3, FORCE_SLEEP.put(state, _SLEEP))
    link.poll_register(Register.scu_ctrl_3, POWER_STATE.mask, _ASLEEP << POWER_STATE.low)
    link.write_register(Register.gcbb_credit0, 0xF)
    link.write_register(Register.gcbb_credit0, 0x0)


def _wake(link: UsbLink, preset: ClockPreset) -> None:
    divider, axi, usb_core = preset.fields
    link.change_register(
        Register.scu_ctrl_3,
        (FORCE_SLEEP, _LEAVE_SLEEP),
        (GCB_CLOCK_DIVIDER, divider),
        (AXI_CLOCK_125M, axi),
        (USB_CORE_CLOCK_250M, usb_core),
    )
    link.poll_register(Register.scu_ctrl_3, POWER_STATE.mask, _RUNNING)
    link.poll_register(Register.scalarCoreRunControl, 0xFFFFFFFFFFFFFFFF, 0)


def _select_all_tiles(link: UsbLink) -> None:
    link.write_register(Register.tileconfig0, ALL_TILES)
    link.poll_register(Register.tileconfig0, 0xFFFFFFFFFFFFFFFF, ALL_TILES)


def _outfeed_chunk_length(link: UsbLink) -> int:
    """The chunk length in units of 8 bytes: 1024 bytes at SuperSpeed, 256 at High Speed (a chip erratum)."""
    return 0x80 if link.stick.link_speed >= SUPER_SPEED else 0x20


def _control_engines(link: UsbLink, command: int) -> None:
    for register in RUN_CONTROLS:
        link.write_register(register, command)
    _select_all_tiles(link)
    for register in TILE_RUN_CONTROLS:
        link.write_register(register, command)


def _set_interrupts(link: UsbLink, enabled: bool) -> None:
    on = int(enabled)
    for register in INTERRUPT_CONTROLS:
        link.write_register(register, on)
    link.change_register(Register.omc0_d4, (THERMAL_WARNING_ENABLE, on))
    link.change_register(Register.rambist_ctrl_1, (MBIST_STATUS, 0), (MBIST_MASK, 0 if enabled else 7))
    failure_mask = 0 if enabled else 3
    link.change_register(
        Register.scu_ctr_7, (PLL_LOCK_FAILURE, 0), (USB_SELECT_FAILURE, 0), (BOOT_FAILURE_MASK, failure_mask)
    )
    for register in (Register.slv_abm_en, Register.mst_abm_en):
        link.write_register(register, on)
    for register in (Register.slv_err_resp_isr_mask, Register.mst_err_resp_isr_mask):
        link.write_register(register, 3 if enabled else 0)
    link.change_register(Register.omc0_d8, (THERMAL_SHUTDOWN_ENABLE, on))
