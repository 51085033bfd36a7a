"""Unnamed files in memory, which need no directory that may be full or read-only."""

from __future__ import annotations

import os
from typing import IO


def memory_file() -> IO[bytes]:
    """Open an unnamed file for reading and writing: in memory, or on the disk if the system lacks those.

    Raises OSError.
    """
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("edgetpu", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "w+b")
    import tempfile

    return tempfile.TemporaryFile()
