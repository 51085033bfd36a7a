"""Starts, monitors and stops the processes of the ROS graph."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from demo.errors import GraphError
from edgetpu_driver.node_kit.installed_nodes.installed_executables import installed_executable
from edgetpu_driver.node_kit.middleware.middleware_profile import DEFAULT_DRIVER, profile_settings
from edgetpu_driver.node_kit.process.process_end import starter_environment

CONFIG = Path(__file__).resolve().parents[1] / "config"
"""The same as in the launch file."""
PARAMETERS = CONFIG / "edgetpu.yaml"
_reservations: list[IO[str]] = []
STOP_TIMEOUT = 2.7
"""Seconds between the interrupt and the kill. Derived: more than STOP_DEADLINE of a process of nodes."""


@dataclass(frozen=True)
class Process:
    """A ROS node to run in a separate process."""

    name: str
    """Name of the node."""
    package: str
    executable: str
    parameters_file: Path | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    """In addition to the file."""
    remappings: tuple[tuple[str, str], ...] = ()

    def command(self) -> list[str]:
        """Compose the command line."""
        arguments = ["-r", f"__node:={self.name}"]
        if self.parameters_file:
            arguments += ["--params-file", str(self.parameters_file)]
        for name, value in self.parameters:
            # With the node's name, since otherwise the node's section in the file would have precedence.
            arguments += ["-p", f"{self.name}:{name}:={value}"]
        for old, new in self.remappings:
            arguments += ["-r", f"{old}:={new}"]
        return [str(find_executable(self.package, self.executable)), "--ros-args", *arguments]


def as_parameter(value: str | Sequence[str]) -> str:
    """A text, or a list of texts, as a value for `Process.parameters`, which is read as YAML."""
    return json.dumps(value, ensure_ascii=False)


def find_executable(package: str, executable: str) -> Path:
    """Find an executable in the sourced ROS environment, as `ros2 run` does; raises GraphError."""
    path = installed_executable(package, executable)
    if path is None:
        raise GraphError(
            f"{package}/{executable} is not installed; build the workspace and source its install tree"
        )
    return path


def isolate(
    environment: Mapping[str, str] = os.environ, drivers: Collection[str] = (DEFAULT_DRIVER,)
) -> dict[str, str]:
    """Return environment variables for the graph: profiles for large images, discovery on this machine only.

    `drivers`: full names of the drivers in the graph. Unless a ROS domain is set already, one is chosen that
    no process on this machine uses.
    """
    settings = {"PYTHONUNBUFFERED": "1", "RCUTILS_COLORIZED_OUTPUT": "0"}
    if environment.get("ROS_DISTRO") == "humble":
        settings["ROS_LOCALHOST_ONLY"] = "1"
    else:
        settings["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    settings.update(profile_settings(CONFIG / "fastdds.xml", environment, drivers))
    if "ROS_DOMAIN_ID" not in environment:
        settings["ROS_DOMAIN_ID"] = str(_unused_domain())
    return settings


def _unused_domain() -> int:
    """Find an unused domain from 1 to 100; these do not collide with the ephemeral ports of Linux."""
    first = 1 + os.getpid() % 100
    for offset in range(100):
        domain = 1 + (first + offset - 1) % 100
        if reserve_domain(domain):
            return domain
    raise GraphError("every ROS domain from 1 to 100 is in use on this machine; set ROS_DOMAIN_ID")


def reserve_domain(domain: int) -> bool:
    """Reserve an unused ROS domain until this process ends, against other processes that call this function.

    Returns False if it is taken. Without a reservation, two processes that start at once could choose the
    same domain, since a domain is in use only when its first node has started.
    """
    try:
        lock = open(Path(tempfile.gettempdir()) / f"edgetpu_domain_{domain}", "w")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # the file belongs to another user
    if domain_in_use(domain):
        lock.close()
        return False
    _reservations.append(lock)
    return True


def domain_in_use(domain: int) -> bool:
    """Whether a participant of this ROS domain runs here: its first port (RTPS 2.5, 9.6.2.3) is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", 7410 + 250 * domain))
        except OSError:
            return True
    return False


class Graph:
    """Running processes, each with a log; a context manager that stops all of them."""

    def __init__(self, processes: Sequence[Process], log_directory: Path) -> None:
        self._wanted = processes
        self._log_directory = log_directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Graph:
        self._log_directory.mkdir(parents=True, exist_ok=True)
        try:
            for process in self._wanted:
                with self.log(process.name).open("wb") as log:
                    self._running[process.name] = _start(process.command(), log)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def log(self, name: str) -> Path:
        """Path of the log of a process: its standard output and error."""
        return self._log_directory / f"{name}.log"

    def last_line(self, name: str) -> str:
        """Return the last line that a process wrote, which is the error if it ends with a traceback."""
        lines = self.log(name).read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")

    def check(self) -> None:
        """Raise GraphError if a process has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                why = self.last_line(name)
                raise GraphError(
                    f"{name} ended with code {process.returncode}: {why} (log: {self.log(name)})"
                )

    def stop(self) -> None:
        """Interrupt all processes, as Ctrl-C does, and kill those that still run after STOP_TIMEOUT."""
        for process in self._running.values():
            _signal(process, signal.SIGINT)
        deadline = time.monotonic() + STOP_TIMEOUT
        try:
            while time.monotonic() < deadline and any(p.poll() is None for p in self._running.values()):
                time.sleep(0.02)
        finally:  # a second Ctrl-C ends the waiting, but not the clean-up
            for process in self._running.values():
                _signal(process, signal.SIGKILL)
                process.wait()
        self._running.clear()


def _start(command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    # In its own session, so that Ctrl-C in a terminal reaches only the demo, which stops the rest in order.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=starter_environment(),
    )


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)
