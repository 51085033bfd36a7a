"""Model files that a browser sends."""

from __future__ import annotations

import re
from pathlib import Path

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import write_file

LARGEST = 128 * 2**20
"""Largest model, bytes: more than the largest of Coral's."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,120}\.tflite", re.ASCII | re.IGNORECASE)


def save_model(data: bytes, name: str, folder: Path) -> Path:
    """Write a model under its name into a folder, replacing one of the same name, and return its path.

    The suffix is written in lower case, in which the driver looks for it. Raises InputError for a file that
    is not a model, a name with unusual characters, and if the file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"expected a name such as model.tflite; got '{name}'")
    if data[4:8] != b"TFL3":
        raise InputError(f"expected a TensorFlow Lite model; {name} is not one")
    path = (folder / name).with_suffix(".tflite")
    try:
        write_file(path, data)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    return path
