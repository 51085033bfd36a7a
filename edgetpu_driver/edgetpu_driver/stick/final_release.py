"""Releases a device exactly once, however its owner ends."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable


class FinalRelease:
    """Calls a function exactly once: on request, when the owner is collected, or when the process ends."""

    def __init__(self, owner: object, release: Callable[[], object]) -> None:
        """`release` must not refer to the owner, which could then not be collected."""
        self._finalizer = weakref.finalize(owner, release)
        # Registered by hand, to run before pyusb's objects are finalised: weakref runs all of its own
        # finalisers in one go.
        self._finalizer.atexit = False
        atexit.register(self._finalizer)

    def __call__(self) -> None:
        """Release now; harmless when called again."""
        atexit.unregister(self._finalizer)
        self._finalizer()
