"""Leaves the ports in shared memory that another process has replaced.

A process holds a lock for each port from which it receives. Other processes briefly take the lock to check
whether the port is dead, and then delete its file (Fast-DDS issue 2975). If two of them check at the same
time, they can take the port of a running process for dead and replace it with one that has no receiver. The
process does not notice: it is discovered, its services look ready, but only processes that opened its port
earlier reach it. This happens after a process was killed, because all its senders check repeatedly while its
successor creates its ports. Fast DDS 2.14.5 and 3.6.2 have this fault.

A sender has the same difficulty with a port whose receiver was killed. Another process that opens the port
finds it dead and replaces its file. The successor of the receiver then gets the new file, but the sender has
the old one mapped and may go on sending to that (see zombie_ports): the successor is discovered, but nothing
that this sender sends arrives. The messages fill the old port, and their memory is never free again.

This module sets the mark of a dead port on those that this process has mapped but no longer finds. A listener
then makes a new port, and a sender opens the present one. The messages of this process in the old one are
released, except if a listener was waiting when it was killed: it looks like one that is about to read them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgetpu_driver.node_kit.middleware.fast_dds_memory.fast_dds_port import (
    SEGMENT_LOCK,
    SHARED_MEMORY,
    FastDdsPort,
    Segments,
)

LOOK_PERIOD = 1.0
"""Seconds between two checks. Derived: a check takes 1 to 3 ms, and the clients of the driver wait 2 s for an
answer."""

MOST_SPARED = 9
"""Most successive checks that are spared while no file is made or deleted. Derived: one in ten is kept as a
precaution, which costs a tenth of the time of all."""

_PORT_LOCK = re.compile(r"(fast(?:rtps|dds)_port\d+)_el(?: \(deleted\))?")
"""The file that the receiver of a port keeps locked."""
_MAPPED_PORT = re.compile(r"(\w+)-(\w+) \S+ \S+ \S+ (\d+) +(/.*/fast\w+_port\d+)(?: \(deleted\))?")
"""A line of /proc/PID/maps: start and end, inode, and path."""


class PortWatch:
    """Renews the lost ports of this process, and looks for them only where there can be any.

    No port is lost unless a file was made or deleted, which changes the time of the directory. After such a
    change it looks twice: at the first time, another file may have been deleted within the resolution of
    that time, or a thread may be about to map a port that was just deleted.
    """

    def __init__(self, directory: Path = SHARED_MEMORY) -> None:
        self._directory = directory
        self._changed = -1
        """When the directory had last changed at the last check, ns."""
        self._settled = False
        """Whether nothing was lost then, and the directory had not changed since the check before."""
        self._spared = 0

    def look(self) -> None:
        """Do what `renew_lost_ports` does, if a port may be lost."""
        try:
            changed = self._directory.stat().st_mtime_ns
        except OSError:
            return
        unchanged, self._changed = changed == self._changed, changed
        if unchanged and self._settled and self._spared < MOST_SPARED:
            self._spared += 1
            return
        self._spared = 0
        self._settled = renew_lost_ports(self._directory) and unchanged


def renew_lost_ports(directory: Path = SHARED_MEMORY, process: Path = Path("/proc/self")) -> bool:
    """Mark the ports of this process that were replaced as dead; return whether there is certainly none.

    Its listeners make new ones within 0.4 s, as they check the mark that often; it sends to the present ones
    from its next message on. What was sent to the old ports is lost; reliable writers send it again. Ports
    with an unknown layout are not changed, nor is any port if /proc cannot be read.
    """
    try:
        lost = [mapping for mapping in mapped_ports(directory, process) if mapping.is_lost]
        segments = set(_locked(SEGMENT_LOCK, directory, process)) if lost else set()
    except OSError:
        return False
    for mapping in lost:
        with contextlib.suppress(OSError, ValueError):
            _invalidate(mapping, process, segments)
    return not lost


@dataclass(frozen=True)
class PortMapping:
    """A port that is mapped into the memory of a process."""

    path: Path
    inode: int
    start: int
    """Address."""
    size: int
    """Bytes."""
    received: bool
    """Whether the process receives from a port of that name; otherwise it only sends to it."""

    @property
    def number(self) -> int:
        """Number of the port, with which its name ends."""
        return int(self.path.name.rpartition("_port")[2])

    @property
    def is_lost(self) -> bool:
        """Whether other processes that open the port get another one, or none."""
        try:
            is_found = self.path.stat().st_ino == self.inode
        except OSError:
            return True
        lock = self.path.with_name(f"{self.path.name}_el")  # possibly that of another receiver
        return not is_found or (self.received and not lock.exists())


def mapped_ports(directory: Path, process: Path) -> Iterator[PortMapping]:
    """The ports that a process has mapped, from which it receives or to which it sends.

    process: its directory in /proc. Raises OSError if that cannot be read.
    """
    received = set(_locked(_PORT_LOCK, directory, process))
    for line in (process / "maps").read_text().splitlines():
        if "_port" in line and (match := _MAPPED_PORT.fullmatch(line)):
            start, end, path = int(match[1], 16), int(match[2], 16), Path(match[4])
            if path.parent == directory:
                yield PortMapping(path, int(match[3]), start, end - start, path in received)


def _locked(lock: re.Pattern[str], directory: Path, process: Path) -> Iterator[Path]:
    """The ports or segments that a process has locked, by the names of their locks."""
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            folder, _, name = os.readlink(descriptor).rpartition("/")
            if (match := lock.fullmatch(name)) and Path(folder) == directory:
                yield directory / match[1]


def _invalidate(mapping: PortMapping, process: Path, segments: Collection[Path]) -> None:
    """Invalidate a port. If no listener waits there, also release the messages of this process.

    segments: those of this process. A port from which this process is reading is left alone for now: a sender
    that finds it dead may deadlock then (see zombie_ports). A port of another process is treated as if nobody
    were reading, since the reader may have been killed; what it was reading is not released, since it may not
    have been. Raises ValueError if the layout of the port is unknown.
    """
    # Through the file system, as the port may be unmapped meanwhile. Only between the last two reads and
    # writes, for microseconds, could other memory have been mapped at its address.
    with (process / "mem").open("r+b", buffering=0) as file, Segments() as messages:
        before = os.pread(file.fileno(), mapping.size, mapping.start)
        memory = bytearray(before)
        port = FastDdsPort(mapping.path, mapping.number, memory)
        if port.is_read and mapping.received:
            return
        list(port.stop_reading())
        port.invalidate()
        waiting = [] if port.is_awaited else list(port.take_waiting(segments))
        stated = memory[port.number_at :][:4]
        if memory == before or os.pread(file.fileno(), 4, mapping.start + port.number_at) != stated:
            return
        changed = [at for at, (old, new) in enumerate(zip(before, memory, strict=True)) if old != new]
        for at in reversed(changed):  # listeners, mark, messages: no sender finds it dead while it is read
            os.pwrite(file.fileno(), memory[at : at + 1], mapping.start + at)
        for message in waiting:
            messages.give_back_waiting(message)
