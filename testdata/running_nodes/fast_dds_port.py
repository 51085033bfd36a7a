"""A port in shared memory as Fast DDS makes it, without a process that receives from it."""

from __future__ import annotations

import struct
from pathlib import Path

OK, DEAD = 0b111, 0b110
"""Flags of a port: that it can be used, that it has one receiver, and that it has one at all."""

_NUMBER = 4_000_000_000
"""Of a port that no participant has: those have 16 bits."""
_AFTER_FLAGS = 50
"""Bytes."""
LISTENERS = 1024 * 20
"""Bytes of the states of a port's listeners, which stand before the name of its domain."""
USED, WAITS, READS = 0b1, 0b10, 0b100
"""State of a listener, in its first byte: that there is one, that it waits, and that it reads a message."""


class FastDdsPort:
    """The two files of a port; whoever locks `lock` is its receiver."""

    def __init__(
        self,
        directory: Path,
        domain: str = "fastrtps",
        flags: int = OK,
        layout: bytes = b"port_node_abi5",
        listener: int = USED | WAITS,
    ) -> None:
        self.path = directory / f"{domain}_port{_NUMBER}"
        self.lock = directory / f"{self.path.name}_el"
        fields = struct.pack("=7I", _NUMBER, 1, 1000, 333, 512, 1, flags)
        before = layout + struct.pack("=I", _NUMBER) + bytes(50) + fields
        self._flags_at = len(before) - 4
        self._listener_at = len(before) + _AFTER_FLAGS
        listeners = bytes([listener]).ljust(LISTENERS, b"\0")
        self.path.write_bytes(before + bytes(_AFTER_FLAGS) + listeners + f"{domain}\0".encode())
        self.lock.touch()

    @property
    def flags(self) -> int:
        """Its present flags."""
        (flags,) = struct.unpack_from("=I", self.path.read_bytes(), self._flags_at)
        return int(flags)

    @property
    def listener(self) -> int:
        """Present state of its listener."""
        return self.path.read_bytes()[self._listener_at]

    def remove(self) -> None:
        """Delete its files."""
        self.path.unlink()
        self.lock.unlink()
