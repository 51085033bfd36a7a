"""The clock of a stick that gets hot."""

from __future__ import annotations

import pytest

from edgetpu_driver.backends.backend import Readings
from edgetpu_driver.host.clock_governor import (
    COOL,
    FASTER_AFTER,
    HOT,
    SLOWER_AFTER,
    ClockGovernor,
)

NAN = float("nan")


def readings(temperature: float = NAN, *, warm: bool = False, preset: str = "high") -> Readings:
    return Readings(temperature=temperature, warm=warm, clock_preset=preset)


@pytest.fixture
def governor() -> ClockGovernor:
    governor = ClockGovernor()
    governor.opened(readings())
    return governor


@pytest.mark.parametrize("hot", [readings(HOT + 1), readings(warm=True)], ids=["hot", "warned"])
def test_a_hot_stick_is_slowed_down_step_by_step(governor: ClockGovernor, hot: Readings) -> None:
    presets = []
    for step in range(4):
        governor.update(hot, step * SLOWER_AFTER)
        governor.update(hot, (step + 0.5) * SLOWER_AFTER)
        presets.append(governor.preset)
    assert presets == ["medium", "low", "low", "low"]
    assert governor.throttled


def test_it_is_sped_up_again_when_it_has_been_cool_for_a_while(governor: ClockGovernor) -> None:
    governor.update(readings(HOT + 1), 0.0)
    governor.update(readings(COOL + 1), FASTER_AFTER)
    governor.update(readings(COOL - 1), 1.5 * FASTER_AFTER)
    assert governor.preset == "medium"
    governor.update(readings(COOL - 1), 2 * FASTER_AFTER)
    assert (governor.preset, governor.throttled) == ("high", False)
    governor.update(readings(COOL - 1), 9 * FASTER_AFTER)
    assert governor.preset == "high"


def test_a_stick_that_is_opened_anew_has_its_own_clock(governor: ClockGovernor) -> None:
    governor.update(readings(warm=True), 0.0)
    governor.opened(readings(preset="max"))
    assert (governor.preset, governor.throttled) == ("max", False)


def test_a_device_without_presets_is_left_alone() -> None:
    governor = ClockGovernor()
    governor.opened(readings(preset=""))
    governor.update(readings(warm=True, preset=""), 0.0)
    assert (governor.preset, governor.throttled) == ("", False)
