"""What the loaded models of one open stick share."""

from __future__ import annotations

import threading

from edgetpu_driver.stick.link_recovery import ResilientLink
from edgetpu_driver.stick.parameter_memory import ParameterMemory
from edgetpu_driver.usb.connector import StickConnector


class StickSession:
    """The link to an open stick, its parameter memory, its counters, and the lock that serialises calls."""

    def __init__(self, connector: StickConnector, *, resets: bool) -> None:
        """Connect at once; see EdgeTpu.open."""
        self.connector = connector
        self.lock = threading.RLock()
        self.memory = ParameterMemory()
        self.link = ResilientLink(connector, self.memory.clear, resets=resets)
        self.simulated_clock = connector.simulated_clock
        """The clock of a virtual stick; None for a real one."""
        self.inferences = 0

    def close(self) -> None:
        """Halt the chip, put it to sleep, release it; harmless when called again."""
        with self.lock:
            self.link.close()
