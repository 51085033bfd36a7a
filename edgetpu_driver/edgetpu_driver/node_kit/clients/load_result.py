"""The result of loading a model on a driver, and the options of requests to run it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from edgetpu_driver.errors import EdgeTpuError, InputError
from edgetpu_driver.tflite.tensor import TensorSpec

ModelFile: TypeAlias = str | Sequence[str]
"""A file's stem, its name or an absolute path; of a pipeline, those of its segments in their order."""


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.~/-]")


def name_on_driver(name: str) -> str:
    """Replace characters that a driver refuses in names: a node's names may contain the path of any file."""
    return _NOT_IN_NAMES.sub("_", name)


@dataclass(frozen=True)
class PartTensors:
    """The tensors of one part of a model."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class InvokeOptions:
    """Options of a request to run a model."""

    part: int = 0
    """0: the whole model; n: only its n-th part for the Edge TPU."""
    reset: bool = False
    """Whether to zero the state that operators keep from run to run first."""


DEFAULT_OPTIONS = InvokeOptions()


@dataclass(frozen=True)
class LoadResult:
    """A loaded model's name and tensors, or why it could not be loaded."""

    name: str = ""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    error: EdgeTpuError | None = None
    problem: str = ""
    """Why the driver, which has loaded the model, cannot run it; one line, else empty."""
    loading: bool = False
    """Whether the driver is still loading the model."""
    sha256: str = ""
    """Digest of the model's file, in hexadecimal."""
    weights_version: int = 0
    """Number of weight replacements since the driver loaded it, by this client or another."""
    files: tuple[str, ...] = ()
    """Path of the model's file on the driver's computer; of a pipeline those of its segments in order."""
    files_without_weights: bytes = b""
    """These files without their weights, see `weightless_files`; empty if the driver does not send them."""
    parts: tuple[PartTensors, ...] = ()
    """The parts for the Edge TPU, in order; the model itself if one device runs all of it."""

    def inputs_of(self, part: int) -> tuple[TensorSpec, ...]:
        """The inputs of the part of that number, from 1; of the whole model for 0. Raises InputError."""
        if not 0 <= part <= len(self.parts):
            raise InputError(f"expected part 1 to {len(self.parts)} of '{self.name}', or 0; got {part}")
        return self.parts[part - 1].inputs if part else self.inputs
