"""`edgetpu models retarget`: turns a compiled file into that of another graph."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetpu_driver.cli.device_and_model import compiled_parts
from edgetpu_driver.cli.models.model_folder import keep_others
from edgetpu_driver.cli.terminal import Answer, Progress
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.files.compiled_file_names import COMPILED_SUFFIX, is_file, requantised_graph_path
from edgetpu_driver.files.file_access import write_file
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.checks.source_graph_file import read_source_graph
from edgetpu_driver.tflite.model_reader import each_parsed_once
from edgetpu_driver.toolchain.retargeting.compiled_sources import RetargetedFiles, retarget_file

_MOST_LAYERS = 8
"""Maximum number of layers listed by name."""


@each_parsed_once()
def run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Write the compiled file, its graph and its sidecar."""
    compiled, graph = options.compiled, options.graph
    source = read_source_graph(graph)
    compiled_parts(compiled, read_model_file(compiled))  # for errors with the name of this file
    with progress.counting("retargeting", 1) as advance:
        made = retarget_file(compiled, graph.stem, source)
        advance()
    directory: Path = options.output or graph.parent
    value = _write(made, directory, graph, source) | {
        "retargeted_from": compiled,
        "graph": graph,
        "changed_layers": made.model.changed_layers,
        "requantised": [
            {
                "layer": each.layer,
                "scale": each.given.scale,
                "zero_point": each.given.zero_point,
                "own_scale": each.own.scale,
                "own_zero_point": each.own.zero_point,
                "cost": each.cost,
            }
            for each in made.model.requantised
        ],
        "remark": made.model.remark,
    }
    return Answer(value, _text(value))


def _write(made: RetargetedFiles, directory: Path, graph: Path, source: bytes) -> dict[str, Any]:
    """Write the result; a graph that differs from the requested one gets a separate name."""
    path = directory / f"{graph.stem}{COMPILED_SUFFIX}.tflite"
    token = CompiledModel.parse_parts(made.model.file)[0].parameter_caching_token
    value: dict[str, Any] = {"compiled": path, "caching_token": f"{token:#018x}", "requantised_graph": None}
    if is_file(path) and read_model_file(path) == made.model.file:
        return value | {"written": False}
    keep_others(path, retargeted_too=False)
    write_file(path, made.model.file)  # first: if it fails, the earlier file keeps its graph and sidecar
    write_file(directory / graph.name, source)
    if made.model.requantised:
        value["requantised_graph"] = requantised_graph_path(path)
        write_file(requantised_graph_path(path), made.model.graph)
    write_file(path.with_suffix(".json"), made.sidecar)
    return value | {"written": True}


def _text(value: Mapping[str, Any]) -> str:
    lines = [f"{value['compiled']}"]
    changed = value["changed_layers"]
    if not changed:
        lines.append(f"  the same as {value['retargeted_from']}: no weight and no scale differs")
        return "\n".join(lines)
    more = len(changed) - _MOST_LAYERS
    lines.append(f"  from {value['retargeted_from']}, with other values for {len(changed)} operators:")
    lines += [f"    {each}" for each in changed[:_MOST_LAYERS]]
    lines += [f"    and {more} more"] if more > 0 else []
    lines += [f"  {each['cost']}" for each in value["requantised"]]
    if value["requantised_graph"]:
        lines.append(f"  it computes {value['requantised_graph']}")
    lines.append(f"  {value['remark'].split('; ')[0]}")
    return "\n".join(lines)
