"""The state that the loaded models of one open stick share."""

from __future__ import annotations

import threading

from edgetpu_driver.stick.forked_processes import disown_when_forked
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
        disown_when_forked(self)

    def close(self) -> None:
        """Halt the chip, put it to sleep, release it; harmless when called again."""
        with self.lock:
            self.link.close()

    def disown(self) -> None:
        """Leave the stick to the process that this one was forked from; see StickHolder."""
        self.lock = threading.RLock()
        self.link.disown()
