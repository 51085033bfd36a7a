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

from edgetpu_driver.engines.process_lock import ProcessLock

_Start = Callable[[], "subprocess.Popen[bytes]"]


class _Launcher:
    """The thread and its queue."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        """The process in which the thread runs; a process forked from it lacks the thread."""
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


_lock = ProcessLock()
_launcher: _Launcher | None = None


def launch(start: _Start) -> subprocess.Popen[bytes]:
    """Call `start` in the launching thread; returns its process or raises its exception."""
    global _launcher
    with _lock:
        if _launcher is None or _launcher.pid != os.getpid():
            _launcher = _Launcher()
    return _launcher.start(start)
