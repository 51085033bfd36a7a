"""Reads files without waiting for a file system that does not respond, such as a lost network share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Generic, TypeVar

from edgetpu_driver.errors import BusyError, EdgeTpuError

T = TypeVar("T")

LONGEST = 1.0
"""Longest time that callers wait for a reading, s. Chosen: a slow card takes as long for a file of tens of
megabytes."""

RETRY_AFTER = 1.0
"""Seconds after which callers should try again. Uncritical."""


class DetachedReading(Generic[T]):
    """Reads a result from files in a separate thread. May be used from any thread.

    A slow reading is not started a second time. Results and errors are dropped once they are returned.
    """

    def __init__(
        self, read: Callable[[], T], late: Callable[[], EdgeTpuError], longest: float | None = None
    ) -> None:
        """late: makes the error raised if reading takes longer than `longest` s, by default LONGEST."""
        self._read, self._late, self._longest = read, late, longest
        self._lock = threading.Lock()
        self._pending: Future[T] | None = None
        self._give_up = 0.0
        """When callers of the pending reading give up, monotonic s."""

    def result(self, stop: Future[Any] | None = None) -> T:
        """Return the result of `read` or raise its error; raise the error of `late` if it takes too long.

        stop: a future whose error, if it comes first, ends the wait and is raised.
        """
        with self._lock:
            if self._pending is None:
                self._give_up = time.monotonic() + (LONGEST if self._longest is None else self._longest)
                self._pending = _detached(self._read)
            pending = self._pending
        try:
            if _is_done(pending, self._give_up, stop):
                with self._lock:
                    if self._pending is pending:
                        self._pending = None
                return pending.result()
        finally:
            del pending  # the traceback of an error refers to this frame: no reference cycle
        raise self._late()


def _is_done(pending: Future[Any], give_up: float, stop: Future[Any] | None) -> bool:
    """Wait for a future until this time, monotonic s; raise the error of `stop` if that comes first."""
    either = [pending] if stop is None else [pending, stop]
    wait(either, max(give_up - time.monotonic(), 0.0), return_when=FIRST_COMPLETED)
    if not pending.done() and stop is not None and stop.done():
        stop.result()
    return pending.done()


def no_answer(what: str) -> BusyError:
    """The error for files that do not answer within LONGEST. what: the files."""
    return BusyError(f"{what} do not answer; try again in {RETRY_AFTER:g} s", RETRY_AFTER)


def _detached(work: Callable[[], T]) -> Future[T]:
    """Do work in a new thread, or at once if none can be started; the future gets the outcome."""
    pending: Future[T] = Future()
    try:
        threading.Thread(target=_do, args=(work, pending), name="edgetpu files", daemon=True).start()
    except RuntimeError:  # no thread can be started
        _do(work, pending)
    return pending


def _do(work: Callable[[], T], pending: Future[T]) -> None:
    try:
        pending.set_result(work())
    except Exception as error:
        pending.set_exception(error)
    finally:
        del pending  # the traceback of an error refers to this frame: no reference cycle
