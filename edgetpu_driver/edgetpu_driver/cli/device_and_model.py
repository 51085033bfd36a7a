"""Opens the accelerator and the model that command-line options select."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.backends.whole_model_parsing import ParsedPlan, parse_whole
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep
from edgetpu_driver.errors import InputError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import is_file
from edgetpu_driver.files.default_paths import firmware_path
from edgetpu_driver.tflite.checks.file_checks import read_model_file

PATIENT = ProcessLimits(load_seconds=120.0, run_seconds=120.0)
"""Limits of processes that run users' graphs: a person waits for one result and may interrupt."""

_IGNORED = {
    "cpu": (("serial", "port", "firmware"), "which has no stick"),
    "virtual": (("serial", "firmware"), "which has one stick, with its firmware"),
}
"""The options that a backend would ignore, and why; given. A virtual stick is at the port asked for."""


@contextmanager
def opened(backend: Backend) -> Iterator[Backend]:
    """Open the selected accelerator until the context ends. Raises DeviceError, DependencyMissingError."""
    backend.open()
    try:
        yield backend
    finally:
        backend.close()


def chosen(options: argparse.Namespace) -> Backend:
    """The selected accelerator, not yet open. Raises InputError for options that it would ignore."""
    check_stick_options(options)
    return make_backend(
        options.backend,
        serial=options.serial,
        bus_path=options.port,
        firmware=options.firmware or default_firmware(),
        preset=options.preset,
        limits=PATIENT,
    )


def check_stick_options(options: argparse.Namespace) -> None:
    """Raise InputError for an option of a real stick that the backend would ignore."""
    ignored, reason = _IGNORED.get(options.backend, ((), ""))
    for name in ignored:
        if given := getattr(options, name):
            raise InputError(
                f"expected no --{name} with the backend {options.backend}, {reason}; got {given}"
            )


def default_firmware() -> str:
    """The firmware file in the directory of the suite; empty if missing, or if the home cannot be read."""
    path = firmware_path()
    return str(path) if is_file(path) else ""


def parse(backend: Backend, paths: Sequence[Path]) -> ParsedPlan:
    """Parse a whole model for the accelerator: one file, or the segments of a pipeline.

    ModelUnsupportedError, with the reason, if it cannot run there.
    """
    parsed = parse_whole(backend, [(path, read_model_file(path)) for path in paths])
    parsed.check_supported()
    return parsed


def part(parsed: ParsedPlan, number: int) -> EdgeTpuStep:
    """The part for the Edge TPU by number, from 1; InputError if there is none."""
    parts = parsed.plan.edge_tpu_steps
    if not parts:
        raise InputError(
            "--part is for models with parts for the Edge TPU; on this backend the model has none"
        )
    if not 0 < number <= len(parts):
        count = f"{len(parts)} part{'s' * (len(parts) != 1)} for the Edge TPU"
        raise InputError(f"expected --part from 1 to {len(parts)}; got {number}: the model has {count}")
    return parts[number - 1]


def compiled_parts(path: Path, data: bytes) -> tuple[CompiledModel, ...]:
    """The parts for the Edge TPU in the bytes of a file.

    Raises ModelFormatError and ModelUnsupportedError, with the name of the file.
    """
    try:
        return CompiledModel.parse_parts(data)
    except (ModelFormatError, ModelUnsupportedError) as error:
        raise type(error)(f"{path}: {error}") from None
