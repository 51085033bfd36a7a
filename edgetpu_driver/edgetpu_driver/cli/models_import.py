"""`edgetpu models import`: imports compiled models from a directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetpu_driver.backends.factory import BACKENDS
from edgetpu_driver.backends.usable_backends import usable_backends
from edgetpu_driver.cli.session import read_model
from edgetpu_driver.cli.terminal import Answer, Progress, table
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.whole_model.plan import EdgeTpuStep, ModelPlan
from edgetpu_driver.engines.whole_model.planning import plan_model
from edgetpu_driver.errors import (
    EdgeTpuError,
    ModelFormatError,
    ModelNameError,
    ModelNotFoundError,
    ModelUnsupportedError,
)
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_driver.files.file_access import write_file
from edgetpu_driver.toolchain.compiled_file_names import COMPILED_SUFFIX, plain_stem
from edgetpu_driver.toolchain.graph_catalogue import catalogue
from edgetpu_driver.toolchain.graph_family import GraphFamily, build_graph
from edgetpu_driver.toolchain.model_recognition import OTHER, Kind, parse_sidecar, recognise


@dataclass(frozen=True)
class _Files:
    """The files of one model, each optional."""

    name: str
    compiled: Path | None
    graph: Path | None
    sidecar: Path | None

    @classmethod
    def of(cls, name: str, directory: Path) -> _Files:
        suffixes = (f"{COMPILED_SUFFIX}.tflite", ".tflite", f"{COMPILED_SUFFIX}.json")
        paths = [directory / f"{name}{suffix}" for suffix in suffixes]
        return cls(name, *(path if path.is_file() else None for path in paths))

    @property
    def present(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.compiled, self.graph, self.sidecar) if path is not None)


def run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Examine every model of a directory and copy the usable ones."""
    source: Path = options.directory
    if not source.is_dir():
        raise ModelNotFoundError(f"expected a directory with models; there is none at {source}")
    names = sorted({plain_stem(path) for path in source.glob("*.tflite")})
    if not names:
        raise ModelNotFoundError(f"expected .tflite files in {source}; there are none")
    directory: Path = options.output or default_model_dir()
    rows = []
    with progress.counting("importing", len(names)) as advance:
        for name in names:
            rows.append(_take_over(_Files.of(name, source), directory, options.overwrite))
            advance()
    refused = any("refused" in row for row in rows)
    return Answer({"directory": directory, "models": rows}, _text(rows, directory), 1 if refused else 0)


def _take_over(files: _Files, directory: Path, overwrite: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"name": files.name, "files": [path.name for path in files.present]}
    try:
        if not files.present:
            raise ModelNotFoundError("expected a file; there is a directory or a broken link")
        contents = {path.name: read_model(path) for path in files.present}
        row |= _examine(files, contents)
        if not overwrite:
            _keep_others(contents, directory)
    except EdgeTpuError as error:
        return row | {"refused": str(error)}
    written = [name for name, data in contents.items() if write_file(directory / name, data)]
    return row | {"written": written}


def _examine(files: _Files, contents: dict[str, bytes]) -> dict[str, Any]:
    """The kind of a model and its backends; EdgeTpuError if it cannot be used."""
    graph = contents[files.graph.name] if files.graph else None
    source = plan_model(graph, files.name) if graph is not None else None
    specs = (source.inputs, source.outputs) if source is not None else ((), ())
    plan = None
    if files.compiled is not None:
        data = contents[files.compiled.name]
        CompiledModel.parse_parts(data, files.name)  # raises if there are none
        plan = plan_model(data, files.name, files.compiled)
        if plan.unsupported_reason:
            raise ModelUnsupportedError(plan.unsupported_reason)
        if source is not None:
            _check_pair(plan, source)
        specs = plan.inputs, plan.outputs
    compiled = plan.edge_tpu_steps[0].model if plan is not None and len(plan.steps) == 1 else None
    sidecar = parse_sidecar(contents[files.sidecar.name]) if files.sidecar else None
    kind = recognise(*specs, compiled=compiled, graph=graph, sidecar=sidecar)
    if kind is OTHER and graph is not None:
        kind = _own_kind(files.name, graph) or OTHER
    return {
        "kind": kind.name,
        "use": kind.use,
        "backends": _backends(files, contents),
        "cpu_operators": _cpu_operators(plan) if plan is not None else (),
    }


def _own_kind(name: str, graph: bytes) -> Kind | None:
    """The graph that `edgetpu models build` makes for that name; None for any other name."""
    for family in catalogue().families:
        if family.pattern.fullmatch(name) and _builds(family, name) == graph:
            return Kind("own", family.purpose)
    return None


def _builds(family: GraphFamily, name: str) -> bytes | None:
    try:
        return build_graph(name, [family])
    except ModelNameError:
        return None


def _check_pair(plan: ModelPlan, graph: ModelPlan) -> None:
    """Refuse a graph that is not a compiled model's source: inputs or outputs of the whole differ."""
    for ours, theirs in ((graph.inputs, plan.inputs), (graph.outputs, plan.outputs)):
        if [(spec.shape, spec.dtype) for spec in ours] != [(spec.shape, spec.dtype) for spec in theirs]:
            raise ModelFormatError(
                f"its graph has {', '.join(map(str, ours))} where the compiled model has "
                f"{', '.join(map(str, theirs))}: it was compiled from another graph"
            )


def _cpu_operators(plan: ModelPlan) -> tuple[str, ...]:
    """Names of the operators that do not run on the Edge TPU, in order."""
    return tuple(name for step in plan.steps if not isinstance(step, EdgeTpuStep) for name in step.operators)


def _backends(files: _Files, contents: dict[str, bytes]) -> tuple[str, ...]:
    """Backends that can run a model: usb and virtual its compiled file, virtual and cpu its graph."""
    usable = set()
    for path in (files.compiled, files.graph):
        if path is not None:
            found = usable_backends([(path, contents[path.name])])
            usable |= {name for name, each in found.items() if not each.obstacle}
    return tuple(name for name in BACKENDS if name in usable)


def _keep_others(contents: dict[str, bytes], directory: Path) -> None:
    for name, data in contents.items():
        path = directory / name
        if path.is_file() and path.read_bytes() != data:
            raise ModelUnsupportedError(f"{path} is another file of that name; replace it with --overwrite")


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
