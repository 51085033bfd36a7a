"""A timer and a clock whose time passes only when a test says so."""

from __future__ import annotations

from collections.abc import Callable


class Timer:
    """Replaces a timer of rclpy."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback, self.running = callback, True

    def reset(self) -> None:
        """Start again."""
        self.running = True

    def cancel(self) -> None:
        """Stop."""
        self.running = False


class Clock:
    """Replaces the module `time`."""

    now = 100.0
    """The present time, s."""

    def monotonic(self) -> float:
        """The present time, s."""
        return self.now
