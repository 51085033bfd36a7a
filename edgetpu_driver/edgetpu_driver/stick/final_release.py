"""Releases a device exactly once, however its owner ends."""

from __future__ import annotations

import atexit
import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any

from edgetpu_driver.errors import EdgeTpuError

_log = logging.getLogger(__name__)

_unreleased: dict[object, weakref.finalize[Any, Any]] = {}
"""The objects to release when the process ends, in the order of creation."""


class FinalRelease:
    """Calls a function exactly once: on request, when the owner is collected, or when the process ends."""

    def __init__(self, owner: object, release: Callable[[], object]) -> None:
        """`release` must not refer to the owner, which could then not be collected."""
        key = object()
        self._finalizer = _unreleased[key] = weakref.finalize(owner, _release, key, release)
        self._finalizer.atexit = False
        _release_at_exit()

    def __call__(self) -> None:
        """Release now; harmless when called again."""
        self._finalizer()


def _release(key: object, release: Callable[[], object]) -> None:
    _unreleased.pop(key, None)
    release()


@functools.cache
def _release_at_exit() -> None:
    """Have everything released when the process ends, before pyusb's objects are finalised.

    weakref runs all of its finalisers in one function of atexit. `_release_all` is registered after that, so
    it runs earlier; and only once, because atexit keeps an entry for each function that was ever registered.
    """
    atexit.register(_release_all)


def _release_all() -> None:
    for finalizer in reversed(list(_unreleased.values())):
        _call(finalizer)


def _call(finalizer: weakref.finalize[Any, Any]) -> None:
    """Release one device; a failure must not keep the others from being released."""
    try:
        finalizer()
    except EdgeTpuError as error:
        _log.warning("%s", error)
