"""`edgetpu models import`: imports compiled models from a directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetpu_driver.cli.models.model_folder import FilesOfModel, examine, models_in
from edgetpu_driver.cli.terminal import Answer, Progress, table
from edgetpu_driver.errors import EdgeTpuError, ModelNotFoundError, ModelUnsupportedError, reason_of
from edgetpu_driver.files.compiled_file_names import is_file
from edgetpu_driver.files.default_paths import model_output_dir
from edgetpu_driver.files.file_access import write_file


def run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Examine every model of a directory and copy the usable ones."""
    source: Path = options.directory
    if not source.is_dir():
        raise ModelNotFoundError(f"expected a directory with models; there is none at {source}")
    found = models_in(source)
    if not found:
        raise ModelNotFoundError(f"expected .tflite files in {source}; there are none")
    directory: Path = options.output or model_output_dir()
    rows = []
    with progress.counting("importing", len(found)) as advance:
        for files in found:
            rows.append(_take_over(files, directory, options.overwrite))
            advance()
    refused = any("refused" in row for row in rows)
    return Answer({"directory": directory, "models": rows}, _text(rows, directory), 1 if refused else 0)


def _take_over(files: FilesOfModel, directory: Path, overwrite: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"name": files.name, "files": [path.name for path in files.present]}
    try:
        contents = files.read()
        row |= asdict(examine(files, contents))
        if not overwrite:
            _keep_others(contents, directory)
        written = [name for name, data in contents.items() if write_file(directory / name, data)]
    except (EdgeTpuError, OSError) as error:
        return row | {"refused": reason_of(error)}
    return row | {"written": written}


def _keep_others(contents: dict[str, bytes], directory: Path) -> None:
    for name, data in contents.items():
        path = directory / name
        if is_file(path) and path.read_bytes() != data:
            raise ModelUnsupportedError(f"{path} exists with other content; replace it with --overwrite")


def _text(rows: Sequence[dict[str, Any]], directory: Path) -> str:
    taken = [row for row in rows if "refused" not in row]
    parts = []
    if taken:
        lines = [(row["name"], row["kind"], ", ".join(row["backends"]), _remark(row)) for row in taken]
        parts.append(table(lines, ("model", "kind", "runs on", "use")))
    parts += [f"{row['name']}: REFUSED: {row['refused']}" for row in rows if "refused" in row]
    parts.append(f"{len(taken)} of {len(rows)} models are in {directory}")
    return "\n".join(parts)


def _remark(row: dict[str, Any]) -> str:
    left = len(row["cpu_operators"])
    if not left:
        return str(row["use"])
    counted = "1 operator runs" if left == 1 else f"{left} operators run"
    return f"{row['use']}; {counted} on the CPU ({', '.join(sorted(set(row['cpu_operators'])))})"
