"""The registers of a virtual Edge TPU: reset values and the effects of writes."""

from __future__ import annotations

from edgetpu_driver.usb.chip_faults import Interrupt
from edgetpu_driver.usb.registers import (
    ALL_TILES,
    FORCE_SLEEP,
    MBIST_STATUS,
    PLL_LOCK_FAILURE,
    POWER_STATE,
    RUN_CONTROLS,
    TEMPERATURE_CODE,
    THERMOMETER_ENABLE,
    TILE_RUN_CONTROLS,
    USB_SELECT_FAILURE,
    Register,
    register_width,
)

_FORCED_ASLEEP, _FORCED_AWAKE = 3, 2
"""Values of FORCE_SLEEP."""
_RUNNING, _ASLEEP = 0, 2
"""Values of POWER_STATE."""
_RUN_STATUS = {0: 0, 1: 1, 2: 4, 3: 2}
"""Run control (idle, run, halt, single step) to run status (idle, run, halted, single step)."""
_ENGINES = tuple({*RUN_CONTROLS, *TILE_RUN_CONTROLS} - {Register.scalarCoreRunControl})
"""Run controls of the units that accept frames, besides the scalar core."""
_INTERRUPTS = {
    # control, status
    Interrupt.FATAL_ERROR: (Register.fatal_err_int_control, Register.fatal_err_int_status),
    Interrupt.THERMAL_SHUTDOWN: (Register.top_level_int_0_control, Register.top_level_int_0_status),
    Interrupt.PCIE_ERROR: (Register.top_level_int_1_control, Register.top_level_int_1_status),
    Interrupt.MEMORY_TEST_FAILURE: (Register.top_level_int_2_control, Register.top_level_int_2_status),
    Interrupt.THERMAL_WARNING: (Register.top_level_int_3_control, Register.top_level_int_3_status),
}
_INTERRUPT_STATUS = frozenset(status for _, status in _INTERRUPTS.values())
_FATAL_HIB_ERROR, _STOPPED_AT = 0x2, 0x40
"""Values of registers after a simulated fatal error: an arbitrary error and address."""
_READ_ONLY = frozenset(
    (
        Register.scalarCoreRunStatus,
        Register.currentPc,
        Register.ep_status_credit,
        Register.hib_first_error_status,
        Register.hib_first_error_timestamp,
        Register.page_fault_address,
        Register.omc0_00,
    )
)
_CLEARED_BY_WRITING_1 = {
    Register.scu_ctr_7: PLL_LOCK_FAILURE.mask | USB_SELECT_FAILURE.mask,
    Register.rambist_ctrl_1: MBIST_STATUS.mask,
}
_RESET_VALUES: dict[int, int] = {
    Register.scu_ctrl_3: 0x80050410,
    Register.scu_ctr_7: 0x3F,
    Register.outfeed_chunk_length: 0x80,
}


class RegisterFile:
    """Register values by address. A sleeping chip does not answer accesses to 64-bit registers (None)."""

    def __init__(self, celsius: float) -> None:
        self._celsius = celsius
        self._values: dict[int, int] = {}
        self._takes_work: bool | None = None
        """See `takes_work`; None after a change."""
        self.reset()

    def reset(self) -> None:
        """Restore the power-on values."""
        self._takes_work = None
        thermometer = TEMPERATURE_CODE.put(0, round(662 - (self._celsius - 0.55) * 4))
        self._values = {
            **_RESET_VALUES,
            Register.omc0_dc: THERMOMETER_ENABLE.put(thermometer, 1),
        }

    def raise_interrupt(self, interrupt: Interrupt) -> bool:
        """Record an interrupt in its status; returns whether the host enabled it."""
        control, status = _INTERRUPTS[interrupt]
        self._values[status] = 1
        return self[control] == 1

    def set_error(self) -> None:
        """Set the registers as after a fatal error of the host interface block."""
        self._values[Register.hib_error_status] = _FATAL_HIB_ERROR
        self._values[Register.hib_first_error_status] = _FATAL_HIB_ERROR
        self._values[Register.currentPc] = _STOPPED_AT
        self._values[Register.scalarCoreRunStatus] = _RUN_STATUS[2]

    def __getitem__(self, register: Register) -> int:
        return self._values.get(register, 0)

    def read(self, address: int) -> int | None:
        """Value read by the host; None if there is no answer."""
        return None if self._out_of_reach(address) else self._values.get(address, 0)

    def write(self, address: int, value: int) -> bool:
        """Apply a write by the host; False if there is no answer."""
        if self._out_of_reach(address):
            return False
        if address in _READ_ONLY:
            return True
        self._takes_work = None
        if address in _INTERRUPT_STATUS:
            value &= self._values.get(address, 0)
        elif address in _CLEARED_BY_WRITING_1:
            status = _CLEARED_BY_WRITING_1[Register(address)]
            value = value & ~status | self._values.get(address, 0) & status & ~value
        elif address == Register.scu_ctrl_3:
            value = self._change_power(value)
        elif address in TILE_RUN_CONTROLS and self[Register.tileconfig0] != ALL_TILES:
            return True
        elif address == Register.scalarCoreRunControl:
            self._values[Register.scalarCoreRunStatus] = _RUN_STATUS.get(value, 0)
        self._values[address] = value
        return True

    @property
    def asleep(self) -> bool:
        """Whether the chip's memories are powered down."""
        return POWER_STATE.of(self[Register.scu_ctrl_3]) == _ASLEEP

    @property
    def takes_work(self) -> bool:
        """Whether all units that accept frames are enabled; the scalar core may be halted."""
        if self._takes_work is None:
            started = self[Register.scalarCoreRunControl]
            self._takes_work = (
                not self.asleep
                and started != 0
                and started in _RUN_STATUS
                and all(self[register] == 1 for register in _ENGINES)
            )
        return self._takes_work

    def _out_of_reach(self, address: int) -> bool:
        return self.asleep and register_width(address) == 8

    def _change_power(self, value: int) -> int:
        state = POWER_STATE.of(self[Register.scu_ctrl_3])
        if FORCE_SLEEP.of(value) == _FORCED_ASLEEP and state != _ASLEEP:
            state = _ASLEEP
            self._values = {
                address: kept for address, kept in self._values.items() if register_width(address) == 4
            }
        elif FORCE_SLEEP.of(value) == _FORCED_AWAKE:
            state = _RUNNING
        return POWER_STATE.put(value, state)
