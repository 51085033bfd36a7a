"""A thread that answers requests whose deadline has passed while all sticks are busy."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from edgetpu_driver.host.sticks.scheduler import Scheduler

PERIOD = 0.02
"""Seconds by which the answer to an expired request may be late. Chosen: less than the 33 ms between two
images."""


class DeadlineWatch:
    """A thread that checks the queue periodically while requests wait."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._watching = False
        scheduler.watch = self.arm

    def arm(self) -> None:
        """Start checking; called when a request has been queued."""
        if not self._scheduler.waiting:
            return
        with self._lock:  # even for reading: the thread may just have seen that nothing waits
            if self._watching:
                return
            with suppress(RuntimeError):  # no thread can be started: the workers check the queue as well
                threading.Thread(target=self._run, name="edgetpu deadlines", daemon=True).start()
                self._watching = True

    def _run(self) -> None:
        while True:
            time.sleep(PERIOD)
            self._scheduler.expire()
            with self._lock:
                if not self._scheduler.waiting:
                    self._watching = False
                    return
