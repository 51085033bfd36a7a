"""The request to stop this process, for what the thread of the nodes waits for while it runs no callbacks."""

from __future__ import annotations

from concurrent.futures import Future
from typing import NoReturn


class StopRequestedError(Exception):
    """The process was asked to stop, so that the nodes are not made any more."""


_stop: Future[NoReturn] = Future()


def renew() -> None:
    """Forget an earlier request."""
    global _stop
    _stop = Future()


def request() -> None:
    """Set StopRequestedError as the error of `future`; has no effect a second time."""
    if not _stop.done():
        _stop.set_exception(StopRequestedError("the process was asked to stop"))


def future() -> Future[NoReturn]:
    """The future that fails with StopRequestedError when the process is asked to stop."""
    return _stop
