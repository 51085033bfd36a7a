"""Graph runners: a LiteRT interpreter in this process, and the protocol that isolated ones share with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.litert_interpreter import first_line, make_interpreter
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import Subgraph
from edgetpu_driver.tflite.tensor import TensorSpec


@dataclass(frozen=True)
class GraphOperands:
    """The inputs and outputs of a graph, by name, with the indices of their tensors."""

    inputs: tuple[tuple[TensorSpec, int], ...]
    outputs: tuple[tuple[TensorSpec, int], ...]

    @classmethod
    def of(cls, graph: Subgraph) -> GraphOperands:
        """The operands of a parsed graph."""
        return cls(
            tuple(zip(graph.input_specs, graph.inputs, strict=True)),
            tuple(zip(graph.output_specs, graph.outputs, strict=True)),
        )


class GraphRunner(Protocol):
    """One graph, ready to run. Calls may come from any thread."""

    def load(self, data: bytes) -> None:
        """Load a file with the same inputs and outputs; after an error the previous one stays in effect.

        Raises ModelFormatError, ModelUnsupportedError and DependencyMissingError.
        """
        ...

    def prepare(self, data: bytes) -> Callable[[], None]:
        """Do the part of `load` while the previous file can run; the returned function does the rest."""
        ...

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the graph on checked inputs; the arrays returned belong to the caller."""
        ...

    def close(self) -> None:
        """Release everything; harmless when called again."""
        ...


class GraphInThisProcess:
    """A LiteRT interpreter in this process; a faulty graph may crash the process."""

    def __init__(self, name: str, operands: GraphOperands, xnnpack: bool = True) -> None:
        """name: of the model, for messages. xnnpack: see make_interpreter."""
        self._xnnpack = xnnpack
        self._name = name
        self._inputs = [(spec.name, index) for spec, index in operands.inputs]
        self._outputs = [(spec.name, index) for spec, index in operands.outputs]
        self._interpreter: Any = None
        self._lock = threading.Lock()

    def load(self, data: bytes) -> None:
        """See GraphRunner."""
        self.prepare(data)()

    def prepare(self, data: bytes) -> Callable[[], None]:
        """See GraphRunner."""
        interpreter = make_interpreter(self._name, data, self._xnnpack)

        def use() -> None:
            with self._lock:
                self._interpreter = interpreter

        return use

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See GraphRunner."""
        with self._lock:
            interpreter = self._interpreter
            try:
                for name, index in self._inputs:
                    interpreter.set_tensor(index, inputs[name])
                interpreter.invoke()
            except (RuntimeError, ValueError) as error:
                raise ModelUnsupportedError(f"LiteRT cannot run the graph: {first_line(error)}") from None
            return {name: interpreter.get_tensor(index) for name, index in self._outputs}

    def close(self) -> None:
        """Nothing to release."""


def aligned_offsets(arrays: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> tuple[list[int], int]:
    """Offsets of arrays of these shapes and dtypes at consecutive multiples of 64, and their end, bytes."""
    offsets, end = [], 0
    for shape, dtype in arrays:
        offsets.append(end)
        end += -(-int(np.prod(shape, dtype=np.int64)) * dtype.itemsize // 64) * 64
    return offsets, end
