"""Finds compiled files that other graphs can be retargeted from, and writes the results."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgetpu_driver.errors import EdgeTpuError, ModelNotFoundError, ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import (
    COMPILED_SUFFIX,
    is_file,
    plain_stem,
    source_graph,
    source_graphs,
)
from edgetpu_driver.files.sidecar import DIGEST, matching_sidecar, read_sidecar
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.checks.source_graph_file import read_source_graph
from edgetpu_driver.tflite.model_reader import ABSENT, Model, parse_model
from edgetpu_driver.tflite.operator_options import read_options
from edgetpu_driver.toolchain.graph_catalogue import named_graph, read_graph
from edgetpu_driver.toolchain.retargeting.graph_retargeting import RetargetedModel, retarget

RETARGETED_FROM = "retargeted_from"
"""Key in the sidecar of a retargeted file: the name of the file it was made from."""

_WEIGHT_SCALES = ("color_weight_scale", "gabor_weight_scale", "conv_weight_scale", "weight_scale")
_OUTDATED = ("param_overhead",)
_MOST_KNOWN_FORMS = 10_000
"""Number of graphs whose form is cached: determining one takes milliseconds, at every listing."""
_SIZE = re.compile(r"(_\d+x\d+)+$")


@dataclass(frozen=True)
class RetargetedFiles:
    """The files to write for a graph."""

    model: RetargetedModel
    source: Path
    """The compiled file that this one was made from."""
    sidecar: bytes
    """The content of the JSON sidecar, with RETARGETED_FROM."""


def retarget_file(compiled: Path, name: str, graph: bytes) -> RetargetedFiles:
    """Make the compiled file of a graph from another compiled file.

    The graph of that file is next to it or in the catalogue. name: of the new graph. Raises
    ModelNotFoundError without that graph, ModelFormatError, and what `retarget` raises.
    """
    own = _own_graph(compiled)
    if own is None:
        paths = ", nor ".join(str(each) for each in source_graphs(compiled))
        raise ModelNotFoundError(f"expected the graph of {compiled.name} next to it; there is no {paths}")
    source = read_source_graph(own) if is_file(own) else read_graph(own)
    made = retarget(read_model_file(compiled), source, graph, name)
    return RetargetedFiles(made, compiled, _sidecar(compiled, name, made))


def retargeting_remark(compiled: Path, data: bytes) -> str:
    """What the sidecar of a compiled file says about its retargeting; empty for any other file."""
    content = matching_sidecar(compiled, data)
    if RETARGETED_FROM not in content:
        return ""
    return f"made from {content[RETARGETED_FROM]}: {content.get('remark')}"


def retargeting_sources(graph: Path) -> tuple[Path, ...]:
    """The compiled files next to a graph from which it can be retargeted: their graphs have the same form.

    Neither graph needs a file if the catalogue has a graph of its name. Empty if the graph cannot be read, or
    if no file next to it fits.
    """
    wanted = _form_of(graph)
    if not wanted:
        return ()
    return tuple(path for path, own in _compiled_in(graph.parent) if own != graph and _form_of(own) == wanted)


def graphs_by_form(directory: Path) -> dict[str, set[Path]]:
    """The graphs of the compiled files in a directory, by their forms; for `has_retargeting_source`."""
    graphs: dict[str, set[Path]] = {}
    for _, own in _compiled_in(directory):
        graphs.setdefault(_form_of(own), set()).add(own)
    return graphs


def has_retargeting_source(graph: Path, graphs: Mapping[str, set[Path]]) -> bool:
    """Whether a graph has any `retargeting_sources`; graphs: `graphs_by_form` of its directory."""
    form = _form_of(graph)
    return bool(form) and any(own != graph for own in graphs.get(form, ()))


def retarget_beside(path: Path, graph: bytes) -> RetargetedFiles:
    """Make the compiled file of a graph from the first suitable file next to it.

    Raises ModelUnsupportedError with the reason for which each file was refused.
    """
    reasons = []
    for each in retargeting_sources(path):
        made = _made_from(each, path.stem, graph)
        if isinstance(made, RetargetedFiles):
            return made
        reasons.append(f"; {each.name}: {made}")
    raise ModelUnsupportedError(f"no compiled file next to {path.name} suits it{''.join(reasons)}")


def _made_from(compiled: Path, name: str, graph: bytes) -> RetargetedFiles | EdgeTpuError:
    try:
        return retarget_file(compiled, name, graph)
    except EdgeTpuError as error:
        return error


def _compiled_in(directory: Path) -> Iterator[tuple[Path, Path]]:
    """The compiled files in a directory, each with its own graph."""
    try:
        paths = sorted(directory.glob(f"*{COMPILED_SUFFIX}.tflite"))
    except OSError:
        return
    for path in paths:
        own = _own_graph(path) if is_file(path) else None
        if own is not None:
            yield path, own


def _own_graph(compiled: Path) -> Path | None:
    """The path of a compiled file's graph, or the path that the catalogue's graph would have; else None."""
    own = source_graph(compiled)
    if own is None and _form_of_name(plain_stem(compiled)):
        own = compiled.with_name(f"{plain_stem(compiled)}.tflite")
    return own


def _form_of(path: Path) -> str:
    """The digest of a graph's operators and shapes; empty if it cannot be read."""
    if not is_file(path):
        return _form_of_name(path.stem)
    try:
        status = path.stat()
        return _known_form(path, status.st_ino, status.st_size, status.st_mtime_ns)
    except (ModelNotFoundError, OSError):
        return ""


@lru_cache(maxsize=_MOST_KNOWN_FORMS)
def _known_form(path: Path, *_version: int) -> str:
    """The form of a file; empty unless it is a graph. version: changes with the file, for the cache.

    Raises ModelNotFoundError, which is not cached, for a file that cannot be read: later it may be readable.
    """
    data = read_model_file(path)
    try:
        return form_digest(data, parse_model(data))
    except EdgeTpuError:
        return ""


@lru_cache(maxsize=_MOST_KNOWN_FORMS)
def _form_of_name(name: str) -> str:
    data = named_graph(name)
    return "" if data is None else form_digest(data, parse_model(data))


def form_digest(data: bytes, model: Model) -> str:
    """A digest that is equal for graphs that one compiled file can serve."""
    graph = model.subgraphs[0]
    form = [
        (
            operator.name,
            operator.custom_code,
            sorted(options.numbers.items()),
            [
                (tensor.shape, tensor.dtype.name, tensor.quantization.scales.size)
                for tensor in (
                    graph.tensors[index] for index in (*operator.inputs, *operator.outputs) if index != ABSENT
                )
            ],
        )
        for operator, options in zip(graph.operators, read_options(data), strict=True)
    ]
    return hashlib.sha256(repr(form).encode()).hexdigest()


def _sidecar(source: Path, name: str, made: RetargetedModel) -> bytes:
    """The sidecar of the source, with the quantisation of the new graph and the name of the source."""
    content = _carried_over(source, name, made)
    content[RETARGETED_FROM] = source.name
    content[DIGEST] = hashlib.sha256(made.file).hexdigest()
    content["remark"] = made.remark
    return (json.dumps(content, indent=2) + "\n").encode()


def _carried_over(source: Path, name: str, made: RetargetedModel) -> dict[str, Any]:
    content = read_sidecar(source)
    graph = parse_model(made.graph).subgraphs[0]
    for key, specs in (("input", graph.input_specs), ("output", graph.output_specs)):
        if f"{key}_scale" in content and len(specs) == 1:
            content |= {f"{key}_scale": specs[0].scale, f"{key}_zero_point": specs[0].zero_point}
    weights = next((each.inputs[1] for each in graph.operators if _has_weights(each.name)), None)
    for key in _WEIGHT_SCALES:
        if key in content and weights is not None:
            content[key] = graph.tensors[weights].spec.scale
    if "variant" in content:
        content["variant"] = _SIZE.sub("", name)
    return {key: value for key, value in content.items() if key not in _OUTDATED}


def _has_weights(operator: str) -> bool:
    return operator in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
