"""A thread for work that needs no device: reading files, preparing weights, arithmetic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

_log = logging.getLogger(__name__)
_IDLE_SECONDS = 5.0
"""Seconds without work after which the thread ends; the next work starts another. Uncritical."""


class BackgroundThread:
    """Does pieces of work one after the other in a separate thread, which ends when idle for a while."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._pending = 0
        self._running = False

    @property
    def pending(self) -> int:
        """Number of pieces of work that are not done yet, the present one included."""
        return self._pending

    def submit(self, work: Callable[[], None]) -> None:
        """Append work; an exception in it is logged.

        Raises RuntimeError if no thread can be started; then the work is not done.
        """
        with self._lock:
            if not self._running:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._running = True
            self._pending += 1
            self._work.put(work)

    def submit_or_do(self, work: Callable[[], None]) -> None:
        """As `submit`, except that the calling thread does the work if no other can be started."""
        try:
            self.submit(work)
        except RuntimeError:
            work()

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if not self._pending:
                        self._running = False
                        return
                continue
            try:
                work()
            except Exception:
                _log.exception("unexpected error in the thread '%s'", self._name)
            del work  # no reference is kept while the thread is idle
            with self._lock:
                self._pending -= 1
