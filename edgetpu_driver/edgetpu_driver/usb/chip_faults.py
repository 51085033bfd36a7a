"""Diagnoses faults of the chip: interrupt words, error registers, unread output."""

from __future__ import annotations

from enum import IntFlag

from edgetpu_driver.errors import ChipFaultError, DeviceError
from edgetpu_driver.usb.framing import Tag
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import Register

QUIET_MS = 20
"""Milliseconds without data after which a bulk endpoint counts as drained: many times a transfer's 0.1 ms."""

_PROMPT_MS = 1
"""Milliseconds to wait for a pending interrupt word, which arrives at once."""
_MAX_WORDS = 16
"""Maximum number of interrupt words to read, in case a device never stops sending them."""
_MAX_DRAINED_PACKETS = 4096
"""Maximum number of reads of pending output, for the same reason."""
_MAX_DRAINED_EVENTS = 64
"""Maximum number of events to read, for the same reason."""


class Interrupt(IntFlag):
    """Bits of the interrupt word on endpoint 0x83 (vendor driver)."""

    FATAL_ERROR = 1
    THERMAL_SHUTDOWN = 2
    PCIE_ERROR = 4
    MEMORY_TEST_FAILURE = 8
    THERMAL_WARNING = 16


_STATUS_REGISTERS = {
    Interrupt.FATAL_ERROR: Register.fatal_err_int_status,
    Interrupt.THERMAL_SHUTDOWN: Register.top_level_int_0_status,
    Interrupt.PCIE_ERROR: Register.top_level_int_1_status,
    Interrupt.MEMORY_TEST_FAILURE: Register.top_level_int_2_status,
    Interrupt.THERMAL_WARNING: Register.top_level_int_3_status,
}
ERROR_REGISTERS = (
    Register.hib_error_status,
    Register.Error_ScalarCore,
    Register.Error_Tile,
)
"""Nonzero after a fatal error: the chip has stopped."""
_CIRCUMSTANCES = (
    Register.hib_first_error_status,
    Register.hib_first_error_timestamp,
    Register.page_fault_address,
    Register.Error_Info_ScalarCore,
    Register.Error_Info_Tile,
    Register.scalarCoreRunStatus,
    Register.currentPc,
)


def take_interrupts(link: UsbLink) -> Interrupt:
    """Read and acknowledge pending interrupts; those returned are warnings.

    Raises ChipFaultError if one reports that the chip has stopped.
    """
    interrupts = _pending(link)
    if interrupts & ~Interrupt.THERMAL_WARNING:
        raise chip_fault(link, interrupts) or ChipFaultError(_message(interrupts, {}))
    for interrupt, register in _STATUS_REGISTERS.items():
        if interrupt in interrupts:
            link.write_register(register, 0)
    return interrupts


def chip_fault(link: UsbLink, interrupts: Interrupt | None = None) -> ChipFaultError | None:
    """The fatal error reported by the chip, with its error registers; None if there is none.

    interrupts: those already read. Never raises: a chip that does not answer reports nothing.
    """
    values: dict[Register, int] = {}
    with link.impatient():
        try:
            interrupts = _pending(link) if interrupts is None else interrupts
            values = {register: link.read_register(register) for register in ERROR_REGISTERS}
            if any(values.values()):
                values |= {register: link.read_register(register) for register in _CIRCUMSTANCES}
        except DeviceError:
            pass
    fatal = (interrupts or Interrupt(0)) & ~Interrupt.THERMAL_WARNING
    if not fatal and not any(values.values()):
        return None
    return ChipFaultError(_message(fatal, values))


def drain(link: UsbLink) -> bool:
    """Discard the remaining output of the last program; returns whether the program ended.

    A program ends with interrupt 0. If both endpoints are idle after that event, none of its data can reach a
    later request. Raises DeviceError.
    """
    if not _drain_activations(link):
        return False
    ends = 0
    for _ in range(_MAX_DRAINED_EVENTS):
        event = link.poll_event(QUIET_MS)
        if event is None:
            return ends == 1 and _drain_activations(link)
        ends += event.tag is Tag.INTERRUPT_0
    return False


def _drain_activations(link: UsbLink) -> bool:
    """Whether the endpoint became idle."""
    return any(not link.discard_activations(QUIET_MS) for _ in range(_MAX_DRAINED_PACKETS))


def _pending(link: UsbLink) -> Interrupt:
    pending = Interrupt(0)
    for _ in range(_MAX_WORDS):
        word = link.poll_interrupt(_PROMPT_MS)
        if word is None:
            break
        pending |= Interrupt(word & sum(Interrupt))
    return pending


def _message(interrupts: Interrupt, values: dict[Register, int]) -> str:
    reports = [interrupt.name or "" for interrupt in Interrupt if interrupt in interrupts]
    reports += [f"{register.name} {value:#x}" for register, value in values.items() if value]
    hint = "; let the stick cool down" if Interrupt.THERMAL_SHUTDOWN in interrupts else ""
    return f"the chip stopped and reports {', '.join(reports)}{hint}"
