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


class FastDdsPort:
    """The two files of a port; whoever locks `lock` is its receiver."""

    def __init__(
        self,
        directory: Path,
        domain: str = "fastrtps",
        flags: int = OK,
        layout: bytes = b"port_node_abi5",
    ) -> None:
        self.path = directory / f"{domain}_port{_NUMBER}"
        self.lock = directory / f"{self.path.name}_el"
        fields = struct.pack("=7I", _NUMBER, 1, 1000, 333, 512, 1, flags)
        self.path.write_bytes(layout + struct.pack("=I", _NUMBER) + bytes(50) + fields + bytes(_AFTER_FLAGS))
        self.lock.touch()

    @property
    def flags(self) -> int:
        """Its present flags."""
        content = self.path.read_bytes()
        (flags,) = struct.unpack_from("=I", content, len(content) - _AFTER_FLAGS - 4)
        return int(flags)

    def remove(self) -> None:
        """Delete its files."""
        self.path.unlink()
        self.lock.unlink()
