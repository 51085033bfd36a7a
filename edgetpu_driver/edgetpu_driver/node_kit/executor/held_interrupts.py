"""Holds Ctrl-C back while an executor runs, for programs that KeyboardInterrupt ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the context, not within.

    rclpy makes messages into Python objects in C. If KeyboardInterrupt is raised there, pybind11 replaces it
    by a RuntimeError: the message is skipped as a damaged one, and the program goes on. Signals whose
    handler is not Python's own for SIGINT are left alone. Nothing is done in threads other than the main one,
    which gets all signals.
    """
    came: list[int] = []

    def note(number: int, _frame: object) -> None:
        came.append(number)

    numbers = [each for each in (signal.SIGINT, signal.SIGTERM) if _interrupts(each)]
    try:
        for number in numbers:
            signal.signal(number, note)
        yield
    finally:
        for number in numbers:
            if signal.getsignal(number) is note:
                signal.signal(number, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt


def _interrupts(number: signal.Signals) -> bool:
    """Whether a signal raises KeyboardInterrupt in this thread."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(number) is signal.default_int_handler
