"""The files next to a compiled model that give the location of its weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetpu_driver.errors import ModelFormatError, reason_of
from edgetpu_driver.files.file_access import read_file

_REQUANTISED = "_requantised"


def requantised_graph_path(compiled: Path) -> Path:
    """The path of a retargeted file's graph if it differs from the requested one: x_requantised.tflite."""
    return compiled.with_name(f"{compiled.stem.removesuffix('_edgetpu')}{_REQUANTISED}.tflite")


def requantised_graph(compiled: Path) -> Path | None:
    """The requantised graph next to a compiled file, if the sidecar says that it belongs to that file."""
    path = requantised_graph_path(compiled)
    try:
        if not path.is_file():
            return None
        content = json.loads(read_file(compiled.with_suffix(".json")))
        digest = hashlib.sha256(read_file(compiled)).hexdigest()
    except (OSError, ValueError, RecursionError):
        return None
    return path if isinstance(content, dict) and content.get("sha256") == digest else None


@dataclass(frozen=True)
class SidecarFiles:
    """The files next to a compiled model: the graph it was compiled from, and its sidecar."""

    graph: bytes = b""
    """Content of the plain .tflite graph; empty if there is none."""
    sidecar: Mapping[str, Any] | None = None
    """Content of the JSON sidecar; None if there is none."""

    @classmethod
    def next_to(cls, path: Path | None) -> SidecarFiles:
        """Read x.tflite, or the requantised graph, and x_edgetpu.json next to x_edgetpu.tflite.

        Raises ModelFormatError if a file cannot be read.
        """
        if path is None:
            return cls()
        graph = path.with_name(f"{path.stem.removesuffix('_edgetpu')}.tflite")
        graph = requantised_graph(path) or graph
        sidecar = path.with_suffix(".json")
        try:
            data = read_file(graph) if graph != path and graph.is_file() else b""
            text = read_file(sidecar) if sidecar.is_file() else b"null"
            content = json.loads(text)
        except (OSError, ValueError, RecursionError) as error:
            raise ModelFormatError(f"cannot read the files next to {path.name}: {reason_of(error)}") from None
        return cls(data, content if isinstance(content, dict) else None)
