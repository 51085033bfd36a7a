"""Fast DDS's ports in shared memory and their messages: artificial ones, and those of a running process."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from rclpy.utilities import get_rmw_implementation_identifier

from edgetpu_driver.node_kit.middleware.fast_dds_memory.fast_dds_port import SHARED_MEMORY
from edgetpu_driver.node_kit.middleware.fast_dds_memory.lost_ports import mapped_ports

FAST_DDS_ONLY = pytest.mark.skipif(
    not get_rmw_implementation_identifier().startswith("rmw_fastrtps"), reason="needs Fast DDS"
)

OK, DEAD = 0b111, 0b110
"""Flags of a port: that it can be used, that it has one receiver, and that it has one at all."""

_NUMBER = 4_000_000_000
"""Number of a port that no participant has: numbers of participants' ports have 16 bits."""
_CAPACITY = 512
"""Largest number of messages that wait in a port."""
_QUEUE_BYTES, _STATE_BYTES = _CAPACITY * 20, 16
_AFTER_FLAGS = 50
"""Number of bytes between the flags and the listeners."""
LISTENERS = 1024 * 20
"""Number of bytes with the states of a port's listeners, which precede the name of its domain."""
USED, WAITS, READS = 0b1, 0b10, 0b100
"""Bits of a listener's state, in its first byte: it exists, it waits, it reads a message."""


class SentMessage:
    """A message in the segment of its sender, which waits in `ports` ports and has `readers` readers."""

    IDENTIFIER = bytes(range(8))
    _COUNTS_AT = 16

    def __init__(self, directory: Path, *, ports: int = 0, readers: int = 0, version: int = 5) -> None:
        self._path = directory / f"fastrtps_{self.IDENTIFIER.hex()}"
        counts = struct.pack("<Q", version | ports << 24 | readers << 44)
        self._path.write_bytes(b"\xff" * self._COUNTS_AT + counts + b"\xff" * 8)
        self.descriptor = struct.pack("=8sII", self.IDENTIFIER, self._COUNTS_AT, version)

    @property
    def counts(self) -> tuple[int, int]:
        """Number of ports in which it waits, and of its readers; asserts that nothing else has changed."""
        data = self._path.read_bytes()
        assert data[: self._COUNTS_AT] == b"\xff" * self._COUNTS_AT
        assert data[self._COUNTS_AT + 8 :] == b"\xff" * 8
        (counts,) = struct.unpack_from("<Q", data, self._COUNTS_AT)
        return counts >> 24 & 0xFFFFF, counts >> 44

    @contextlib.contextmanager
    def sent(self) -> Iterator[None]:
        """Be the sender, which keeps its segment locked."""
        with self._path.with_name(f"{self._path.name}_el").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def reuse(self) -> None:
        """Let the sender reuse the memory for another message, which waits in one port."""
        SentMessage(self._path.parent, ports=1, version=6)

    def remove(self) -> None:
        """Delete the segment, as its sender does when it ends."""
        self._path.unlink()


class PortFiles:
    """The two files of a port; the process that has locked `lock` is its receiver.

    waiting, read: descriptors of the messages that wait in the port, and of the one that its listener reads.
    """

    def __init__(
        self,
        directory: Path,
        domain: str = "fastrtps",
        flags: int = OK,
        layout: bytes = b"port_node_abi5",
        listener: int = USED | WAITS,
        waiting: tuple[bytes, ...] = (),
        read: bytes = b"",
    ) -> None:
        self.path = directory / f"{domain}_port{_NUMBER}"
        self.lock = directory / f"{self.path.name}_el"
        entries = b"".join(struct.pack("=I", 1) + descriptor for descriptor in waiting)
        queue = bytes(100) + entries.ljust(_QUEUE_BYTES, b"\0")
        state = struct.pack("=4I", len(waiting), _CAPACITY - len(waiting), _CAPACITY, 1)
        positions = struct.pack("=3I", 2, 100, len(queue))
        fields = struct.pack("=7I", _NUMBER, 1, 1000, 333, _CAPACITY, 1, flags)
        before = queue + state + layout + struct.pack("=I", _NUMBER) + bytes(50) + positions + fields
        self._flags_at = len(before) - 4
        self._listener_at = len(before) + _AFTER_FLAGS
        listeners = (bytes([listener]).ljust(4, b"\0") + read).ljust(LISTENERS, b"\0")
        self._content = before + bytes(_AFTER_FLAGS) + listeners + f"{domain}\0".encode()
        self.path.write_bytes(self._content)
        self.lock.touch()

    @property
    def flags(self) -> int:
        """Present flags of the port."""
        return self.flags_in(self.path.read_bytes())

    @property
    def listener(self) -> int:
        """Present state of its listener."""
        return self.listener_in(self.path.read_bytes())

    @contextlib.contextmanager
    def received(self) -> Iterator[None]:
        """Be the port's receiver, which is alive."""
        with self.lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def mapped(self) -> Iterator[mmap.mmap]:
        """Map the port, like a process that receives from it or sends to it."""
        with self.path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            yield memory

    def listener_in(self, memory: mmap.mmap | bytes) -> int:
        """State of the listener of the port in this memory."""
        return memory[self._listener_at]

    def stop_reading_in(self, memory: mmap.mmap) -> None:
        """Have the listener of the port in this memory finish its message."""
        memory[self._listener_at] &= ~READS

    def flags_in(self, memory: mmap.mmap | bytes) -> int:
        """Flags of the port in this memory."""
        (flags,) = struct.unpack_from("=I", memory, self._flags_at)
        return int(flags)

    def renew(self) -> None:
        """Replace the port by one as it was at first."""
        self._replace(self._content)

    def replace_port(self) -> None:
        """Replace the port by a new file, like a process that takes it for dead."""
        self._replace(self.path.read_bytes())

    def _replace(self, content: bytes) -> None:
        other = self.path.with_name(f"{self.path.name}_new")
        other.write_bytes(content)
        other.rename(self.path)

    def remove(self) -> None:
        """Delete the files of the port."""
        self.path.unlink()
        self.lock.unlink()


def ports_of(pid: int) -> list[Path]:
    """The ports from which a process receives: those whose locks it holds."""
    return _locked(pid, r"(.*/fast(?:rtps|dds)_port\d+)_el")


def keeps_ports(pid: int) -> bool:
    """Whether others can find the ports from which a process receives: none of them has been replaced."""
    ports = mapped_ports(SHARED_MEMORY, Path(f"/proc/{pid}"))
    return not any(port.received and port.is_lost for port in ports)


def segments_of(pid: int) -> list[Path]:
    """The segments with the messages that a process sends."""
    return _locked(pid, r"(.*/fast(?:rtps|dds)_[0-9a-f]{16})_el")


def _locked(pid: int, lock: str) -> list[Path]:
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed in the meantime
            if match := re.fullmatch(lock, os.readlink(descriptor)):
                found.append(Path(match[1]))
    return found
