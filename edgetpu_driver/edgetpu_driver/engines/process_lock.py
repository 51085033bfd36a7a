"""A lock of one process, which is free in every process that is forked from it."""

from __future__ import annotations

import os
import threading


class ProcessLock:
    """A lock that is free in a forked process, even if a thread held it that does not exist there.

    Create it at module level: the function that renews it after a fork refers to it for ever.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()
