"""Invalidates the ports that killed processes have left in the shared memory of Fast DDS.

A process receives messages in ports in shared memory, and everyone who sends to it keeps its ports mapped.
The next process that is started gets new ports with the same numbers. Senders notice that an old port is dead
when its listener waits and no longer counts. If the process was killed while it took a message, its listener
does not wait, and they write to the old port for ever: the new process is discovered, its services look
ready, and nothing sent to it arrives. Fast DDS 2.14.5 and 3.6.2 have this fault (Fast-DDS pull request 4737).

The mark set here is the one that Fast DDS sets on a dead port. It is in memory that all senders share, and
each of them looks at it before it sends. A living receiver with a marked port makes a new one.

A sender that finds a dead port also gives back the message that its listener was reading. For this Fast DDS
locks the port twice, which is a deadlock: it sends nothing to anyone any more. So what a listener of a dead
port reads is forgotten first. A sender that is in the deadlock already then continues after 10 s.

Nobody gives back the messages that wait in a dead port. Their memory is in the segment of the sender, who
counts it as used until no free byte is left. After a few restarts the free bytes suffice for an image but not
in one piece, and no image is sent any more, while shorter messages are. So they are given back here.
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
    """Have all senders drop the ports whose receivers have ended, and give them back their messages.

    To be called before a new participant, or when a process has ended. A port of another user, or with an
    unknown layout, is left as it is.
    """
    with Segments() as segments:
        for lock in directory.glob("fast*_port*_el"):
            if name := _LOCK.fullmatch(lock.name):
                with contextlib.suppress(OSError, ValueError):
                    _invalidate_unless_locked(lock, directory / name[1], int(name[2]), segments)


def _invalidate_unless_locked(lock: Path, path: Path, number: int, segments: Segments) -> None:
    """Raises BlockingIOError if its receiver lives, and ValueError if the port is empty or unknown."""
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
