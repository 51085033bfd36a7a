"""Findings on the models in the driver's folder and their uses."""

from __future__ import annotations

import shlex
from pathlib import Path

from edgetpu_driver.cli.doctor.finding import Finding, fine, note
from edgetpu_driver.cli.models.model_folder import FilesOfModel, examine, models_in
from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.toolchain.edgetpu_compiler import compile_command

_REPLACE = "put the model in its place, or remove it"


def models(directory: Path, backend: str) -> tuple[Finding, ...]:
    """A finding for each model of a folder. backend: the one that should run them."""
    found = models_in(directory)
    if not found:
        return (
            note(
                "models",
                f"none in {directory}",
                "edgetpu models build --all, then edgetpu models compile (docs/getting_started.md, step 7)",
            ),
        )
    return tuple(_model(files, backend) for files in found)


def _model(files: FilesOfModel, backend: str) -> Finding:
    subject = f"model {files.name}"
    try:
        seen = examine(files, files.read())
    except EdgeTpuError as error:
        remedy = f"rm {shlex.join(map(str, files.present))}" if files.present else _REPLACE
        return note(subject, f"cannot be used: {error}", remedy)
    if backend in seen.backends:
        return fine(subject, f"{seen.use}; runs on {', '.join(seen.backends)}")
    where = ", ".join(seen.backends) or "nothing"
    if files.graph is None:
        return note(
            subject,
            f"{seen.use}; runs on {where}, not on {backend}, which needs its graph",
            shlex.join(["cp", f"{files.name}.tflite", str(files.present[0].parent)]),
        )
    return note(
        subject,
        f"{seen.use}; runs on {where}, not on {backend}",
        compile_command(files.graph),
    )
