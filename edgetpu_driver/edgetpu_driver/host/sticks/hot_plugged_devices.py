"""Looks for devices that are plugged in after the host was started."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from edgetpu_driver.backends.backend import Backend

_log = logging.getLogger(__name__)

FindMore: TypeAlias = Callable[[Collection[str]], Sequence[Backend]]
"""Makes backends for the devices that are present, except for those at the given bus paths."""


class DeviceFinder:
    """A thread that looks for further devices periodically, until it is stopped."""

    def __init__(
        self,
        find: FindMore,
        known: Callable[[], Collection[str]],
        add: Callable[[Backend], None],
        period: float,
    ) -> None:
        """known: bus paths of the devices found so far. add: called with each further backend.

        period: seconds between two searches.
        """
        self._find = find
        self._known = known
        self._add = add
        self._period = period
        self._found: list[Backend] = []
        """Backends that are yet to be added."""
        self._stopped = threading.Event()
        self._logged = ""
        threading.Thread(target=self._run, name="edgetpu finder", daemon=True).start()

    def stop(self) -> None:
        """Stop searching; sticks that a running search finds are still added."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            self._look()

    def _look(self) -> None:
        try:
            self._found += self._find(self._known())
            while self._found:
                self._add(self._found[0])
                del self._found[0]
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if text != self._logged:
                self._logged = text
                _log.warning("cannot look for more devices: %s", text)
