"""The debugging registers of the scalar core: run, halt, single-step, and the state of its registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from edgetpu_driver.darwinn.instructions.scalar_core import PREDICATES, REGISTERS
from edgetpu_driver.errors import ProtocolError
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import Register

_RUN, _HALT, _SINGLE_STEP = 1, 2, 3
"""Values of the register scalarCoreRunControl."""
_REGISTER_BYTES = 8
"""Distance between two scalar registers in the address space, bytes, as between all 64-bit registers."""
_ENDED_STEP_SECONDS = 0.5
"""Seconds to wait for the core to halt or to finish a step, which takes some cycles; the same as
POLL_SECONDS of the link."""
_POLL_SECONDS = 0.001
"""Seconds between two readings of the status."""


class RunStatus(IntEnum):
    """The state of the scalar core: values of the register scalarCoreRunStatus."""

    IDLE = 0
    RUN = 1
    SINGLE_STEP = 2
    HALTING = 3
    HALTED = 4


@dataclass(frozen=True)
class CoreState:
    """The state of the scalar core, as its registers show it."""

    run_status: int
    """A RunStatus, or the number itself if it is not a known one."""
    program_counter: int
    """Value of the register currentPc; its unit is not documented. The virtual stick counts words."""
    registers: tuple[int, ...]
    """The 32 scalar registers as read, 64 bits each; the lower 32 bits are the core's own."""
    predicates: tuple[int, ...]
    """The 8 predicates, as read."""

    @property
    def status_name(self) -> str:
        """The name of the status, or its number."""
        try:
            return RunStatus(self.run_status).name
        except ValueError:
            return str(self.run_status)


def read_core(link: UsbLink) -> CoreState:
    """Read the registers of the core; they are consistent only while it is halted."""
    return CoreState(
        run_status=link.read_register(Register.scalarCoreRunStatus),
        program_counter=link.read_register(Register.currentPc),
        registers=_file(link, Register.scalarRegisterFile, REGISTERS),
        predicates=_file(link, Register.predicateRegisterFile, PREDICATES),
    )


def _file(link: UsbLink, first: int, count: int) -> tuple[int, ...]:
    return tuple(link.read_register(first + _REGISTER_BYTES * number) for number in range(count))


def run(link: UsbLink) -> None:
    """Let the core run."""
    link.write_register(Register.scalarCoreRunControl, _RUN)


def single_step(link: UsbLink) -> None:
    """Let the core execute one instruction; ProtocolError if that does not end."""
    link.write_register(Register.scalarCoreRunControl, _SINGLE_STEP)
    _await_status(link, (RunStatus.HALTED, RunStatus.SINGLE_STEP))


def halt(link: UsbLink) -> None:
    """Halt the core wherever it is; ProtocolError if it does not halt."""
    link.write_register(Register.scalarCoreRunControl, _HALT)
    _await_status(link, (RunStatus.HALTED,))


def _await_status(link: UsbLink, wanted: Sequence[RunStatus]) -> None:
    end = link.clock.monotonic() + _ENDED_STEP_SECONDS
    while (status := link.read_register(Register.scalarCoreRunStatus)) not in wanted:
        if link.clock.monotonic() >= end:
            names = " or ".join(each.name for each in wanted)
            raise ProtocolError(
                f"expected the core to become {names} within {_ENDED_STEP_SECONDS:g} s; "
                f"its status is {status}"
            )
        link.clock.sleep(_POLL_SECONDS)
