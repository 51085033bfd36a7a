"""Starts, monitors, kills and restarts the processes of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from edgetpu_driver.node_kit.middleware.fast_dds_memory.killed_processes import (
    clean_up_after_killed_processes,
)

STOP_SECONDS = 8.0
"""Time limit for all processes to end after the interrupt, s."""


@dataclass(frozen=True)
class Command:
    """A process to run."""

    name: str
    arguments: tuple[str, ...]
    is_node: bool = True
    """Whether it is a node of the suite, which may be killed; the other processes only measure."""
    reads_input: bool = False
    """Whether its standard input is a pipe."""


@dataclass(frozen=True)
class End:
    """A process that ended without having been killed."""

    time: float
    """Monotonic time, s."""
    process: str
    status: int
    last_line: str


@dataclass
class _Running:
    command: Command
    log: Path
    environment: Mapping[str, str]
    popen: subprocess.Popen[str] = field(init=False)
    started: float = field(init=False)
    restart_at: float | None = None

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.restart_at = None
        self.started = time.monotonic()
        stdin = subprocess.PIPE if self.command.reads_input else subprocess.DEVNULL
        with self.log.open("a") as log:
            self.popen = _popen(self.command.arguments, stdin, log, self.environment)


def _popen(
    arguments: Sequence[str], stdin: int, log: IO[str], environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        stdin=stdin,
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
        env=dict(environment),
        start_new_session=True,
    )


class Processes:
    """Running processes, each with a log; processes that end are restarted."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs, self._environment = logs, environment
        self._running: dict[str, _Running] = {}
        self.restarts = 0
        """Number of processes that were killed on purpose and restarted."""
        self.ends: list[End] = []

    def start(self, command: Command) -> None:
        """Start a process."""
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{command.name}.log"
        self._running[command.name] = _Running(command, log, self._environment)

    @property
    def nodes(self) -> list[str]:
        """Names of the processes that are nodes of the suite."""
        return [name for name, each in self._running.items() if each.command.is_node]

    def pid(self, name: str) -> int:
        """The present process ID of the process."""
        return self._running[name].popen.pid

    def pids(self) -> dict[str, tuple[int, float]]:
        """Process ID and monotonic start time, s, of each running process."""
        return {
            name: (each.popen.pid, each.started)
            for name, each in self._running.items()
            if each.popen.poll() is None
        }

    def write(self, name: str, line: str) -> None:
        """Write a line to the standard input of a process, unless it is being restarted."""
        stdin = self._running[name].popen.stdin
        assert stdin is not None
        try:
            stdin.write(line)
            stdin.flush()
        except (BrokenPipeError, ValueError):
            return

    def kill(self, name: str, restart_after: float) -> None:
        """Kill a process; `watch` restarts it after `restart_after` seconds."""
        running = self._running[name]
        if running.popen.poll() is None:
            running.popen.kill()
            running.popen.wait()
            clean_up_after_killed_processes()  # as the launch file does
            self.restarts += 1
            running.restart_at = time.monotonic() + restart_after

    def watch(self) -> list[End]:
        """Restart killed processes that are due, and those that ended by themselves; return the latter."""
        found = []
        for name, running in self._running.items():
            if running.restart_at is not None:
                if time.monotonic() >= running.restart_at:
                    running.start()
            elif running.popen.poll() is not None:
                clean_up_after_killed_processes()
                found.append(End(time.monotonic(), name, running.popen.returncode, self._last_line(running)))
                running.start()
        self.ends += found
        return found

    @staticmethod
    def _last_line(running: _Running) -> str:
        lines = running.log.read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")

    def stop(self) -> None:
        """Interrupt all processes, the measuring ones first; kill those that still run after STOP_SECONDS."""
        for is_node in (False, True):
            _stop([each.popen for each in self._running.values() if each.command.is_node == is_node])


def _stop(running: Sequence[subprocess.Popen[str]]) -> None:
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    end = time.monotonic() + STOP_SECONDS
    while time.monotonic() < end and any(process.poll() is None for process in running):
        time.sleep(0.05)
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()


def children(pid: int) -> list[int]:
    """Process IDs of the children of a process."""
    found: list[int] = []
    with suppress(OSError):  # the process has ended
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):  # the thread has ended
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found
