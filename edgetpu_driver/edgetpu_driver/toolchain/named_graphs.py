"""Graphs that need no file: the catalogue makes them from their names."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from edgetpu_driver.errors import ModelNameError
from edgetpu_driver.tflite.file_checks import read_model_file
from edgetpu_driver.toolchain.compiled_file_names import is_file
from edgetpu_driver.toolchain.graph_catalogue import catalogue
from edgetpu_driver.toolchain.graph_family import build_graph


@lru_cache(maxsize=256)
def named_graph(name: str) -> bytes | None:
    """The catalogue's graph of that name; None if there is none."""
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
