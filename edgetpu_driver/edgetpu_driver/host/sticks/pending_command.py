"""A command to a thread; repeated requests for it are merged until the thread takes it."""

from __future__ import annotations

import threading
from collections.abc import Callable

Command = Callable[[], None]


class PendingCommand:
    """Posts a command to a worker, unless the same command waits there. May be called from any thread.

    Otherwise a client that asks faster than a device can answer would fill the worker's mailbox, and keep the
    worker busy long after its last request.
    """

    def __init__(self, post: Callable[[Command], None], command: Command) -> None:
        self._post, self._command = post, command
        self._lock = threading.Lock()
        self._waits = False

    def __call__(self) -> None:
        """Request the command. Raises what `post` raises; then it was not requested."""
        with self._lock:
            if self._waits:
                return
            self._waits = True
        try:
            self._post(self._run)
        except BaseException:
            self._waits = False
            raise

    def _run(self) -> None:
        with self._lock:
            self._waits = False
        self._command()
