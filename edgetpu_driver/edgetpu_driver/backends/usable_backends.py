"""Determines from the files of a whole model which backends can run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetpu_driver.backends.factory import BACKENDS, make_backend
from edgetpu_driver.backends.whole_model_parsing import parse_whole
from edgetpu_driver.errors import EdgeTpuError


@dataclass(frozen=True)
class Usability:
    """Whether a backend can run a model."""

    obstacle: str = ""
    """Why it cannot; empty if it can."""
    remark: str = ""
    """A note if it runs something other than the file, or elsewhere; otherwise empty."""


def usable_backends(files: Sequence[tuple[Path, bytes]]) -> dict[str, Usability]:
    """For each backend whether it can run a model.

    files: one file, or the segments of a pipeline, each with its path. Graphs are looked for next to them.
    """
    return {name: _usability(name, files) for name in BACKENDS}


def _usability(name: str, files: Sequence[tuple[Path, bytes]]) -> Usability:
    try:
        parsed = parse_whole(make_backend(name), files)
    except EdgeTpuError as error:
        return Usability(str(error))
    return Usability(parsed.unsupported_reason, parsed.remark)
