"""Invalidates the ports that killed processes have left in the shared memory of Fast DDS.

A process receives messages in ports in shared memory, and everyone who sends to it keeps its ports mapped.
The next process that is started gets new ports with the same numbers. Senders notice that an old port is dead
when its listener waits and no longer counts. If the process was killed while it took a message, its listener
does not wait, and they write to the old port for ever: the new process is discovered, its services look
ready, and nothing sent to it arrives. Fast DDS 2.14.5 and 3.6.2 have this fault (Fast-DDS pull request 4737).

The mark set here is the one that Fast DDS sets on a dead port. It is in memory that all senders share, and
each of them looks at it before it sends. A living receiver with a marked port makes a new one.

A sender that finds a dead port also gives back the message that its listener was reading. For this Fast DDS
locks the port twice, waits for itself, and sends nothing any more, to nobody. So what a listener of a dead
port reads is forgotten first. A sender that waits already goes on after 10 s then. Its memory for that
message, 64 KiB at most, remains in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import re
import struct
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")

_LOCK = re.compile(r"(fast(?:rtps|dds)_port(\d+))_el")
"""The file that the receiver of a port keeps locked. Fast DDS 2 and 3 have different names."""
_LAYOUT = b"port_node_abi5"
"""Name of the layout of a port in Fast DDS 2.6 to 3.6."""
_FIELDS = struct.Struct("=7I")
"""Number of the port, listeners, ms between checks, ms of a wait, capacity, waiting listeners, flags."""
_IS_OK = 1
_ALL_FLAGS = 0b111

_LISTENER_BYTES = 20
"""Of the state of a listener (Fast DDS 2.14.5)."""
_ALL_LISTENERS_BYTES = 1024 * _LISTENER_BYTES
"""Of the states of all listeners, which stand before the name of the domain."""
_READS = 0b100
"""In the first byte of the state of a listener: it is reading a message."""


def invalidate_zombie_ports(directory: Path = SHARED_MEMORY) -> None:
    """Have all senders drop the ports whose receivers have ended; to be called before a new participant.

    A port of another user, or with an unknown layout, is left as it is.
    """
    for lock in directory.glob("fast*_port*_el"):
        if name := _LOCK.fullmatch(lock.name):
            with contextlib.suppress(OSError, ValueError):
                _invalidate_unless_locked(lock, directory / name[1], int(name[2]))


def _invalidate_unless_locked(lock: Path, port: Path, number: int) -> None:
    """Raises BlockingIOError if its receiver lives, and ValueError if the port is empty."""
    with port.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory, lock.open("rb") as locked:
        flags_at = _position_of_flags(memory, number)
        if flags_at is None:
            return
        domain = lock.name.partition("_")[0]
        end = memory.find(f"{domain}\0".encode(), flags_at + _ALL_LISTENERS_BYTES)
        # A process that is just starting cannot have a port whose lock is held here.
        if memory[flags_at] & _IS_OK or _reading_listeners(memory, end):
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no process takes the port meanwhile
            for listener in _reading_listeners(memory, end):
                memory[listener] &= ~_READS
            memory[flags_at] &= ~_IS_OK


def _reading_listeners(memory: mmap.mmap, end: int) -> list[int]:
    """Where the states of listeners are that are reading a message.

    `end`: that of all states, where the name of the domain is; negative if it is not there.
    """
    if end < 0:
        return []
    states = range(end - _ALL_LISTENERS_BYTES, end, _LISTENER_BYTES)
    return [state for state in states if memory[state] & _READS]


def _position_of_flags(memory: mmap.mmap, number: int) -> int | None:
    """Where the flags of a port are in its memory; None if it is not as expected."""
    if memory.find(_LAYOUT) < 0:
        return None
    start = memory.find(struct.pack("=I", number))
    while 0 <= start <= len(memory) - _FIELDS.size:
        _, _, check, wait, capacity, _, flags = _FIELDS.unpack_from(memory, start)
        if 0 < wait == check // 3 and capacity and flags <= _ALL_FLAGS:
            return start + _FIELDS.size - 4
        start = memory.find(struct.pack("=I", number), start + 1)
    return None
