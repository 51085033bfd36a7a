"""Opens the accelerator and the model that command-line options select."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgetpu_driver.backends.backend import Backend, ParsedModel
from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.errors import ModelNotFoundError
from edgetpu_driver.files import read_file
from edgetpu_driver.toolchain.model_files import firmware_path


@contextmanager
def opened(backend: Backend) -> Iterator[Backend]:
    """Open the selected accelerator until the context ends. Raises DeviceError, DependencyMissingError."""
    backend.open()
    try:
        yield backend
    finally:
        backend.close()


def chosen(options: argparse.Namespace) -> Backend:
    """The selected accelerator, not yet open."""
    return make_backend(
        options.backend,
        serial=options.serial,
        bus_path=options.port,
        firmware=options.firmware or default_firmware(),
        preset=options.preset,
    )


def default_firmware() -> str:
    """The firmware file in the directory of the suite; empty if it is not there."""
    path = firmware_path()
    return str(path) if path.is_file() else ""


def parse(backend: Backend, path: Path) -> ParsedModel:
    """Parse a file for that accelerator; the model is named after the file."""
    return backend.parse(path, read_model(path))


def read_model(path: Path) -> bytes:
    """The bytes of a model file; ModelNotFoundError if it cannot be read."""
    try:
        return read_file(path)
    except OSError as error:
        raise ModelNotFoundError(f"cannot read the model {path}: {error.strerror}") from None
