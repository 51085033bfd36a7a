"""Files that a browser sends, of a limited size."""

from __future__ import annotations

from typing import Protocol

from edgetpu_driver.errors import InputError


class Upload(Protocol):
    """A file as NiceGUI has received it, in memory or on disk."""

    name: str

    def size(self) -> int:
        """Bytes of the file."""
        ...

    async def read(self) -> bytes:
        """Read the file into memory."""
        ...


async def uploaded(file: Upload, largest: int) -> bytes:
    """Read a file; InputError for one of more than `largest` bytes, which the page itself does not send."""
    if file.size() > largest:
        raise InputError(f"expected a file of at most {largest} bytes; {file.name} has {file.size()}")
    return await file.read()
