"""`edgetpu models build`: writes the suite's own graphs, each with a JSON sidecar."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetpu_driver.cli.terminal import Answer, Progress, say, table
from edgetpu_driver.errors import ModelNameError, ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import COMPILED_SUFFIX, is_file
from edgetpu_driver.files.default_paths import model_output_dir
from edgetpu_driver.files.file_access import write_file
from edgetpu_driver.toolchain.graph_catalogue import Catalogue, catalogue
from edgetpu_driver.toolchain.graph_family import build_graph
from edgetpu_driver.toolchain.sidecar_writer import describe, to_text


def run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Build the requested graphs; all names are checked before anything is written."""
    offered = catalogue()
    if options.list:
        _warn(offered)
        return _list(offered)
    names: Sequence[str] = options.names
    if options.all:
        names = [name for family in offered.families for name in family.standard]
    graphs = {}
    with progress.counting("building graphs", len(names)) as advance:
        for name in names:
            graphs[name] = _build(name, offered)
            advance()
    _warn(offered)
    directory: Path = options.output or model_output_dir()
    rows = [_write(name, data, directory) for name, data in graphs.items()]
    value = {"directory": directory, "problems": offered.problems, "graphs": rows}
    return Answer(value, _text(rows), 1 if any("refused" in row for row in rows) else 0)


def write_standard_graphs(directory: Path) -> list[Path]:
    """Write the graphs that the nodes use by default and return their paths.

    ModelUnsupportedError if the directory has a model compiled from another graph.
    """
    offered = catalogue()
    _warn(offered)
    names = [name for family in offered.families for name in family.standard]
    rows = [_write(name, _build(name, offered), directory) for name in names]
    for row in rows:
        if "refused" in row:
            raise ModelUnsupportedError(str(row["refused"]))
    return [row["path"] for row in rows]


def _warn(offered: Catalogue) -> None:
    for problem in offered.problems:
        say(problem)


def _build(name: str, offered: Catalogue) -> bytes:
    try:
        return build_graph(name, offered.families)
    except ModelNameError as error:
        raise ModelNameError("; ".join([str(error), *offered.problems])) from error


def _write(name: str, data: bytes, directory: Path) -> dict[str, Any]:
    path = directory / f"{name}.tflite"
    description = describe(name, data)
    compiled = directory / f"{name}{COMPILED_SUFFIX}.tflite"
    if is_file(compiled) and not (is_file(path) and path.read_bytes() == data):
        reason = f"{compiled.name} was compiled from another graph; remove it, or build to another directory"
        return description | {"path": path, "refused": reason}
    written = write_file(path, data)
    sidecar = directory / f"{name}.json"
    written |= write_file(sidecar, to_text(description).encode())
    return description | {"path": path, "sidecar": sidecar, "written": written}


def _text(rows: Sequence[dict[str, Any]]) -> str:
    return table(
        [(row["path"], row["bytes"], row["parameter_bytes"], _outcome(row)) for row in rows],
        ("graph", "bytes", "parameters", ""),
    )


def _outcome(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"NOT WRITTEN: {row['refused']}"
    return "written" if row["written"] else "up to date"


def _list(offered: Catalogue) -> Answer:
    families = [
        {"form": family.form, "purpose": family.purpose, "standard": family.standard}
        for family in offered.families
    ]
    lines = []
    for family in offered.families:
        lines += [f"{family.form}: {family.purpose}", *(f"  {name}" for name in family.standard)]
    return Answer({"families": families, "problems": offered.problems}, "\n".join(lines))
