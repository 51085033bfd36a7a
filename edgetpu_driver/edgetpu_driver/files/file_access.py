"""Reads files of any origin up to a limit of size; writes files atomically and synced."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

LARGEST_MODEL = 2**28
"""Largest model file, bytes. The largest of Google's models for the Edge TPU has 50 MB."""

_NAME_LETTERS = 50
"""Leading characters of a file's name in the name of its temporary file: 200 of the 255 bytes allowed."""
_AT_ONCE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def user_path(path: str | os.PathLike[str]) -> Path:
    """Expand a leading ~ or ~user; leave it unchanged if that home directory is unknown."""
    return Path(os.path.expanduser(path))


def read_file(path: str | os.PathLike[str], largest: int = LARGEST_MODEL) -> bytes:
    """Read a regular file of at most `largest` bytes.

    Raises OSError, also for a larger file and for anything but a regular file: opening a FIFO would wait for
    a writer, and a device may have no end.
    """
    with _opened(path) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "expected a regular file")
        if status.st_size > largest:
            raise OSError(errno.EFBIG, f"expected at most {largest} bytes; it has {status.st_size}")
        data = file.read(status.st_size + 1)  # Python allocates as much as is asked for
    if len(data) != status.st_size:
        raise OSError(errno.EBUSY, f"expected {status.st_size} bytes; it changed while it was read")
    return data


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    """A file opened for reading, without waiting; OSError if that fails."""
    try:
        # Opening a descriptor instead would leave that of a directory open, and errors would lack the name.
        return open(path, "rb", opener=lambda name, _: os.open(name, _AT_ONCE))
    except ValueError as error:  # a zero byte in the name
        raise OSError(errno.EINVAL, str(error)) from None


def write_file(path: Path, data: bytes) -> bool:
    """Write a file unless it has this content already; returns whether it was written.

    An existing file is replaced atomically, and the new content survives a loss of power from then on. The
    directory is created if absent. Raises OSError, which names the file or a directory above it, and leaves
    the file unchanged if writing fails.
    """
    with contextlib.suppress(OSError):
        if read_file(path, len(data)) == data:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace_file(path, data)
    except OSError as error:
        # With the name of the file, instead of the temporary one or none.
        raise OSError(error.errno, error.strerror, str(path)) from error
    _sync_directory(path.parent)
    return True


def _replace_file(path: Path, data: bytes) -> None:
    """Write a temporary file and give it the name of a file, or remove it again."""
    import tempfile  # here, as it takes a tenth of the import time of the driver's Python API

    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:_NAME_LETTERS]}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, 0o644)
            os.fsync(descriptor)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _sync_directory(path: Path) -> None:
    """Let the names in a directory survive a loss of power, if the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
