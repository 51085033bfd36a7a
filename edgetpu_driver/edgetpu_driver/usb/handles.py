"""Closes device handles despite system errors; a handle that cannot be closed now is closed later."""

from __future__ import annotations

import logging
import os
import weakref
from dataclasses import dataclass
from typing import Any

_log = logging.getLogger(__name__)

CLOSE_ATTEMPTS = 3
"""Attempts to close a handle before closing it is deferred. Uncritical."""


@dataclass(frozen=True)
class _OpenHandle:
    """A handle that could not be closed, and the process that opened it."""

    handle: Any
    bus_path: str
    process: int


_left_open: weakref.WeakKeyDictionary[Any, list[_OpenHandle]] = weakref.WeakKeyDictionary()
"""Handles still to be closed, by pyusb backend."""


def close_handle(backend: Any, handle: Any, interface: int, bus_path: str) -> None:
    """Release the interface and close the handle; a failed close is retried, then deferred.

    Raises nothing, unless it is interrupted, for example by Ctrl-C.
    """
    # Closing releases the interface as well, so one attempt to release it is enough.
    try:
        backend.release_interface(handle, interface)
    except Exception as error:
        _log.debug("releasing the stick at %s: %s: %s", bus_path, type(error).__name__, error)
    finally:  # also after Ctrl-C
        if not _closed(backend, handle, bus_path):
            _left_open.setdefault(backend, []).append(_OpenHandle(handle, bus_path, os.getpid()))


def close_left_open(backend: Any) -> None:
    """Retry closing the deferred handles. Never raises."""
    waiting = _left_open.pop(backend, None)
    if waiting:
        mine = [each for each in waiting if each.process == os.getpid()]
        still = [each for each in mine if not _closed(backend, each.handle, each.bus_path)]
        if still:  # threads of other sticks may have added theirs
            _left_open.setdefault(backend, []).extend(still)


def is_left_open(backend: Any, bus_path: str) -> bool:
    """Whether this process holds a handle of the stick that it could not close."""
    process = os.getpid()
    return any((each.bus_path, each.process) == (bus_path, process) for each in _left_open.get(backend, ()))


def _closed(backend: Any, handle: Any, bus_path: str) -> bool:
    return any(_close(backend, handle, bus_path) for _ in range(CLOSE_ATTEMPTS))


def _close(backend: Any, handle: Any, bus_path: str) -> bool:
    try:
        backend.close_device(handle)
    except Exception as error:  # any type: the backend need not be pyusb's
        _log.warning("the stick at %s could not be closed: %s: %s", bus_path, type(error).__name__, error)
        return False
    return True
