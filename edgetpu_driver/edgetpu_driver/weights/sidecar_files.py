"""The files next to a compiled model that give the location of its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetpu_driver.errors import ModelFormatError, reason_of
from edgetpu_driver.files.compiled_file_names import source_graph
from edgetpu_driver.files.file_access import read_file


@dataclass(frozen=True)
class SidecarFiles:
    """The files next to a compiled model: the graph it was compiled from, and its sidecar."""

    graph: bytes = b""
    """Content of the plain .tflite graph; empty if there is none."""
    sidecar: Mapping[str, Any] | None = None
    """Content of the JSON sidecar; None if there is none."""

    @classmethod
    def next_to(cls, path: Path | None) -> SidecarFiles:
        """Read its graph, see `source_graph`, and x_edgetpu.json next to x_edgetpu.tflite.

        Raises ModelFormatError if a file cannot be read.
        """
        if path is None:
            return cls()
        graph, sidecar = source_graph(path), path.with_suffix(".json")
        try:
            data = read_file(graph) if graph is not None else b""
            text = read_file(sidecar) if sidecar.is_file() else b"null"
            content = json.loads(text)
        except (OSError, ValueError, RecursionError) as error:
            raise ModelFormatError(f"cannot read the files next to {path.name}: {reason_of(error)}") from None
        return cls(data, content if isinstance(content, dict) else None)
