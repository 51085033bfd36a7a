"""Slows a hot stick down, and speeds it up again once it has cooled."""

from __future__ import annotations

from math import inf

from edgetpu_driver.backends.backend import Readings

PRESETS = ("low", "medium", "high", "max")
"""Clock presets, the coolest first; see ClockPreset."""
HOT = 84.8
"""Temperature above which a stick is slowed down, degrees Celsius.

It is the first trip point of the Linux driver of the same chip on PCIe. A warning of the chip counts as well.
"""
COOL = 79.8
"""Temperature below which it is sped up again: 5 degrees less, so that it does not oscillate."""
SLOWER_AFTER = 5.0
"""Seconds at a preset before the next slower one is tried; the chip follows within seconds."""
FASTER_AFTER = 30.0
"""Seconds below COOL before the next faster preset is tried: more than SLOWER_AFTER, against oscillation."""


class ThermalThrottle:
    """Chooses the clock preset of one stick from its readings. It reads no clock."""

    def __init__(self) -> None:
        self.nominal = ""
        """The preset the stick was opened with; empty if it has none."""
        self._level = -1
        self._changed = -inf
        self._hot = -inf

    def opened(self, readings: Readings) -> None:
        """Note that the stick runs at the preset it was opened with."""
        known = readings.clock_preset in PRESETS
        self.nominal = readings.clock_preset if known else ""
        self._level = PRESETS.index(readings.clock_preset) if known else -1

    @property
    def preset(self) -> str:
        """The preset to run at; empty for a device without presets."""
        return PRESETS[self._level] if self.nominal else ""

    @property
    def throttled(self) -> bool:
        """Whether `preset` is slower than the one that the stick was opened with."""
        return self.preset != self.nominal

    @property
    def note(self) -> str:
        """Message for users while it is slower; otherwise empty."""
        if not self.throttled:
            return ""
        return f"it is hot, and runs at '{self.preset}' instead of '{self.nominal}'"

    def update(self, readings: Readings, now: float) -> None:
        """Take into account readings made at monotonic time `now`, s."""
        if not self.nominal:
            return
        hot = readings.warm or readings.temperature > HOT
        if hot or readings.temperature > COOL:
            self._hot = now
        if hot and self._level > 0 and now - self._changed >= SLOWER_AFTER:
            self._level, self._changed = self._level - 1, now
        elif self.throttled and now - max(self._hot, self._changed) >= FASTER_AFTER:
            self._level, self._changed = self._level + 1, now
