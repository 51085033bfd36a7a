"""The files beside a compiled model that tell where it keeps its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.files.file_access import read_file


@dataclass(frozen=True)
class SidecarFiles:
    """The files beside a compiled model: the graph it was compiled from, and its sidecar."""

    graph: bytes = b""
    """Content of the plain .tflite graph; empty if there is none."""
    sidecar: Mapping[str, Any] | None = None
    """Content of the JSON sidecar; None if there is none."""

    @classmethod
    def beside(cls, path: Path | None) -> SidecarFiles:
        """Read those of x_edgetpu.tflite, x.tflite and x_edgetpu.json; ModelFormatError if that fails."""
        if path is None:
            return cls()
        graph = path.with_name(f"{path.stem.removesuffix('_edgetpu')}.tflite")
        sidecar = path.with_suffix(".json")
        try:
            data = read_file(graph) if graph != path and graph.is_file() else b""
            text = read_file(sidecar) if sidecar.is_file() else b"null"
            content = json.loads(text)
        except (OSError, ValueError, RecursionError) as error:
            raise ModelFormatError(f"cannot read the files beside {path.name}: {error}") from None
        return cls(data, content if isinstance(content, dict) else None)
