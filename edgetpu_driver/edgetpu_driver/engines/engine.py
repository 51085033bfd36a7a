"""What every engine offers: named arrays in, named arrays out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from edgetpu_driver.tensor import TensorSpec


class Engine(Protocol):
    """One model, ready to run.

    `run` takes every input by name, of the shape and dtype its specification says, and returns every output
    by name. It raises InputError for anything else and a DeviceError when the hardware fails. It may be
    called from any thread; calls are serialised.
    """

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in the model's order."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in the model's order."""
        ...

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once; the arrays returned belong to the caller."""
        ...
