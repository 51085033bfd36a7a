"""The properties of a model with one Dense layer: its size, its ranges and its weight scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.replaceable_weights import WeightTensor

FEWEST_STEPS = 32
"""Quantisation steps that inputs and outputs must have on either side of zero: five bits and a sign."""


@dataclass(frozen=True, eq=False)
class DenseModel:
    """A model that only multiplies its input by one weight matrix."""

    input: TensorSpec
    output: TensorSpec
    tensor: WeightTensor
    """The matrix, [rows, columns]."""

    @classmethod
    def of(
        cls, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], tensor: WeightTensor
    ) -> DenseModel:
        """Check a model's tensors.

        Raises ModelUnsupportedError for a model that does more than multiply, such as adding a bias or
        applying an activation, and for one without an 8-bit input and output that take both signs.
        """
        check_tensors(inputs, outputs)
        model = cls(inputs[0], outputs[0], tensor)
        if tensor.shape != (model.rows, model.columns) or not tensor.is_pure_matmul:
            raise ModelUnsupportedError(
                "expected a Dense model, which only multiplies by a matrix of outputs by inputs; got one "
                "that does more, such as adding a bias or an activation, or has other weights: "
                f"{tensor.operator} {list(tensor.shape)}"
            )
        return model

    @classmethod
    def of_engine(cls, engine: SwappableEngine) -> DenseModel:
        """Check the model of an engine; raises ModelUnsupportedError like `of`."""
        check_tensors(engine.inputs, engine.outputs)
        try:
            tensor = engine.weight_tensor()
        except InputError as error:  # several layers have weights
            raise ModelUnsupportedError(f"expected a Dense model of one layer; {error}") from None
        return cls.of(engine.inputs, engine.outputs, tensor)

    def multiplies_like(self, other: DenseModel) -> bool:
        """Whether plans for this model are valid for the other one."""
        own, others = self.tensor, other.tensor
        return (
            (self.input, self.output) == (other.input, other.output)
            and (own.limits, own.zero_point) == (others.limits, others.zero_point)
            and np.array_equal(own.scales, others.scales)
        )

    @cached_property
    def rows(self) -> int:
        """Number of outputs."""
        return prod(self.output.shape)

    @cached_property
    def columns(self) -> int:
        """Number of inputs."""
        return prod(self.input.shape)

    @cached_property
    def input_steps(self) -> int:
        """Quantisation steps of the input on either side of zero."""
        return self.input.symmetric_steps

    @cached_property
    def output_steps(self) -> int:
        """Quantisation steps of the output on either side of zero."""
        return self.output.symmetric_steps

    @cached_property
    def input_range(self) -> float:
        """Largest input of either sign, in the unit that the model was built with."""
        return self.input.scale * self.input_steps

    @cached_property
    def output_range(self) -> float:
        """Largest output of either sign, in the unit that the model was built with."""
        return self.output.scale * self.output_steps


def check_tensors(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    """Raise ModelUnsupportedError unless there are one 8-bit input and output that take both signs."""
    if len(inputs) != 1 or len(outputs) != 1:
        raise ModelUnsupportedError(
            f"expected a Dense model with one input and one output; got {len(inputs)} and {len(outputs)}"
        )
    for spec in (*inputs, *outputs):
        if spec.symmetric_steps < FEWEST_STEPS:
            raise ModelUnsupportedError(
                "expected a Dense model, a matrix times a vector, with 8-bit tensors of at least "
                f"{FEWEST_STEPS} steps on either side of zero; {spec} has {spec.symmetric_steps}"
            )
