"""Starts child processes from a thread that lives as long as this process.

PR_SET_PDEATHSIG ends a child with the thread that started it, and threads of a driver are short-lived.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

_Start = Callable[[], "subprocess.Popen[bytes]"]


class _Launcher:
    """The thread and its queue."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[_Start, Future[subprocess.Popen[bytes]]]] = SimpleQueue()
        threading.Thread(target=self._serve, name="process launcher", daemon=True).start()

    def start(self, start: _Start) -> subprocess.Popen[bytes]:
        future: Future[subprocess.Popen[bytes]] = Future()
        self._queue.put((start, future))
        return future.result()

    def _serve(self) -> None:
        while True:
            start, future = self._queue.get()
            try:
                future.set_result(start())
            except BaseException as error:
                future.set_exception(error)


_lock = threading.Lock()
_launcher: _Launcher | None = None


def launch(start: _Start) -> subprocess.Popen[bytes]:
    """Call `start` in the launching thread; returns its process or raises its exception."""
    global _launcher
    with _lock:
        if _launcher is None:
            _launcher = _Launcher()
    return _launcher.start(start)


def _after_fork() -> None:
    """Reset the launcher: a forked process has no threads, and the lock may have been held."""
    global _launcher, _lock
    _launcher, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
