"""The protocol of custom operators: operators of .tflite files that LiteRT does not implement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray


class CpuOperator(Protocol):
    """One operator of a graph with its options. Calls may come from any thread."""

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each output, in order."""
        ...

    def run(self, inputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Compute the outputs from the inputs, both in the operator's order."""
        ...
