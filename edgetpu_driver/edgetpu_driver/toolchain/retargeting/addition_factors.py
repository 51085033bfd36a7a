"""The constants of an addition in a program: a factor for each tensor, and the sum of their zero points.

Each input is multiplied by a number of 15 bits, so that their steps become equal, and the sum is requantised
like that of a layer. The two numbers are the best approximation of the quotient of the scales. The operations
of the mesh bus right before hold them, eight times; the tensor operation has the sum of the zero points.
Found with 93 additions in eight models, all of which have these values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from edgetpu_driver.darwinn.instructions.operations import MESH_OPERATIONS, Operation
from edgetpu_driver.darwinn.instructions.tensor_operation import requantises

_LARGEST_FACTOR = (1 << 15) - 1
"""Largest factor of an addition, an int16."""
_BLOCK = 10
"""Number of operations of the mesh bus that hold the factors, five for each input."""
_FIELDS = {0: (728, 743), 1: (744, 759), 3: (728, 743), 4: (744, 759)}
"""First and last bit of the factor in each of the five operations that hold it, by their index."""
_HALF = _BLOCK // 2


@dataclass(frozen=True)
class Factors:
    """The factors of an addition: first * (input - zero point) + second * (other input - zero point)."""

    first: int
    second: int
    zero_points: tuple[int, int]

    @property
    def offset(self) -> int:
        """The constant part of the sum: both zero points multiplied by their factors, negated."""
        return -(self.first * self.zero_points[0] + self.second * self.zero_points[1])


def factors_of(scales: tuple[float, float], zero_points: tuple[int, int]) -> Factors:
    """The factors for two inputs; the input with the larger scale gets the larger factor, at most 32767."""
    high, low = max(scales), min(scales)
    ratio = (Fraction(low) / Fraction(high)).limit_denominator(_LARGEST_FACTOR)
    larger, smaller = ratio.denominator, ratio.numerator
    first, second = (larger, smaller) if scales[0] >= scales[1] else (smaller, larger)
    return Factors(first, second, zero_points)


def scale_of_sum(scales: tuple[float, float], factors: Factors) -> float:
    """Real value of one step of the sum, float32: the larger scale divided by its factor."""
    scale, factor = max(zip(scales, (factors.first, factors.second), strict=True))
    return float(np.float32(scale) / np.float32(factor))


def rewritten_factors(
    operations: Sequence[Operation], position: int, old: Factors, new: Factors
) -> Mapping[int, Operation] | None:
    """The operations before the tensor operation at a position that hold factors, with others, by position.

    None if they are not found, or cannot be assigned to the inputs.
    """
    while position and requantises(operations[position - 1]):
        position -= 1
    while position and not (_is_mesh(operations[position - 1]) or requantises(operations[position - 1])):
        position -= 1
    start = position - _BLOCK
    block = operations[max(start, 0) : position]
    if len(block) < _BLOCK or not all(map(_is_mesh, block)):
        return None
    values = [_factor(block[:_HALF]), _factor(block[_HALF:])]
    inputs = (old.first, new.first), (old.second, new.second)
    orders = [each for each in (inputs, inputs[::-1]) if [before for before, _ in each] == values]
    if not orders or len({tuple(each[1] for each in order) for order in orders}) > 1:
        return None
    changed = {}
    for half, (_, value) in enumerate(orders[0]):
        for index, bits in _FIELDS.items():
            changed_position = start + half * _HALF + index
            changed[changed_position] = operations[changed_position].with_field(*bits, value)
    return changed


def _is_mesh(operation: Operation) -> bool:
    return operation.numbered and operation.opcode in MESH_OPERATIONS


def _factor(operations: Sequence[Operation]) -> int | None:
    """The factor in the operations of one input; None if they hold different ones."""
    values = {operations[index].field(*bits) for index, bits in _FIELDS.items()}
    beyond = {operations[index].value >> bits[1] + 1 for index, bits in _FIELDS.items()}
    return values.pop() if len(values) == 1 and beyond == {0} else None
