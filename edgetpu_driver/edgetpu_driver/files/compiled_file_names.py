"""The names of compiled files and of their graphs, as edgetpu_compiler gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from edgetpu_driver.files.file_access import read_file
from edgetpu_driver.files.sidecar import matching_sidecar

COMPILED_SUFFIX = "_edgetpu"
"""Suffix that edgetpu_compiler appends to the stem of the graph."""

_SEGMENT = re.compile(r"_segment_(\d+)_of_(\d+)$")
_COCOMPILED = re.compile(r"_cocompiled_with_.*$")


def plain_stem(path: Path) -> str:
    """The name of a model: the file's stem without "_edgetpu"."""
    return path.stem.removesuffix(COMPILED_SUFFIX)


def common_name(names: Sequence[str]) -> str:
    """The name without the segment number, if it is the same for all; otherwise the names joined."""
    if len(names) == 1:
        return names[0]
    stems = {name.rpartition("_segment_")[0] for name in names}
    return stems.pop() if len(stems) == 1 and "" not in stems else " + ".join(names)


def source_graphs(path: Path) -> tuple[Path, ...]:
    """The paths next to a compiled model at which its graph may be, in order of preference.

    x.tflite for x_edgetpu.tflite, for the segment x_segment_0_of_2_edgetpu.tflite of a pipeline, and for
    x_cocompiled_with_y_edgetpu.tflite: names that edgetpu_compiler gives. x_y.tflite for x_edgetpu_y.tflite.
    """
    plain = plain_stem(path)
    stems = []
    for stem in (plain, plain.replace(f"{COMPILED_SUFFIX}_", "_")):
        alone = _COCOMPILED.sub("", stem)
        stems += [stem, _SEGMENT.sub("", stem), alone, _SEGMENT.sub("", alone)]
    graphs = dict.fromkeys(path.with_name(f"{each}.tflite") for each in stems)
    return tuple(each for each in graphs if each != path)


def source_graph(path: Path) -> Path | None:
    """The graph of a compiled model next to it; None if it is not there."""
    return requantised_graph(path) or next((each for each in source_graphs(path) if is_file(each)), None)


def requantised_graph_path(compiled: Path) -> Path:
    """The path of a retargeted file's graph if it differs from the requested one: x_requantised.tflite."""
    return compiled.with_name(f"{plain_stem(compiled)}_requantised.tflite")


def requantised_graph(compiled: Path) -> Path | None:
    """The requantised graph next to a compiled file, if the sidecar says that it belongs to that file."""
    path = requantised_graph_path(compiled)
    if not is_file(path):
        return None
    try:
        return path if matching_sidecar(compiled, read_file(compiled)) else None
    except OSError:
        return None


def whole_graph(paths: Sequence[Path]) -> Path | None:
    """The graph next to a compiled model, or next to all segments of one; None if it is not there."""
    graphs = {source_graph(path) for path in paths}
    numbers = [_SEGMENT.search(plain_stem(path)) for path in paths]
    segments = [(int(found[1]), int(found[2])) for found in numbers if found]
    complete = [(number, len(paths)) for number in range(len(paths))] == segments
    single = len(paths) == 1 and (not segments or source_graphs(paths[0])[0] in graphs)
    return graphs.pop() if len(graphs) == 1 and (single or complete) else None


def is_compiled(path: Path) -> bool:
    """Whether the file name is one of edgetpu_compiler's outputs."""
    return path.stem.endswith(COMPILED_SUFFIX)


def compiled_path(graph: Path) -> Path:
    """The path that edgetpu_compiler gives to the compiled graph, next to it."""
    return graph.with_name(f"{graph.stem}{COMPILED_SUFFIX}.tflite")


def is_file(path: Path) -> bool:
    """Whether the path is a regular file; False for circular links and for files that cannot be accessed."""
    try:
        return path.is_file()
    except OSError:
        return False
