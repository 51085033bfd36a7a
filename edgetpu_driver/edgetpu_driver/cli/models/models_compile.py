"""`edgetpu models compile`: runs edgetpu_compiler; without it, writes programs here or packs graphs."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.cli.models.model_folder import keep_others
from edgetpu_driver.cli.models.models_build import write_standard_graphs
from edgetpu_driver.cli.terminal import Answer, Progress
from edgetpu_driver.compiled_model import DENSE_COMPILER, VIRTUAL_COMPILER, CompiledModel
from edgetpu_driver.errors import (
    CompilerError,
    EdgeTpuError,
    InputError,
    ModelFormatError,
    ModelUnsupportedError,
    reason_of,
)
from edgetpu_driver.files.compiled_file_names import COMPILED_SUFFIX, is_file
from edgetpu_driver.files.default_paths import model_output_dir
from edgetpu_driver.files.file_access import write_file
from edgetpu_driver.files.sidecar import read_sidecar
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain.dense_compiler import WrittenModel, compile_dense
from edgetpu_driver.toolchain.edgetpu_compiler import PROGRAM, Compilation, compile_graphs, find_compiler
from edgetpu_driver.toolchain.mappable_operators import SUPPORTED_OPERATORS
from edgetpu_driver.toolchain.remote_compiler import RemoteCompiler
from edgetpu_driver.toolchain.retargeting.compiled_sources import RETARGETED_FROM

_PACKED = (
    f"There is no {PROGRAM} in PATH, and no --on HOST: packed for the virtual stick only. A real stick "
    "cannot run these files."
)
_NAMED = 3
"""Maximum number of graphs with the same error that are listed by name."""

_Row = dict[str, Any]


def run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Compile files one by one, or all together; a failure does not stop the others."""
    compiler = _compiler(options)
    paths = write_standard_graphs(options.output or model_output_dir()) if options.all else options.files
    graphs, compiled = _read_graphs(paths)
    together: bool = options.co_compile
    _check_names(graphs, options.output, together=together)
    groups = [list(graphs)] if together else [[path] for path in graphs]
    rows: list[_Row] = []
    with progress.counting("compiling", len(groups)) as advance:
        for group in groups:
            rows += _rows(group, graphs, compiler, options)
            advance()
    failed = any("error" in row for row in rows)
    value = {
        "target": _target(rows, compiler),
        "compiler": str(compiler) if compiler else None,
        "skipped": compiled,
        "models": rows,
        "resident_together": _resident_together(rows) if together else None,
    }
    return Answer(value, _text(value), 1 if failed else 0)


def _compiler(options: argparse.Namespace) -> str | RemoteCompiler | None:
    """The compiler, local or remote; None if there is neither."""
    if options.on:
        return RemoteCompiler(options.on, options.compiler or PROGRAM)
    return find_compiler(options.compiler)


def _target(rows: Sequence[_Row], compiler: object) -> str:
    """The target of the files: the Edge TPU, or the virtual stick if any file is for it alone."""
    packed = not compiler and any(row.get("written_by") == VIRTUAL_COMPILER for row in rows)
    return "virtual" if packed else "edgetpu"


def _read_graphs(paths: Iterable[Path]) -> tuple[dict[Path, bytes], list[Path]]:
    """Separate graphs from compiled files, since *.tflite matches both."""
    graphs = {path: read_model_file(path) for path in paths}
    compiled = [path for path, data in graphs.items() if _is_compiled(data)]
    if len(compiled) == len(graphs):
        raise ModelUnsupportedError(f"expected graphs to compile; {compiled[0]} is compiled already")
    return {path: data for path, data in graphs.items() if path not in compiled}, compiled


def _is_compiled(data: bytes) -> bool:
    try:
        return bool(parse_model(data).subgraphs[0].edgetpu_operators)
    except ModelFormatError:  # concerns this file alone; compiling it reports the error
        return False


def _check_names(graphs: Mapping[Path, bytes], output: Path | None, *, together: bool) -> None:
    """Refuse graphs whose compiled models would have the same file name.

    together: also in different directories, as graphs are told apart by their names alone.
    """
    paths = [_destination(path, output).absolute() for path in graphs]
    targets = [Path(path.name) for path in paths] if together else paths
    twice = sorted({target.name for target in targets if targets.count(target) > 1})
    if twice:
        raise InputError(f"expected graphs of different names; several would become {', '.join(twice)}")


def _rows(
    group: Sequence[Path],
    graphs: Mapping[Path, bytes],
    compiler: str | RemoteCompiler | None,
    options: argparse.Namespace,
) -> list[_Row]:
    try:
        if compiler:
            return _compile(group, graphs, compiler, options)
        return _make_here(group, graphs, options)
    except (EdgeTpuError, OSError) as error:
        return [_failed(path, error) for path in group]


def _failed(graph: Path, error: EdgeTpuError | OSError) -> _Row:
    return {"graph": graph, "error": reason_of(error)}


def _compile(
    group: Sequence[Path],
    graphs: Mapping[Path, bytes],
    compiler: str | RemoteCompiler,
    options: argparse.Namespace,
) -> list[_Row]:
    with tempfile.TemporaryDirectory(prefix="edgetpu_compile_") as scratch:
        made = compile_graphs(compiler, group, Path(scratch), options.timeout)
        return [_taken_over(each, graphs[each.graph], options.output) for each in made]


def _taken_over(made: Compilation, source: bytes, output: Path | None) -> _Row:
    """Install a compiled model if it is usable; returns the result row of its graph."""
    try:
        parts = _load(made)
        row = _row(made.graph, parts, output) | _reported(made)
        return row | _write(made.graph, source, parts[0].file, output, log=made.log)
    except (EdgeTpuError, OSError) as error:
        return _failed(made.graph, error)


def _load(made: Compilation) -> tuple[CompiledModel, ...]:
    """The parts of the model that the compiler wrote.

    CompilerError if it is missing or nothing in it runs on the Edge TPU.
    """
    if not is_file(made.compiled):
        raise CompilerError(f"{PROGRAM} wrote no model for {made.graph.name}: {made.last_lines}")
    if not any(operator.mapped for operator in made.report.operators) and made.report.operators:
        reasons = "; ".join(f"{each.name}: {each.status}" for each in made.report.operators)
        raise CompilerError(f"{PROGRAM} mapped no operator of {made.graph.name}: {reasons}")
    return CompiledModel.load_parts(made.compiled)


def _make_here(
    group: Sequence[Path], graphs: Mapping[Path, bytes], options: argparse.Namespace
) -> list[_Row]:
    sources = {path.stem: graphs[path] for path in group}
    return [_made_here(path, sources, options.co_compile, options.output) for path in group]


def _made_here(path: Path, sources: Mapping[str, bytes], together: bool, output: Path | None) -> _Row:
    """Write the program of a graph or, if that is not possible, pack it; returns its result row.

    together: always pack it, for co-residence with all sources.
    """
    try:
        return _written_here(path, sources, together, output)
    except (EdgeTpuError, OSError) as error:
        return _failed(path, error)


def _written_here(path: Path, sources: Mapping[str, bytes], together: bool, output: Path | None) -> _Row:
    source = sources[path.stem]
    more: _Row = {}
    keep_others(_destination(path, output), retargeted_too=True)
    written, reason = (None, "") if together else _written(source, path.stem)
    if written is not None:
        file, sidecar = written.file, written.sidecar
        more["remark"] = written.remark
    else:
        packed = pack_for_virtual_stick({path.stem: source}, together=together, others=sources)
        file, sidecar = packed[path.stem], None
        more["not_written"] = reason or None
    model = CompiledModel.parse(file, path.stem)
    operators = {each.custom_code or each.name for each in parse_model(source).subgraphs[0].operators}
    row = _row(path, (model,), output) | {
        "written_by": model.compiler,
        "cached_bytes": len(model.caching.parameters) if model.caching else 0,
        "streamed_bytes": len(model.execution.parameters),
        "unlisted_operators": sorted(operators - SUPPORTED_OPERATORS),
    }
    return row | more | _write(path, source, model.file, output, sidecar=sidecar)


def _written(source: bytes, name: str) -> tuple[WrittenModel | None, str]:
    """The graph with a program generated without edgetpu_compiler, or None and the reason."""
    try:
        return compile_dense(source, name), ""
    except ModelUnsupportedError as error:
        return None, str(error)


def _destination(graph: Path, output: Path | None) -> Path:
    return (output or graph.parent) / f"{graph.stem}{COMPILED_SUFFIX}.tflite"


def _row(graph: Path, parts: Sequence[CompiledModel], output: Path | None) -> _Row:
    """parts: those for the Edge TPU, of one file."""
    try:
        for part in parts:
            part.check_runnable()
        obstacle = None
    except ModelUnsupportedError as error:
        obstacle = str(error)
    return {
        "graph": graph,
        "compiled": _destination(graph, output),
        "cpu_operators": list(parts[0].cpu_operators),
        "caching_token": f"{parts[0].parameter_caching_token:#018x}",
        "obstacle": obstacle,
    }


def _reported(made: Compilation) -> _Row:
    return asdict(made.report) | {"fully_mapped": made.report.fully_mapped}


def _write(
    graph: Path,
    source: bytes,
    compiled: bytes,
    output: Path | None,
    *,
    log: Path | None = None,
    sidecar: bytes | None = None,
) -> _Row:
    """Install the compiled model, its graph, which the virtual stick needs, and its log and sidecar, if any.

    All in one directory.
    """
    destination = _destination(graph, output)
    written = write_file(destination, compiled)  # first: if that fails, the earlier file keeps its sidecar
    if sidecar is not None:
        write_file(destination.with_suffix(".json"), sidecar)
    else:
        _remove_own_sidecar(destination)
    if log is not None:
        write_file(destination.with_suffix(".log"), log.read_bytes())
    write_file(destination.with_name(graph.name), source)
    return {"written": written}


def _remove_own_sidecar(compiled: Path) -> None:
    """Remove the sidecar of an earlier file that was made here, as it would contradict the new one."""
    content = read_sidecar(compiled)
    if content.get("compiler") == DENSE_COMPILER or RETARGETED_FROM in content:
        compiled.with_suffix(".json").unlink()


def _resident_together(rows: Sequence[_Row]) -> bool:
    """Whether all models can be resident at once: one caching token, nothing streamed."""
    return all(
        "error" not in row and row["streamed_bytes"] == 0 and row["caching_token"] == rows[0]["caching_token"]
        for row in rows
    )


def _text(value: Mapping[str, Any]) -> str:
    for_sticks = any(row.get("written_by") == DENSE_COMPILER for row in value["models"])
    lines = [_PACKED] if value["target"] == "virtual" and not for_sticks else []
    if value["skipped"]:
        skipped = _several([str(path) for path in value["skipped"]], "files")
        lines.append(f"skipped, compiled already: {skipped}")
    # A failed run has one error for all its graphs.
    causes: dict[str, list[str]] = {}
    for row in value["models"]:
        if "error" in row:
            causes.setdefault(row["error"], []).append(str(row["graph"]))
        else:
            lines += _row_lines(row)
    lines += [f"{_several(files)}: FAILED: {error}" for error, files in causes.items()]
    if value["resident_together"] is not None:
        stay = "stay" if value["resident_together"] else "do NOT stay"
        lines.append(f"The {len(value['models'])} models {stay} in the chip's memory together.")
    return "\n".join(lines)


def _several(files: Sequence[str], kind: str = "graphs") -> str:
    return ", ".join(files) if len(files) <= _NAMED else f"{len(files)} {kind} from {files[0]} to {files[-1]}"


def _row_lines(row: _Row) -> list[str]:
    lines = [f"{row['compiled']}"]
    memory = (
        f"{_bytes(row['cached_bytes'])} on the chip, {_bytes(row['streamed_bytes'])} with every inference"
    )
    if "operators" in row:
        lines.append(f"  edgetpu_compiler {row['version']}, {_bytes(row['free_bytes'])} of the chip left")
        mapped = sum(each["count"] for each in row["operators"] if each["mapped"])
        total = sum(each["count"] for each in row["operators"])
        unreported = "it did not report which operators are mapped"
        lines.append(f"  {mapped} of {total} operators mapped" if total else f"  {unreported}")
        lines += [
            f"    {each['count']} {each['name']} on the CPU: {each['status']}"
            for each in row["operators"]
            if not each["mapped"]
        ]
    if row.get("unlisted_operators"):
        lines.append(f"  {PROGRAM} would not map {', '.join(row['unlisted_operators'])}")
    lines.append(f"  parameters: {memory}")
    if row.get("remark"):
        lines.append(f"  generated without edgetpu_compiler: {row['remark']}")
    elif row.get("not_written"):
        lines.append(f"  no program for a real stick was written: {row['not_written']}")
    if row["obstacle"]:
        lines.append(f"  {row['obstacle']}")
    return lines


def _bytes(count: int) -> str:
    return "an unknown number of bytes" if count < 0 else f"{count:,} B".replace(",", " ")
