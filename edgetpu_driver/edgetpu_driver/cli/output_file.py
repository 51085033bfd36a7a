"""Writes the files that a user names with --output."""

from __future__ import annotations

import os
from pathlib import Path

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import write_file


def write_output(path: Path, data: bytes) -> None:
    """Write a file; if that fails, raise InputError and leave an earlier file unchanged.

    A file behind a link is replaced, not the link. Pipes and devices such as /dev/null are written to.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                file.write(data)
        else:
            write_file(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
