"""On which backends a whole model runs, as far as its files tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetpu_driver.backends.factory import BACKENDS, make_backend
from edgetpu_driver.backends.whole_models import parse_whole
from edgetpu_driver.errors import EdgeTpuError


def obstacles(files: Sequence[tuple[Path, bytes]]) -> dict[str, str]:
    """For each backend why it cannot run a model; an empty text where nothing speaks against it.

    files: one file, or the segments of a pipeline, each with its path, beside which graphs are looked for.
    """
    return {name: _obstacle(name, files) for name in BACKENDS}


def _obstacle(name: str, files: Sequence[tuple[Path, bytes]]) -> str:
    try:
        return parse_whole(make_backend(name), files).unsupported_reason
    except EdgeTpuError as error:
        return str(error)
