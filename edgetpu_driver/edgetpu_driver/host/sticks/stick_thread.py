"""A thread with a mailbox, which starts with the first command and survives errors in its work."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from edgetpu_driver.host.requests.request import Request
from edgetpu_driver.host.sticks.pending_command import Command

_log = logging.getLogger(__name__)

_PAUSE = 0.01
"""Seconds of rest after an unexpected error, so that a persistent one does not use up the processor."""


class StickThread:
    """Takes steps until one of them has ended it; another command starts it again.

    An exception in a step is logged, unless it was the last one to be, and does not end the thread.
    """

    def __init__(self, name: str, step: Callable[[], bool]) -> None:
        """step: does one piece of work; returns True after a successful `end`."""
        self._name, self._step = name, step
        self._mailbox: SimpleQueue[Request | Command | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # a finaliser may stop a worker at any point of this thread
        self._logged = ""
        """The unexpected error that was logged last."""

    @property
    def runs(self) -> bool:
        """Whether it has been started and has not ended."""
        with self._lock:
            return self._thread is not None

    @property
    def is_current(self) -> bool:
        """Whether it is the thread that asks."""
        return self._thread is threading.current_thread()

    @property
    def has_mail(self) -> bool:
        """Whether something waits in the mailbox."""
        return not self._mailbox.empty()

    def put(self, item: Request | None) -> None:
        """Put a request into the mailbox, or None to have the thread look for work; does not start it."""
        self._mailbox.put(item)

    def post(self, command: Command) -> None:
        """Put a command into the mailbox; starts the thread if necessary."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()  # raises if the limit of threads is reached
                self._thread = thread
            self._mailbox.put(command)

    # Called by the thread only.

    def take(self, timeout: float | None) -> Request | Command | None:
        """Take the oldest item out of the mailbox; None if there is none within `timeout` seconds."""
        try:
            return self._mailbox.get(timeout=timeout)
        except Empty:
            return None

    def end(self) -> bool:
        """End after this step, unless something waits in the mailbox; returns whether it ends."""
        with self._lock:
            if self.has_mail:
                return False
            self._thread = None
            return True

    def _run(self) -> None:
        while not self._guarded_step():
            pass

    def _guarded_step(self) -> bool:
        try:
            return self._step()
        except Exception as error:
            if repr(error) != self._logged:
                self._logged = repr(error)
                _log.exception("unexpected error in the thread '%s'", self._name)
            time.sleep(_PAUSE)
            return False
