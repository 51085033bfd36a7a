"""The register sequences of bring-up and shutdown, as the vendor's driver issues them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from edgetpu_driver.errors import ProtocolError
from edgetpu_driver.usb.chip_bringup import bring_up, shut_down
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.discovery import find_sticks
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import Register
from edgetpu_driver.virtual import VirtualEdgeTpu


class RegisterLog(VirtualEdgeTpu):
    """A virtual stick that logs register accesses: ("R", address) and ("W", address, value)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.log: list[tuple[Any, ...]] = []

    def ctrl_transfer(
        self,
        dev_handle: Any,
        bmRequestType: int,  # noqa: N803
        bRequest: int,  # noqa: N803
        wValue: int,  # noqa: N803
        wIndex: int,  # noqa: N803
        data: array[int],
        timeout: int,
    ) -> int:
        address = wIndex << 16 | wValue
        if bmRequestType == 0x40:
            self.log.append(("W", address, int.from_bytes(data.tobytes(), "little")))
        elif bmRequestType == 0xC0:
            self.log.append(("R", address))
        return super().ctrl_transfer(dev_handle, bmRequestType, bRequest, wValue, wIndex, data, timeout)


SLEEP = [
    ("R", 0x1A318),
    ("W", 0x1A318, 0x80C50410),  # force sleep; clocks and delays as they are
    ("R", 0x1A318),  # asleep?
    ("W", 0x1907C, 0xF),
    ("W", 0x1907C, 0x0),
]
TILES = [("W", 0x48788, 0x7F), ("R", 0x48788)]
RUN_CONTROLS = (0x44018, 0x44158, 0x44198, 0x441D8, 0x44218)
TILE_RUN_CONTROLS = (
    *(0x400C0, 0x40150, 0x40110),
    *(0x40250, 0x40298, 0x402E0, 0x40328),
    *(0x40190, 0x401D0, 0x40210),
)
INTERRUPT_CONTROLS = (0x4C060, 0x4C070, 0x4C080, 0x4C090, 0x4C0A0)


def run_controls(value: int) -> list[tuple[Any, ...]]:
    scalar = [("W", address, value) for address in RUN_CONTROLS]
    return [*scalar, *TILES, *(("W", address, value) for address in TILE_RUN_CONTROLS)]


def expected_bring_up(outfeed_chunk_length: int) -> list[tuple[Any, ...]]:
    return [
        *(("R", 0x1A30C), ("W", 0x1A30C, 0)),
        ("R", 0x1A314),
        *SLEEP,
        *(("R", 0x1A318), ("W", 0x1A318, 0x50850610)),  # leave sleep, clocks of the preset high
        *(("R", 0x1A318), ("R", 0x44018)),
        ("W", 0x4A000, 1),
        *TILES,
        ("W", 0x40020, 0x1E02),
        *(("R", 0x1A314), ("W", 0x1A314, 1 << 18)),
        ("R", 0x1A000),
        ("W", 0x4C148, 0xF0),
        ("W", 0x4C160, 0),
        ("W", 0x4C058, outfeed_chunk_length),
        *run_controls(1),
        *(("W", address, 1) for address in INTERRUPT_CONTROLS),
        *(("R", 0x1A0D4), ("W", 0x1A0D4, 1 << 31)),
        *(("R", 0x1A704), ("W", 0x1A704, 0)),
        *(("R", 0x1A33C), ("W", 0x1A33C, 0x3F)),
        *(("W", 0x1A500, 1), ("W", 0x1A600, 1), ("W", 0x1A558, 3), ("W", 0x1A658, 3)),
        *(("R", 0x1A0D8), ("W", 0x1A0D8, 1 << 31)),
    ]


SHUT_DOWN = [
    *(("W", address, 0) for address in INTERRUPT_CONTROLS),
    *(("R", 0x1A0D4), ("W", 0x1A0D4, 0)),
    *(("R", 0x1A704), ("W", 0x1A704, 7 << 20)),
    *(("R", 0x1A33C), ("W", 0x1A33C, 0xC003F)),
    *(("W", 0x1A500, 0), ("W", 0x1A600, 0), ("W", 0x1A558, 0), ("W", 0x1A658, 0)),
    *(("R", 0x1A0D8), ("W", 0x1A0D8, 0)),
    *run_controls(2),
    ("R", 0x1A318),
    ("W", 0x1A318, 0x50C50410),
    ("R", 0x1A318),
    ("W", 0x1907C, 0xF),
    ("W", 0x1907C, 0x0),
]


@contextmanager
def opened(stick: RegisterLog) -> Iterator[UsbLink]:
    """A link to a stick that runs its firmware and has just been reset."""
    with closing(UsbLink(stick, find_sticks(stick)[0])) as link:
        yield link


def test_bring_up_at_super_speed_issues_the_vendors_sequence() -> None:
    stick = RegisterLog()
    with opened(stick) as link:
        bring_up(link, ClockPreset.HIGH)
    assert stick.log == expected_bring_up(outfeed_chunk_length=0x80)


def test_bring_up_at_high_speed_asks_for_outputs_in_chunks_of_256_bytes() -> None:
    stick = RegisterLog(speed="high")
    with opened(stick) as link:
        bring_up(link, ClockPreset.HIGH)
    assert stick.log == expected_bring_up(outfeed_chunk_length=0x20)


def test_shutdown_disables_interrupts_halts_the_engines_and_puts_the_chip_to_sleep() -> None:
    stick = RegisterLog()
    with opened(stick) as link:
        bring_up(link, ClockPreset.HIGH)
        stick.log.clear()
        shut_down(link)
    assert stick.log == SHUT_DOWN


@pytest.mark.parametrize(
    ("preset", "clock_bits"),
    [
        (ClockPreset.LOW, 0b1111),  # 8051 at 250 MHz, AXI at 125 MHz, main clock at 63 MHz
        (ClockPreset.MEDIUM, 0b0110),
        (ClockPreset.HIGH, 0b0101),
        (ClockPreset.MAX, 0b0000),
    ],
)
def test_a_preset_sets_the_three_clock_fields(preset: ClockPreset, clock_bits: int) -> None:
    stick = RegisterLog()
    with opened(stick) as link:
        bring_up(link, preset)
    written = [entry[2] for entry in stick.log if entry[:2] == ("W", 0x1A318)]
    assert written[-1] >> 28 == clock_bits


def test_hardware_clock_gating_is_switched_off_first() -> None:
    stick = RegisterLog()
    with opened(stick) as link:
        link.write_register(0x1A314, 1 << 18)
        stick.log.clear()
        bring_up(link, ClockPreset.HIGH)
    assert stick.log[2:4] == [("R", 0x1A314), ("W", 0x1A314, 2 << 18)]


def test_a_chip_that_sleeps_already_is_only_woken() -> None:
    stick = RegisterLog()
    with opened(stick) as link:
        bring_up(link, ClockPreset.HIGH)
        shut_down(link)
        stick.log.clear()
        bring_up(link, ClockPreset.HIGH)
    assert ("W", 0x1907C, 0xF) not in stick.log
    assert stick.log[-1] == ("W", 0x1A0D8, 1 << 31)


def test_a_register_that_times_out_is_named() -> None:
    with opened(RegisterLog()) as link:
        link.write_register(0x44018, 1)
        with pytest.raises(ProtocolError, match=r"scalarCoreRunControl .* become 0x0 .* 0x1"):
            link.poll_register(Register.scalarCoreRunControl, 0xFFFFFFFF, 0)
