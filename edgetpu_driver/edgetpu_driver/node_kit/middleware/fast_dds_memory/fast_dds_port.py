"""A port of Fast DDS in shared memory: whether it is valid, who reads from it, and which messages wait in it.

A message is stored in its sender's segment; a port holds only a descriptor of it. The segment counts the
ports that hold a message and its readers. The sender reuses the memory of a message that has neither.

The layout is that of Fast DDS 2.6 to 3.6 on computers with little-endian numbers.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
"""The directory of the ports and segments."""
SEGMENT_LOCK = re.compile(r"(fast(?:rtps|dds)_[0-9a-f]{16})_el")
"""The file that the sender of a segment keeps locked."""

_LAYOUT = b"port_node_abi5"
"""Name of the layout of a port in Fast DDS 2.6 to 3.6."""
_BEFORE_NUMBER = struct.Struct("=3I")
"""Number of processes that have it open, position of the queue, position of the queue's state."""
_FIELDS = struct.Struct("=7I")
"""Number of the port, listeners, ms between checks, ms of a wait, capacity, waiting listeners, flags."""
_IS_OK = 1
_ALL_FLAGS = 0b111

_DESCRIPTOR = struct.Struct("=8sII")
"""Descriptor of a message: identifier of the segment, position of its counts there, and their version."""
_ENTRY_BYTES = 4 + _DESCRIPTOR.size
"""Size of an entry of the queue: the number of listeners that have not taken it, and the descriptor."""
_LISTENER_BYTES = 4 + _DESCRIPTOR.size
"""Size of a listener's state: flags, counters, and the descriptor of the message that it reads."""
_ALL_LISTENERS_BYTES = 1024 * _LISTENER_BYTES
"""Size of the states of all listeners, which precede the name of the domain."""
_WAITS, _READS = 0b10, 0b100
"""Flags in the first byte of a listener's state: it waits for a message, or is reading one."""

_COUNTS = struct.Struct("<Q")
"""Counts of a message: 24 bits version, 20 bits number of ports that hold it, 20 bits number of readers."""
_ONE_PORT, _ONE_READER = 1 << 24, 1 << 44
_VERSION = _ONE_PORT - 1


@dataclass(frozen=True)
class Message:
    """A message in the segment of its sender."""

    segment: Path
    counts_at: int
    """Position of its counts in the segment, bytes."""
    version: int
    """Version of the counts; it changes when the memory is used for another message."""


class FastDdsPort:
    """The memory of a port, mapped for reading and writing, or a copy of it.

    path: its file, whose name begins with the domain. Raises ValueError if the layout is unknown.
    """

    def __init__(self, path: Path, number: int, memory: mmap.mmap | bytearray) -> None:
        self._memory = memory
        self._domain = path.name.partition("_")[0]
        self._directory = path.parent
        self.number_at, self._capacity = _find(memory, number)
        """Position of its number, 4 bytes."""
        self.flags_at = self.number_at + _FIELDS.size - 4
        """Position of its flags; those that matter are in the first byte."""
        self._listeners_end = memory.find(
            f"{self._domain}\0".encode(), self.flags_at + 4 + _ALL_LISTENERS_BYTES
        )
        """Position after the states of all listeners, bytes; negative if it is unknown."""

    @property
    def valid(self) -> bool:
        """Whether senders may use it."""
        return bool(self._memory[self.flags_at] & _IS_OK)

    @property
    def is_read(self) -> bool:
        """Whether a listener is reading a message."""
        return bool(self._listeners(_READS))

    @property
    def is_awaited(self) -> bool:
        """Whether a listener waits for a message."""
        return bool(self._listeners(_WAITS))

    def invalidate(self) -> None:
        """Make senders stop using it, by the mark that Fast DDS sets on a dead port."""
        self._memory[self.flags_at] &= ~_IS_OK

    @property
    def has_waiting(self) -> bool:
        """Whether messages wait in its queue."""
        return bool(self._waiting())

    def take_waiting(self, segments: Collection[Path] | None = None) -> Iterator[Message]:
        """Remove and yield the waiting messages; senders may add more to a valid port meanwhile.

        segments: those whose messages are removed; by default all.
        """
        for entry in self._waiting():
            message = self._message(entry + 4)
            if segments is None or message.segment in segments:
                self._memory[entry] = 0
                yield message

    def stop_reading(self) -> Iterator[Message]:
        """Clear and yield the messages that its listeners are reading."""
        for listener in self._listeners(_READS):
            self._memory[listener] &= ~_READS
            yield self._message(listener + 4)

    def _waiting(self) -> list[int]:
        """Positions of the entries with waiting messages; empty if the queue is not where expected."""
        queue, state = _BEFORE_NUMBER.unpack_from(self._memory, self.number_at - _BEFORE_NUMBER.size)[1:]
        end = queue + self._capacity * _ENTRY_BYTES
        if end > len(self._memory) or state + 16 > len(self._memory):
            return []
        (capacity,) = struct.unpack_from("=I", self._memory, state + 8)
        if capacity != self._capacity:
            return []
        listeners = self._memory[queue:end:_ENTRY_BYTES]  # that have not taken it: fewer than 256
        return [queue + index * _ENTRY_BYTES for index, count in enumerate(listeners) if count]

    def _listeners(self, flag: int) -> list[int]:
        """Positions of the states of the listeners with a flag; empty if the states are not found."""
        if self._listeners_end < 0:
            return []
        start = self._listeners_end - _ALL_LISTENERS_BYTES
        states = self._memory[start : self._listeners_end : _LISTENER_BYTES]
        return [start + index * _LISTENER_BYTES for index, state in enumerate(states) if state & flag]

    def _message(self, at: int) -> Message:
        segment, counts_at, version = _DESCRIPTOR.unpack_from(self._memory, at)
        return Message(self._directory / f"{self._domain}_{segment.hex()}", counts_at, version)


class Segments:
    """The segments of senders, in which messages are released; a context manager.

    Releasing a message writes one byte of its counts. Other processes do not change that byte at this time,
    as the other readers took the message long ago. If one does, a count is off by one: the memory of the
    message remains in use, or is reused early, and a process that is still reading it drops the message.
    """

    def __init__(self) -> None:
        self._memories: dict[Path, mmap.mmap | None] = {}

    def __enter__(self) -> Segments:
        return self

    def __exit__(self, *error: object) -> None:
        for memory in self._memories.values():
            if memory is not None:
                memory.close()

    def give_back_waiting(self, message: Message) -> None:
        """Reduce the number of ports that hold a message by one."""
        memory = self._memory(message.segment)
        if memory is None or (counts := _counts(memory, message)) is None:
            return
        if counts & (0xFF * _ONE_PORT):  # else another byte changes as well, with 256 ports
            memory[message.counts_at + 3] -= 1

    def give_back_read(self, message: Message) -> None:
        """Remove the reader of a message if it is the only one and no port holds the message."""
        memory = self._memory(message.segment)
        if memory is not None and _counts(memory, message) == _ONE_READER | message.version:
            memory[message.counts_at + 5] = 0

    def _memory(self, path: Path) -> mmap.mmap | None:
        """A segment; None if it is gone or belongs to another user."""
        if path not in self._memories:
            self._memories[path] = None
            with suppress(OSError, ValueError), path.open("r+b") as file:
                self._memories[path] = mmap.mmap(file.fileno(), 0)
        return self._memories[path]


def _counts(memory: mmap.mmap, message: Message) -> int | None:
    """The counts of a message; None if its memory holds another one by now, or the position is invalid."""
    if message.counts_at + _COUNTS.size > len(memory):
        return None
    (counts,) = _COUNTS.unpack_from(memory, message.counts_at)
    return int(counts) if counts & _VERSION == message.version else None


def _find(memory: mmap.mmap | bytearray, number: int) -> tuple[int, int]:
    """The position of the number of a port in its memory, bytes, and the capacity of its queue.

    Raises ValueError if there is none.
    """
    wanted = struct.pack("=I", number)
    start = memory.find(wanted) if memory.find(_LAYOUT) >= 0 else -1
    while _BEFORE_NUMBER.size <= start <= len(memory) - _FIELDS.size:
        _, _, check, wait, capacity, _, flags = _FIELDS.unpack_from(memory, start)
        if 0 < wait == check // 3 and capacity and flags <= _ALL_FLAGS:
            return start, capacity
        start = memory.find(wanted, start + 1)
    raise ValueError(f"expected a port with the number {number} and the layout {_LAYOUT.decode()}")
