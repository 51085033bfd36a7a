"""Register addresses, access width, bit fields and the thermometer."""

from __future__ import annotations

import hashlib
import math

import pytest

from edgetpu_driver.usb.registers import (
    GCB_CLOCK_DIVIDER,
    POWER_STATE,
    USB_INACTIVE_PHY_MODE,
    Register,
    celsius,
    register_width,
)

BUS_MONITOR_MASKS = {"slv_err_resp_isr_mask", "mst_err_resp_isr_mask"}
"""Registers that the list lacks."""

COMPARED_REGISTERS = "33cc074283214154b2d4d1245ccf1a70a31944c22b2dfe056d8b9820681fe830"
"""SHA-256 of "address,name" lines, each of which the vendor's register list has."""


def test_addresses_are_those_that_were_compared_with_the_vendors_register_list() -> None:
    compared = sorted((int(each), each.name) for each in Register if each.name not in BUS_MONITOR_MASKS)
    lines = "".join(f"{address:#x},{name}\n" for address, name in compared)
    assert hashlib.sha256(lines.encode()).hexdigest() == COMPARED_REGISTERS


@pytest.mark.parametrize(("address", "width"), [(0x1A30C, 4), (0x1907C, 4), (0x44018, 8), (0x4C060, 8)])
def test_only_the_block_at_0x10000_is_32_bits_wide(address: int, width: int) -> None:
    assert register_width(address) == width


def test_a_field_is_read_from_its_bits() -> None:
    assert GCB_CLOCK_DIVIDER.of(0x5085025C) == 1
    assert POWER_STATE.of(0x5085025C) == 2


def test_a_field_is_replaced_and_the_rest_kept() -> None:
    assert USB_INACTIVE_PHY_MODE.put(0xFFFFFFFF, 0b010) == 0xFFFFD7FF


def test_temperature_follows_the_linear_fit_of_the_kernels_driver() -> None:
    assert celsius(662 << 16 | 1) == 0.55
    assert celsius(504 << 16 | 1) == 40.05


def test_temperature_is_nan_while_the_thermometer_is_off() -> None:
    assert math.isnan(celsius(504 << 16))
