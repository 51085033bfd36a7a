"""The state that the loaded models of one open stick share."""

from __future__ import annotations

import os
import threading
import weakref

from edgetpu_driver.stick.link_recovery import ResilientLink
from edgetpu_driver.stick.parameter_memory import ParameterMemory
from edgetpu_driver.usb.connector import StickConnector


class StickSession:
    """The link to an open stick, its parameter memory, its counters, and the lock that serialises calls."""

    def __init__(self, connector: StickConnector) -> None:
        """Connect at once; see EdgeTpu.open."""
        self.connector = connector
        self.lock = threading.RLock()
        self.memory = ParameterMemory()
        self.link = ResilientLink(connector, self.memory.clear)
        self.simulated_clock = connector.simulated_clock
        """The clock of a virtual stick; None for a real one."""
        self.inferences = 0
        _sessions.add(self)

    def close(self) -> None:
        """Halt the chip, put it to sleep, release it; harmless when called again."""
        with self.lock:
            self.link.close()

    def disown(self) -> None:
        """Leave the stick to the process that this one was forked from; every further call is refused.

        The lock may be held by a thread that exists in the other process only, so there is a new one.
        """
        self.lock = threading.RLock()
        self.link.disown()


_sessions: weakref.WeakSet[StickSession] = weakref.WeakSet()
"""All sessions of this process."""


def _disown_all() -> None:
    for session in list(_sessions):
        session.disown()


os.register_at_fork(after_in_child=_disown_all)
