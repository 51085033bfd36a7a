"""The graph families of all installed packages, and their graphs by name.

A package registers its families with an entry point of the group "edgetpu.graphs" that names a tuple of
GraphFamily:

    [options.entry_points]
    edgetpu.graphs =
        edgetpu_perception = edgetpu_perception.graphs.families:FAMILIES
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from edgetpu_driver.errors import ModelNameError
from edgetpu_driver.files.compiled_file_names import is_file
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain.graph_family import GraphFamily, build_graph

GROUP = "edgetpu.graphs"


@dataclass(frozen=True)
class Catalogue:
    """The available families, and why others are missing."""

    families: tuple[GraphFamily, ...]
    problems: tuple[str, ...]
    """One message for each package whose families could not be loaded."""


@cache
def catalogue() -> Catalogue:
    """Families of this package, then those of the other installed packages by the packages' names.

    Searched for once per process, because that reads the entry points of every installed package.
    """
    families = list(dense.FAMILIES)
    problems = []
    points = {point.name: point for point in entry_points(group=GROUP)}
    if not points:
        problems.append(f"no installed package offers graphs under the entry-point group {GROUP}")
    for name in sorted(points):
        offered = _load(points[name])
        if isinstance(offered, ImportError):
            problems.append(f"the graphs of {name} are missing: {offered}")
        else:
            families.extend(offered)
    return Catalogue(tuple(families), tuple(problems))


GRAPHS_KEPT = 16
"""Most graphs that are kept in memory after they were built. Chosen: a model is usually read soon after it
was searched for; clients can name any number of graphs, and the largest take megabytes."""


@lru_cache(maxsize=GRAPHS_KEPT)
def named_graph(name: str) -> bytes | None:
    """The .tflite file of the catalogue's graph with that name; None if there is no such graph."""
    try:
        return build_graph(name, catalogue().families)
    except ModelNameError:
        return None


def read_graph(path: Path) -> bytes:
    """The content of a model's file, or the catalogue's graph of its name if there is no such file.

    Raises what read_model_file raises.
    """
    graph = None if is_file(path) else named_graph(path.stem)
    return read_model_file(path) if graph is None else graph


def _load(point: EntryPoint) -> tuple[GraphFamily, ...] | ImportError:
    try:
        offered: tuple[GraphFamily, ...] = point.load()
    except ImportError as error:
        return error
    return offered
