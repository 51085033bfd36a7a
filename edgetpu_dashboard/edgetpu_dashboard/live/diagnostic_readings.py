"""Values of diagnostics over the last minute: numbers, and words such as a state."""

from __future__ import annotations

import math
import re

from edgetpu_dashboard.live.result_curves import Curve

LEVELS = ("ok", "warning", "error", "stale")
"""Levels of a diagnostic, by the numbers of diagnostic_msgs/DiagnosticStatus."""
SEVERITY = ("ok", "stale", "warning", "error")
"""The same levels, the most serious one last."""

MOST_WORDS = 8
"""Largest number of different words of a value that is shown as a curve."""
LONGEST_WORD = 40
"""Longest of these words, characters."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan"
_VALUE = re.compile(rf"({_NUMBER})(?: (?:\+-|±) ({_NUMBER}))?", re.ASCII | re.IGNORECASE)
_KEY = re.compile(r"(.+?)(?:, (\S+)| \(([^()\s]+)\))", re.ASCII)


class Reading:
    """One value of a diagnostic."""

    def __init__(self, key: str) -> None:
        """key: the name of the value, with a unit as in `distance, m` or `temperature (degC)`."""
        match = _KEY.fullmatch(key)
        self.name, self.unit = (match[1], match[2] or match[3]) if match else (key, "")
        self.text = ""
        """The last value as it was received."""
        self.words: list[str] = []
        """The words that values of the curve stand for, by number; empty if values are numbers."""
        self.value = self.sigma = math.nan
        """The last value, or the number of its word."""
        self._is_number = self._is_too_much = False
        self._curve = Curve()

    def add(self, now: float, text: str) -> None:
        """Add a value that was received at a time, s: `3.2`, `3.2 +- 0.1` or words."""
        self.text = text
        match = _VALUE.fullmatch(text)
        self.value = float(match[1]) if match else math.nan
        self.sigma = float(match[2]) if match and match[2] else math.nan
        if match and not self._is_number:
            self._is_number, self.words, self._curve = True, [], Curve()
        if not self._is_number:
            self._add_word(text)
        self._curve.add(now, self.value, self.sigma)

    @property
    def curve(self) -> Curve | None:
        """The values over time; None if there are too many different words, or too long ones."""
        return self._curve if self._is_number or not self._is_too_much else None

    def _add_word(self, text: str) -> None:
        if text not in self.words:
            if len(self.words) == MOST_WORDS or len(text) > LONGEST_WORD:
                self._is_too_much = True
                return
            self.words.append(text)
        self.value = float(self.words.index(text))
