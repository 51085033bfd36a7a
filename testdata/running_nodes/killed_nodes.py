"""Suspending and killing nodes at a certain moment of their communication."""

from __future__ import annotations

import mmap
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from testdata.running_nodes.port_files import LISTENERS, WAITS, ports_of
from testdata.running_nodes.ros_graph import NodeProcess
from testdata.timeouts import PATIENCE


def suspend(process: NodeProcess) -> None:
    """Stop all threads of a process while they sleep: one that sends may hold a lock of its receivers."""
    end = time.monotonic() + PATIENCE
    while True:
        waits = system_calls(process)
        sleeps = states(process) == {"S"}
        os.kill(process.pid, signal.SIGSTOP)
        while states(process) != {"T"}:
            assert time.monotonic() < end, "its threads do not stop"
        if sleeps and system_calls(process) == waits:
            return  # none has woken meanwhile
        os.kill(process.pid, signal.SIGCONT)
        assert time.monotonic() < end, "its threads do not sleep"


def kill_while_it_takes_a_message(process: NodeProcess) -> None:
    """Kill a process as if its listeners had just been woken by a message: they are not waiting."""
    suspend(process)
    for port in ports_of(process.pid):
        with port.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            domain = port.name.partition("_")[0]
            memory[memory.find(f"{domain}\0".encode()) - LISTENERS] &= ~WAITS
    process.kill()


def states(process: NodeProcess) -> set[str]:
    """The states of the threads of a process, as in ps."""
    return {each.rpartition(")")[2].split()[0] for each in of_threads(process, "stat").values()}


def system_calls(process: NodeProcess) -> dict[str, str]:
    """The system call in which each thread of a process waits, with its arguments."""
    return of_threads(process, "syscall")


def of_threads(process: NodeProcess, name: str) -> dict[str, str]:
    """The file of that name in /proc of each thread of a process, unless it is forbidden to read."""
    found = {}
    for path in Path(f"/proc/{process.pid}/task").glob(f"*/{name}"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # or the thread has ended
            found[path.parent.name] = path.read_text()
    return found
