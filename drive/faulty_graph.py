"""The nodes of a scenario, on a stick that can be unplugged and with a driver that can be killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from demo.processes import Process
from soak.driver_process import StickEvent
from soak.processes import Command, Processes


class FaultyGraph:
    """Running processes, of which the first is the driver; a context manager that stops all of them."""

    def __init__(self, processes: Sequence[Process], logs: Path) -> None:
        self._wanted = processes
        self._driver = processes[0].name
        self._running = Processes(logs, dict(os.environ))

    def __enter__(self) -> FaultyGraph:
        driver, *nodes = self._wanted
        parameters = driver.command()[1:]  # without the executable
        runner = sys.executable, "-m", "soak.node_settings"
        on_virtual_stick = (*runner, "soak.driver_process", "1", *parameters)
        try:
            self._running.start(Command(driver.name, on_virtual_stick, reads_input=True))
            for node in nodes:
                self._running.start(Command(node.name, tuple(node.command())))
        except BaseException:
            self._running.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._running.stop()

    def unplug(self) -> None:
        """Unplug the stick."""
        self._running.write(self._driver, StickEvent(0, plugged=False).line())

    def plug(self) -> None:
        """Plug the stick in again."""
        self._running.write(self._driver, StickEvent(0).line())

    def kill_driver(self, restart_after: float) -> None:
        """Kill the driver; `watch` starts it again after `restart_after` s."""
        self._running.kill(self._driver, restart_after)

    def watch(self) -> None:
        """Restart processes whose time to restart has come."""
        self._running.watch()
