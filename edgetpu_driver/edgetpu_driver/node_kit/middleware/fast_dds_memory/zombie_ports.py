"""Invalidates the ports that killed processes have left in the shared memory of Fast DDS.

A process receives messages through ports in shared memory, which its senders keep mapped. The process that
replaces it gets new ports with the same numbers. Senders recognise an old port as dead if its listener is
marked as waiting and has stopped counting. If the process was killed while it took a message, its listener is
not marked as waiting, and senders write to the old port for ever: the new process is discovered, its services
look ready, but nothing sent to it arrives. Fast DDS 2.14.5 and 3.6.2 have this fault (Fast-DDS pull request
4737).

This module sets the mark that Fast DDS itself sets on a dead port. It is in memory that all senders share,
and they check it before they send. A running receiver whose port is marked makes a new one.

A sender that finds a dead port also releases the message that its listener was reading. Fast DDS locks the
port twice to do so, which is a deadlock: the sender then sends nothing to anyone. Therefore the messages that
listeners of a dead port are reading are cleared first. A sender that is already deadlocked continues after
10 s.

Fast DDS does not release the messages that wait in a dead port. Their memory is in the sender's segment and
counts as used. After a few restarts the free memory is too fragmented for an image, so that images are no
longer sent, while shorter messages are. Therefore these messages are released here.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import re
from pathlib import Path

from edgetpu_driver.node_kit.middleware.fast_dds_memory.fast_dds_port import (
    SHARED_MEMORY,
    FastDdsPort,
    Segments,
)

_LOCK = re.compile(r"(fast(?:rtps|dds)_port(\d+))_el")
"""The file that the receiver of a port keeps locked. Fast DDS 2 and 3 have different names."""


def invalidate_zombie_ports(directory: Path = SHARED_MEMORY) -> None:
    """Make all senders stop using the ports whose receivers have ended, and release the messages in them.

    Call this before a participant is created, and when a process has ended. Ports of other users and those
    with an unknown layout are not changed.
    """
    with Segments() as segments:
        for lock in directory.glob("fast*_port*_el"):
            if name := _LOCK.fullmatch(lock.name):
                with contextlib.suppress(OSError, ValueError):
                    _invalidate_unless_locked(lock, directory / name[1], int(name[2]), segments)


def _invalidate_unless_locked(lock: Path, path: Path, number: int, segments: Segments) -> None:
    """Invalidate a port, and release the messages in it.

    Raises BlockingIOError if its receiver is running, ValueError if it is empty or its layout is unknown.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory, lock.open("rb") as locked:
        port = FastDdsPort(path, number, memory)
        # A process that is just starting cannot have a port whose lock is held here.
        if port.valid or port.is_read or port.has_waiting:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no process takes the port meanwhile
            for message in port.stop_reading():
                segments.give_back_read(message)
            port.invalidate()
            for message in port.take_waiting():
                segments.give_back_waiting(message)
