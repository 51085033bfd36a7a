"""The clock of a stick that gets hot."""

from __future__ import annotations

import pytest

from edgetpu_driver.backends.backend import Readings
from edgetpu_driver.host.sticks.thermal_throttle import (
    COOL,
    FASTER_AFTER,
    HOT,
    SLOWER_AFTER,
    ThermalThrottle,
)

NAN = float("nan")


def readings(temperature: float = NAN, *, warm: bool = False, preset: str = "high") -> Readings:
    return Readings(temperature=temperature, warm=warm, clock_preset=preset)


@pytest.fixture
def throttle() -> ThermalThrottle:
    throttle = ThermalThrottle()
    throttle.opened(readings())
    return throttle


@pytest.mark.parametrize("hot", [readings(HOT + 1), readings(warm=True)], ids=["hot", "warned"])
def test_a_hot_stick_is_slowed_down_step_by_step(throttle: ThermalThrottle, hot: Readings) -> None:
    presets = []
    for step in range(4):
        throttle.update(hot, step * SLOWER_AFTER)
        throttle.update(hot, (step + 0.5) * SLOWER_AFTER)
        presets.append(throttle.preset)
    assert presets == ["medium", "low", "low", "low"]
    assert throttle.throttled


def test_it_is_sped_up_again_when_it_has_been_cool_for_a_while(throttle: ThermalThrottle) -> None:
    throttle.update(readings(HOT + 1), 0.0)
    throttle.update(readings(COOL + 1), FASTER_AFTER)
    throttle.update(readings(COOL - 1), 1.5 * FASTER_AFTER)
    assert throttle.preset == "medium"
    throttle.update(readings(COOL - 1), 2 * FASTER_AFTER)
    assert (throttle.preset, throttle.throttled) == ("high", False)
    throttle.update(readings(COOL - 1), 9 * FASTER_AFTER)
    assert throttle.preset == "high"


def test_a_stick_that_is_reopened_has_its_own_clock(throttle: ThermalThrottle) -> None:
    throttle.update(readings(warm=True), 0.0)
    throttle.opened(readings(preset="max"))
    assert (throttle.preset, throttle.throttled) == ("max", False)


def test_a_device_without_presets_is_left_alone() -> None:
    throttle = ThermalThrottle()
    throttle.opened(readings(preset=""))
    throttle.update(readings(warm=True, preset=""), 0.0)
    assert (throttle.preset, throttle.throttled) == ("", False)
