"""The JSON sidecar of a compiled file, x_edgetpu.json next to x_edgetpu.tflite."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from edgetpu_driver.files.file_access import read_file

DIGEST = "sha256"
"""Key of the SHA-256 of the file that a sidecar was written for."""


def read_sidecar(compiled: Path) -> dict[str, Any]:
    """The content of the sidecar; empty if it cannot be read or is not a JSON object."""
    try:
        content = json.loads(read_file(compiled.with_suffix(".json")))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def matching_sidecar(compiled: Path, data: bytes) -> dict[str, Any]:
    """The content of the sidecar if it was written for a file with this content; otherwise empty."""
    content = read_sidecar(compiled)
    if DIGEST not in content:
        return {}
    return content if content[DIGEST] == hashlib.sha256(data).hexdigest() else {}
