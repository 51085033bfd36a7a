"""The control and status registers this driver uses: addresses, access width and bit fields."""

# ruff: noqa: N815 - the names are those of the vendor's register list
from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Register(IntEnum):
    """A register by its name in the vendor's register list; the value is its address."""

    # Tiles, all written at once through the broadcast id of tileconfig0.
    deepSleep = 0x40020
    opRunControl = 0x400C0
    wideToNarrowRunControl = 0x40110
    narrowToWideRunControl = 0x40150
    ringBusConsumer0RunControl = 0x40190
    ringBusConsumer1RunControl = 0x401D0
    ringBusProducerRunControl = 0x40210
    meshBus0RunControl = 0x40250
    meshBus1RunControl = 0x40298
    meshBus2RunControl = 0x402E0
    meshBus3RunControl = 0x40328
    Error_Tile = 0x40370
    Error_Mask_Tile = 0x40378
    Error_Info_Tile = 0x40390

    # Scalar core and its data movers.
    scMemoryCapacity = 0x44008
    tileMemoryCapacity = 0x44010
    scalarCoreRunControl = 0x44018
    currentPc = 0x44028
    avDataPopRunControl = 0x44158
    parameterPopRunControl = 0x44198
    infeedRunControl = 0x441D8
    outfeedRunControl = 0x44218
    scalarCoreRunStatus = 0x44258
    Error_ScalarCore = 0x44260
    Error_Mask_ScalarCore = 0x44268
    Error_Info_ScalarCore = 0x44280
    scalarRegisterFile = 0x44400
    """The first of 32, each 8 bytes."""
    predicateRegisterFile = 0x44500
    """The first of 8, each 8 bytes."""

    # Host interface block and USB block.
    hib_error_status = 0x486F0
    hib_error_mask = 0x486F8
    hib_first_error_status = 0x48700
    hib_first_error_timestamp = 0x48708
    page_fault_address = 0x48738
    tileconfig0 = 0x48788
    idleRegister = 0x4A000
    outfeed_chunk_length = 0x4C058
    fatal_err_int_control = 0x4C060
    fatal_err_int_status = 0x4C068
    top_level_int_0_control = 0x4C070
    top_level_int_0_status = 0x4C078
    top_level_int_1_control = 0x4C080
    top_level_int_1_status = 0x4C088
    top_level_int_2_control = 0x4C090
    top_level_int_2_status = 0x4C098
    top_level_int_3_control = 0x4C0A0
    top_level_int_3_status = 0x4C0A8
    descr_ep = 0x4C148
    ep_status_credit = 0x4C150
    multi_bo_ep = 0x4C160

    # Chip level: clocks, power, temperature, memory self-test, bus monitors. 32 bits wide.
    gcbb_credit0 = 0x1907C
    omc0_00 = 0x1A000
    omc0_d4 = 0x1A0D4
    omc0_d8 = 0x1A0D8
    omc0_dc = 0x1A0DC
    scu_ctrl_0 = 0x1A30C
    scu_ctrl_2 = 0x1A314
    scu_ctrl_3 = 0x1A318
    scu_ctr_7 = 0x1A33C
    slv_abm_en = 0x1A500
    slv_err_resp_isr_mask = 0x1A558
    mst_abm_en = 0x1A600
    mst_err_resp_isr_mask = 0x1A658
    rambist_ctrl_1 = 0x1A704


def register_width(address: int) -> int:
    """Bytes per access: 4 in the 0x1xxxx block, 8 elsewhere."""
    return 4 if address >> 16 == 1 else 8


class BitField(NamedTuple):
    """Bits [low, low + width) of a register."""

    register: Register
    low: int
    width: int = 1

    @property
    def mask(self) -> int:
        """The field's bits set, all others clear."""
        return ((1 << self.width) - 1) << self.low

    def of(self, value: int) -> int:
        """The field's value within a register value."""
        return (value & self.mask) >> self.low

    def put(self, value: int, field: int) -> int:
        """`value` with this field replaced."""
        return value & ~self.mask | field << self.low & self.mask


PCIE_INACTIVE_PHY_MODE = BitField(Register.scu_ctrl_0, 8, 3)
USB_INACTIVE_PHY_MODE = BitField(Register.scu_ctrl_0, 11, 3)
GATED_GCB = BitField(Register.scu_ctrl_2, 18, 2)
"""1: the hardware gates the chip's main clock, 2: the clock is always on."""
POWER_STATE = BitField(Register.scu_ctrl_3, 8, 2)
"""Read only. 0: running, 2: asleep."""
FORCE_SLEEP = BitField(Register.scu_ctrl_3, 22, 2)
"""3: go to sleep, 2: leave sleep."""
GCB_CLOCK_DIVIDER = BitField(Register.scu_ctrl_3, 28, 2)
"""Main clock. 0: 500 MHz, 1: 250 MHz, 2: 125 MHz, 3: 63 MHz."""
AXI_CLOCK_125M = BitField(Register.scu_ctrl_3, 30)
"""1: 125 MHz, 0: 250 MHz."""
USB_CORE_CLOCK_250M = BitField(Register.scu_ctrl_3, 31)
"""Clock of the 8051 that runs the firmware. 1: 250 MHz, 0: 500 MHz."""
PLL_LOCK_FAILURE = BitField(Register.scu_ctr_7, 16)
USB_SELECT_FAILURE = BitField(Register.scu_ctr_7, 17)
BOOT_FAILURE_MASK = BitField(Register.scu_ctr_7, 18, 2)
MBIST_STATUS = BitField(Register.rambist_ctrl_1, 16, 3)
MBIST_MASK = BitField(Register.rambist_ctrl_1, 20, 3)
THERMAL_WARNING_ENABLE = BitField(Register.omc0_d4, 31)
THERMAL_SHUTDOWN_ENABLE = BitField(Register.omc0_d8, 31)
THERMOMETER_ENABLE = BitField(Register.omc0_dc, 0)
TEMPERATURE_CODE = BitField(Register.omc0_dc, 16, 10)

ALL_TILES = 0x7F
"""Tile number in tileconfig0 that addresses all tiles."""
CREDIT_BITS = 21
"""Length of each counter in ep_status_credit, by the vendor's register description."""
RUN_CONTROLS = (
    Register.scalarCoreRunControl,
    Register.avDataPopRunControl,
    Register.parameterPopRunControl,
    Register.infeedRunControl,
    Register.outfeedRunControl,
)
TILE_RUN_CONTROLS = (
    Register.opRunControl,
    Register.narrowToWideRunControl,
    Register.wideToNarrowRunControl,
    Register.meshBus0RunControl,
    Register.meshBus1RunControl,
    Register.meshBus2RunControl,
    Register.meshBus3RunControl,
    Register.ringBusConsumer0RunControl,
    Register.ringBusConsumer1RunControl,
    Register.ringBusProducerRunControl,
)
INTERRUPT_CONTROLS = (
    Register.fatal_err_int_control,
    Register.top_level_int_0_control,
    Register.top_level_int_1_control,
    Register.top_level_int_2_control,
    Register.top_level_int_3_control,
)
DIAGNOSTIC_REGISTERS = (
    Register.hib_error_status,
    Register.hib_error_mask,
    Register.hib_first_error_status,
    Register.hib_first_error_timestamp,
    Register.page_fault_address,
    Register.fatal_err_int_status,
    Register.top_level_int_0_status,
    Register.top_level_int_1_status,
    Register.top_level_int_2_status,
    Register.top_level_int_3_status,
    Register.Error_ScalarCore,
    Register.Error_Mask_ScalarCore,
    Register.Error_Info_ScalarCore,
    Register.scalarCoreRunStatus,
    Register.currentPc,
    Register.Error_Tile,
    Register.Error_Mask_Tile,
    Register.Error_Info_Tile,
    Register.scu_ctrl_3,
    Register.scu_ctr_7,
    Register.rambist_ctrl_1,
    Register.omc0_dc,
)


def celsius(omc0_dc: int) -> float:
    """Die temperature in degrees Celsius from register omc0_dc; NaN while the thermometer is off.

    The linear fit (good for 25..100 degrees) is that of the Linux kernel's apex driver for the same chip.
    """
    if not THERMOMETER_ENABLE.of(omc0_dc):
        return float("nan")
    return (662 - TEMPERATURE_CODE.of(omc0_dc)) * 0.25 + 0.55
