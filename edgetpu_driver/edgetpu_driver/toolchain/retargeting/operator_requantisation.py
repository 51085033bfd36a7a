"""The requantisation of a program's operations: the fields that each operator of a graph determines.

Computed from the graphs, the rules give every requantisation in the golden models that depends on a graph: of
layers with weights, of pooling, of products, of values moved between tiles, and of the steps of a softmax.
All follow one formula: input scale * factor * (1 / output scale), where the factor is the scale of the
weights, 1 for moved values, or 1 / n for a mean of n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from edgetpu_driver.darwinn.requantisation import (
    ACTIVATIONS,
    Activation,
    Requantisation,
    clamps,
    multipliers,
)
from edgetpu_driver.tflite import file_tables
from edgetpu_driver.tflite.model_reader import ABSENT, Operator, Subgraph, Tensor
from edgetpu_driver.tflite.operator_options import Options
from edgetpu_driver.tflite.shared_quantisation import ChipQuantisation, chip_quantisation
from edgetpu_driver.toolchain.retargeting.addition_factors import Factors, factors_of, scale_of_sum
from edgetpu_driver.weights.network_layers import multiplies_channels

LAYER = "layer"
"""Role of the requantisation of the sum of products of a layer with weights."""
LARGEST = "maximum"
"""Role of the maximum in a softmax, from which the zero point is subtracted as an offset."""
LARGEST_OF_WINDOW = "maximum_of_window"
"""Role of the maximum in a max pooling, from which the zero point is subtracted in the same way."""

_LARGEST = 255
"""Largest uint8, the type of the chip's outputs."""
_EXPONENT_MINIMUM = float(np.float32(-13.038098335266113))
"""The least argument of exp in a softmax, whatever its scale; below it the result rounds to 0 in 16 bits."""
_LOGISTIC_LIMIT = float(np.float32(10.396732330322266))
"""Where programs cut off the argument of a LOGISTIC on both sides, whatever its scale: beyond, the result
differs from 0 or 1 by less than about 2^-15."""


@dataclass(frozen=True)
class Step:
    """A requantisation that an operator of a graph may need."""

    operator: int
    role: str
    """LAYER, or a name that distinguishes the steps of one operator."""
    requantisation: Requantisation
    factors: Factors | None = None
    """The factors of the inputs, if the operator is an addition."""
    offset: int | None = None
    """The constant added to the sum of products, if the graph determines it; for an addition see `factors`.
    """


CONSTANT_STEPS = frozenset(
    Requantisation(float(np.float32(multiplier)), minimum, maximum, 0, 0, 0)
    for multiplier, minimum, maximum in (
        (1.0, -math.inf, math.inf),
        # The sum, the reciprocal and the quotient of a softmax, in 16 and 23 bits.
        (1.0, 0.0, 65535.0),
        (1 / 65535, -math.inf, math.inf),
        (1 / 65535, 0.0, 32768.0),
        (1.1921416387394856e-07, 0.0, 255.0),
    )
)
"""The steps that do not depend on the graph."""


def has_own_multipliers(weights: Tensor) -> bool:
    """Whether the channels of a layer have different scales, so that its parameters hold the multipliers."""
    scales = weights.quantization.scales
    return bool(np.any(scales != scales[0]))


def steps_of(
    graph: Subgraph,
    options: tuple[Options, ...],
    operator: int,
    *,
    has_section: bool = False,
    own_multipliers: bool = False,
) -> tuple[Step, ...]:
    """The requantisation steps of one operator; operators of the same form have the same roles.

    has_section: whether the parameters have a section for the operator; the section of a softmax holds its
    scale. own_multipliers: whether the section of a layer holds multipliers even if all of them are equal.
    Returns an empty tuple if the operator has no requantisation or its rules are not known.
    """
    with np.errstate(all="ignore"):
        found = _Rules(graph, options[operator], graph.operators[operator], has_section, own_multipliers)
        return tuple(
            Step(operator, role, each, found.factors, found.offsets.get(role)) for role, each in found.steps()
        )


class _Rules:
    def __init__(
        self,
        graph: Subgraph,
        options: Options,
        operator: Operator,
        has_section: bool,
        own_multipliers: bool,
    ) -> None:
        self._graph, self._options, self._operator = graph, options, operator
        self._has_section, self._own_multipliers = has_section, own_multipliers
        self._sources = [
            chip_quantisation(graph.tensors[index]) if index != ABSENT else None for index in operator.inputs
        ]
        self._result = chip_quantisation(graph.tensors[operator.outputs[0]]) if operator.outputs else None
        self.factors = self._factors()
        self.offsets: dict[str, int] = {}
        """The offsets of the steps that have one, by role."""

    def steps(self) -> Iterator[tuple[str, Requantisation]]:
        source = self._sources[0] if self._sources else None
        if source is None or self._result is None:
            return
        name = file_tables.ACTIVATIONS.get(int(self._options.get("activation", 0)), "")
        activation = ACTIVATIONS.get(name)
        rule = RULES.get(self._operator.name)
        if rule is not None and activation is not None:
            yield from rule(self, source, self._result, activation)
        if self._operator.name not in ("SOFTMAX", "ADD", "MAXIMUM"):
            yield "copy", _step(self._result, 1.0, self._result)

    def layer(
        self, source: ChipQuantisation, result: ChipQuantisation, activation: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        weights = self._graph.tensors[self._operator.inputs[1]]
        if not weights.quantization.scales.size:
            return
        own = self._own_multipliers or has_own_multipliers(weights)
        factor = None if own else float(weights.quantization.scales[0])
        one_scale = chip_quantisation(weights)
        step = _step(source, factor, result, activation, one_scale.zero_point if one_scale else 0)
        yield LAYER, step

    def mean(
        self, source: ChipQuantisation, result: ChipQuantisation, activation: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        if self._operator.name == "MEAN":
            shapes = [self._graph.tensors[each].shape for each in self._first_operands()]
            count = prod(shapes[0]) // max(prod(shapes[1]), 1)
        else:
            count = int(self._options["filter_w"] * self._options["filter_h"])
        share = float(np.float32(1) / np.float32(max(count, 1)))
        yield "mean", _step(source, share, result, activation)
        # A pooling of the whole image has the zero point of its input in the field for that of the weights.
        yield (
            "mean_of_all",
            _step(ChipQuantisation(source.scale, 0), share, result, activation, source.zero_point),
        )

    def _first_operands(self) -> tuple[int, int]:
        return self._operator.inputs[0], self._operator.outputs[0]

    def product(
        self, source: ChipQuantisation, result: ChipQuantisation, activation: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        other = self._sources[1] if len(self._sources) > 1 else None
        has_multipliers = self._has_section and multiplies_channels(self._graph, self._operator)
        if other is not None and has_multipliers:
            yield "product", _step(source, None, result, activation)
        elif other is not None:
            yield "product", _step(source, other.scale, result, activation, other.zero_point)

    def larger(
        self, _: ChipQuantisation, result: ChipQuantisation, __: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        """The maximum of two values of one quantisation: half their difference, if negative, is added twice.

        The middle of the difference's range is at 127.5; the compiler takes 127 or 128 as its zero point,
        depending on the rounding of floats, and a program keeps the one that it has.
        """
        scale = 2 * result.scale
        half = float(multipliers(result.scale, 1.0, scale))
        one = float(multipliers(result.scale, 1.0, result.scale))
        for middle in (127, 128):
            low, _high = clamps(scale, middle, "NONE")
            yield f"difference_{middle}", Requantisation(half, low, 0.0, 0, 1, middle)
            low, high = clamps(result.scale, result.zero_point, "NONE")
            self.offsets[f"larger_{middle}"] = 2 * middle - result.zero_point
            yield f"larger_{middle}", Requantisation(one, low, high, 0, 2, result.zero_point)

    def _factors(self) -> Factors | None:
        """The factors of the inputs of an ADD of two tensors; None for other operators and for constants."""
        if self._operator.name != "ADD" or None in self._sources or len(self._sources) != 2:
            return None
        if any(self._graph.tensors[index].data for index in self._operator.inputs):
            return None
        first, second = (each for each in self._sources if each is not None)
        return factors_of((first.scale, second.scale), (first.zero_point, second.zero_point))

    def sum(
        self, source: ChipQuantisation, result: ChipQuantisation, activation: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        """The requantisation of the sum, without the zero points of the inputs, which are in the offset."""
        other = self._sources[1] if len(self._sources) > 1 else None
        if self.factors is not None and other is not None:
            step = scale_of_sum((source.scale, other.scale), self.factors)
            yield "sum", _step(ChipQuantisation(step, 0), 1.0, result, activation)

    def collected(
        self, _: ChipQuantisation, result: ChipQuantisation, activation: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        for position, source in enumerate(self._sources):
            if source is not None:
                yield f"part_{position}", _step(source, 1.0, result, activation)

    def changed_scale(
        self, source: ChipQuantisation, result: ChipQuantisation, activation: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        yield "changed_scale", _step(source, 1.0, result, activation)

    def softmax(
        self, source: ChipQuantisation, _: ChipQuantisation, __: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        """The maximum, the difference from it, and the exponent, scaled here or by the parameters."""
        low, high = clamps(source.scale, source.zero_point, "NONE")
        one = float(multipliers(source.scale, 1.0, source.scale))
        self.offsets[LARGEST] = -source.zero_point
        yield LARGEST, Requantisation(one, low, high, 0, source.zero_point, source.zero_point)
        low, high = clamps(source.scale, _LARGEST, "NONE")
        yield "difference", Requantisation(one, low, high, 0, 1, _LARGEST)
        yield "moved_difference", Requantisation(one, low, high, _LARGEST, 0, _LARGEST)
        scale = 1.0 if self._has_section else source.scale
        yield "exponent", Requantisation(scale, _EXPONENT_MINIMUM, 0.0, _LARGEST, 0, 0)

    def largest_of_window(
        self, source: ChipQuantisation, result: ChipQuantisation, activation: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        self.offsets[LARGEST_OF_WINDOW] = -source.zero_point
        yield LARGEST_OF_WINDOW, _step(source, 1.0, result, activation)

    def logistic(
        self, source: ChipQuantisation, _: ChipQuantisation, __: Activation
    ) -> Iterator[tuple[str, Requantisation]]:
        yield (
            "argument",
            Requantisation(source.scale, -_LOGISTIC_LIMIT, _LOGISTIC_LIMIT, source.zero_point, 0, 0),
        )


def _step(
    source: ChipQuantisation,
    factor: float | None,
    result: ChipQuantisation,
    activation: Activation = "NONE",
    weight_zero_point: int = 0,
) -> Requantisation:
    """factor: None if the parameters hold the multipliers."""
    minimum, maximum = clamps(result.scale, result.zero_point, activation)
    multiplier = 1.0 if factor is None else float(multipliers(source.scale, factor, result.scale))
    return Requantisation(
        multiplier, minimum, maximum, source.zero_point, weight_zero_point, result.zero_point
    )


_Rule = Callable[
    [_Rules, ChipQuantisation, ChipQuantisation, Activation], Iterator[tuple[str, Requantisation]]
]
RULES: dict[str, _Rule] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), _Rules.layer),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MEAN"), _Rules.mean),
    "MUL": _Rules.product,
    "MAXIMUM": _Rules.larger,
    "MAX_POOL_2D": _Rules.largest_of_window,
    "ADD": _Rules.sum,
    "CONCATENATION": _Rules.collected,
    "QUANTIZE": _Rules.changed_scale,
    "SOFTMAX": _Rules.softmax,
    "LOGISTIC": _Rules.logistic,
}
