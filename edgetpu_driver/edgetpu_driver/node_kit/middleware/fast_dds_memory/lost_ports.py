"""Makes a new port in shared memory when another process has replaced one that this process receives from.

A process holds a lock for each port from which it receives. Other processes briefly take the lock to check
whether the port is dead, and then delete its file (Fast-DDS issue 2975). If two of them check at the same
time, they can take the port of a running process for dead and replace it with one that has no receiver. The
process does not notice: it is discovered, its services look ready, but only processes that opened its port
earlier reach it. This happens after a process was killed, because all its senders check repeatedly while its
successor creates its ports. Fast DDS 2.14.5 and 3.6.2 have this fault.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgetpu_driver.node_kit.middleware.fast_dds_memory.fast_dds_port import SHARED_MEMORY, FastDdsPort

LOOK_PERIOD = 1.0
"""Seconds between two checks. Derived: a check takes 0.7 ms, and the clients of the driver wait 2 s for an
answer."""

_LOCK = re.compile(r"(fast(?:rtps|dds)_port(\d+))_el(?: \(deleted\))?")
_MAPPED_PORT = re.compile(r"(\w+)-(\w+) \S+ \S+ \S+ (\d+) +(/.*/fast\w+_port\d+)(?: \(deleted\))?")
"""A line of /proc/PID/maps: start and end, inode, and path."""


def renew_lost_ports(directory: Path = SHARED_MEMORY, process: Path = Path("/proc/self")) -> None:
    """Mark the ports that were replaced as dead: their listeners make new ones within 0.4 s.

    A listener of Fast DDS checks the mark that often. Messages that were sent to the old port are
    lost; reliable writers send them again. Ports with an unknown layout are not changed, nor is any port if
    /proc cannot be read.
    """
    with contextlib.suppress(OSError):
        for mapping, number in lost_ports(directory, process):
            with contextlib.suppress(OSError, ValueError):
                _invalidate(mapping, number, process)


@dataclass(frozen=True)
class PortMapping:
    """A port that is mapped into the memory of a process."""

    path: Path
    inode: int
    start: int
    """Address."""
    size: int
    """Bytes."""


def lost_ports(directory: Path, process: Path) -> Iterator[tuple[PortMapping, int]]:
    """The ports, with their numbers, from which a process receives and which others do not find any more.

    process: its directory in /proc. Raises OSError if that cannot be read.
    """
    numbers = dict(_received_ports(directory, process))
    for mapping in _mappings(process) if numbers else ():
        if mapping.path in numbers and not _is_found(mapping):
            yield mapping, numbers[mapping.path]


def _received_ports(directory: Path, process: Path) -> Iterator[tuple[Path, int]]:
    """The ports from which this process receives, by the locks that it holds, and their numbers."""
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            folder, _, name = os.readlink(descriptor).rpartition("/")
            if (match := _LOCK.fullmatch(name)) and Path(folder) == directory:
                yield directory / match[1], int(match[2])


def _mappings(process: Path) -> Iterator[PortMapping]:
    """The ports that this process has mapped, which it receives from or sends to."""
    for line in (process / "maps").read_text().splitlines():
        if "_port" in line and (match := _MAPPED_PORT.fullmatch(line)):
            start, end = int(match[1], 16), int(match[2], 16)
            yield PortMapping(Path(match[4]), int(match[3]), start, end - start)


def _is_found(mapping: PortMapping) -> bool:
    """Whether other processes find the port and a lock, possibly that of another receiver of the port."""
    path = mapping.path
    try:
        return path.stat().st_ino == mapping.inode and path.with_name(f"{path.name}_el").exists()
    except OSError:
        return False


def _invalidate(mapping: PortMapping, number: int, process: Path) -> None:
    """Invalidate a port unless its listener is reading: a sender that finds it dead may deadlock then.

    Raises ValueError if the layout of the port is unknown.
    """
    # Through the file system, as the port may be unmapped meanwhile. Only between the last two lines, for
    # microseconds, could other memory have been mapped at its address.
    with (process / "mem").open("r+b", buffering=0) as file:
        memory = bytearray(os.pread(file.fileno(), mapping.size, mapping.start))
        port = FastDdsPort(mapping.path, number, memory)
        if port.is_read:
            return
        port.invalidate()
        stated, flags = memory[port.number_at :][:4], memory[port.flags_at :][:1]
        if os.pread(file.fileno(), 4, mapping.start + port.number_at) == stated:
            os.pwrite(file.fileno(), flags, mapping.start + port.flags_at)
