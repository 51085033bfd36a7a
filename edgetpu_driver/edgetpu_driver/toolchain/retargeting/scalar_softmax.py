"""The constants of a softmax that runs on the scalar core, as in files of 2019.

The program passes over the values three times: for the maximum, for the sum of the exponentials, and for the
results. Each time it subtracts the zero point, an integer, converts to float and multiplies by the scale.
Derived from seven files, in which no other constant of the softmax differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from edgetpu_driver.darwinn.instructions.operations import Chunk, Kind, Operation
from edgetpu_driver.tflite.model_reader import Subgraph
from edgetpu_driver.tflite.shared_quantisation import ChipQuantisation, chip_quantisation
from edgetpu_driver.toolchain.retargeting.execution_order import Location

_IMMEDIATE = 70, 101
"""First and last bit of a scalar instruction's immediate operand."""
_SCALAR = Kind(0x00, True)
_PASSES = 3
"""Number of positions with the constants of the input, one in each pass."""
_DISTANCE = 2
"""Distance from the word with the zero point to the word with the scale."""


def scalar_softmaxes(graph: Subgraph, chunks: Sequence[Chunk]) -> dict[int, tuple[Location, ...]]:
    """Locations of the words with a softmax's scale, by operator; empty if they are not certain."""
    found: dict[int, tuple[Location, ...]] = {}
    for index, operator in enumerate(graph.operators):
        if operator.name != "SOFTMAX":
            continue
        quantisation = chip_quantisation(graph.tensors[operator.inputs[0]])
        locations = tuple(_locations(chunks, quantisation)) if quantisation is not None else ()
        if len(locations) == _PASSES:
            found[index] = locations
    claimed = [location for locations in found.values() for location in locations]
    return found if len(set(claimed)) == len(claimed) else {}


def with_numbers(
    zero_point: Operation, scale: Operation, new: ChipQuantisation
) -> tuple[Operation, Operation]:
    """The two words with the zero point and the scale of another graph."""
    return zero_point.with_field(*_IMMEDIATE, new.zero_point), scale.with_field(*_IMMEDIATE, _bits(new.scale))


def zero_point_location(location: Location) -> Location:
    """Location of the zero point that belongs to the scale at a location."""
    chunk, position = location
    return chunk, position - _DISTANCE


def _locations(chunks: Sequence[Chunk], quantisation: ChipQuantisation) -> Iterator[Location]:
    for number, chunk in enumerate(chunks):
        words = chunk.operations
        for position in range(_DISTANCE, len(words)):
            if _holds(words[position], _bits(quantisation.scale)) and _holds(
                words[position - _DISTANCE], quantisation.zero_point
            ):
                yield number, position


def _holds(operation: Operation, value: int) -> bool:
    return operation.kind == _SCALAR and operation.field(*_IMMEDIATE) == value


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))
