"""Matrices with known products and generated programs, for the steps of `edgetpu confirm`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.cli.confirm.outcome import Refuted, Values
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.requantisation import Activation, multipliers
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain.dense_compiler import compile_dense
from edgetpu_driver.toolchain.retargeting.graph_retargeting import retarget

GOOGLE_SIZE = 256
"""Rows and columns of dense_256, whose programs GOOGLE_PROGRAMS names."""
GOOGLE_PROGRAMS = (
    "bff10c8c60b03d5be26ddf69c4290bc8deb13293f4f3424894f6854e88e3ec1a",
    "f801dadfbd170b865f629986bed4e94914759c35436da1cf16e163b65e48be0d",
)
"""SHA-256 of the two bitstreams that edgetpu_compiler 16 wrote for dense_256 of LibrEdgeTPU at be71d6d: the
one that multiplies, and the one that uploads the parameters. `google_matrix` has the same."""

_LARGEST = 255
"""Largest value of inputs and outputs, which are uint8."""
_TO_SIGNED = 128
"""Difference between zero points of uint8 and int8."""


@dataclass(frozen=True, eq=False)
class TrialMatrix:
    """A matrix of weights from a seed. Zero points are for uint8 values."""

    rows: int
    columns: int
    input_scale: float = 1 / 127
    input_zero_point: int = 128
    output_scale: float = 0.0
    """0: chosen so that outputs of random inputs use their range."""
    output_zero_point: int = 128
    activation: Activation = "NONE"
    seed: int = 0
    bias: bool = False
    signed_output: bool = False
    """int8 outputs, without the QUANTIZE to uint8."""
    weight_scale: float = 1 / 127
    scale_spread: float = 1 / 128
    """The weight scales of the rows rise evenly from weight_scale to (1 + scale_spread) * weight_scale."""

    @cached_property
    def weights(self) -> NDArray[np.int8]:
        """int8 [rows, columns]."""
        rng = np.random.default_rng(self.seed)
        return rng.integers(-127, 128, (self.rows, self.columns), np.int8)

    @cached_property
    def model(self) -> CompiledModel:
        """The program for the stick, with these weights."""
        return CompiledModel.parse(compile_dense(self.graph(), "confirm").file, "confirm")

    @property
    def _output_scale(self) -> float:
        return self.output_scale or 2.5 * sqrt(self.columns) / 3 / 127

    @property
    def _weight_scales(self) -> NDArray[np.float64]:
        return (1 + self.scale_spread * np.arange(self.rows) / self.rows) * self.weight_scale

    @property
    def _bias(self) -> NDArray[np.int32] | None:
        if not self.bias:
            return None
        # In steps of input scale times weight scale: a multiple of the usual input value, and a remainder.
        rows = np.arange(self.rows)
        return (self.input_zero_point * (rows % 200 - 100) + 60 - rows % 121).astype(np.int32)

    def graph(self) -> bytes:
        """The .tflite graph."""
        graph = GraphBuilder("confirm")
        x = graph.input(
            "x", (1, self.columns), np.uint8, scale=self.input_scale, zero_point=self.input_zero_point
        )
        inner = graph.quantize(
            x, np.int8, scale=self.input_scale, zero_point=self.input_zero_point - _TO_SIGNED
        )
        product = graph.fully_connected(
            inner,
            self.weights,
            self._weight_scales,
            scale=self._output_scale,
            zero_point=self.output_zero_point - _TO_SIGNED,
            bias=self._bias,
            activation=self.activation,
            name="y_steps" if not self.signed_output else "y",
        )
        if self.signed_output:
            graph.output(product)
            return graph.build()
        graph.output(
            graph.quantize(
                product, np.uint8, scale=self._output_scale, zero_point=self.output_zero_point, name="y"
            )
        )
        return graph.build()

    def inputs(self) -> NDArray[np.uint8]:
        """Vectors [n, columns]: random ones, small ones, zero, and both ends of the range."""
        rng = np.random.default_rng(self.seed + 1)
        zero = self.input_zero_point
        small = np.clip(zero + rng.integers(-9, 10, (2, self.columns)), 0, _LARGEST)
        rows: tuple[Any, ...] = (
            rng.integers(0, _LARGEST + 1, (3, self.columns)),
            small,
            np.full((1, self.columns), zero),
            np.zeros((1, self.columns)),
            np.full((1, self.columns), _LARGEST),
        )
        return np.concatenate(rows).astype(np.uint8)

    def products(self, inputs: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Expected outputs for uint8 vectors [n, columns], by the documented arithmetic."""
        sums = (inputs.astype(np.float64) - self.input_zero_point) @ self.weights.T.astype(np.float64)
        if self._bias is not None:
            sums += self._bias
        factors = multipliers(self.input_scale, self._weight_scales, self._output_scale)
        steps = sums * factors.astype(np.float64)
        if self.activation != "NONE":
            steps = np.maximum(steps, 0)
        if self.activation == "RELU6":
            steps = np.minimum(steps, 6 / self._output_scale)
        result = np.clip(np.rint(steps) + self.output_zero_point, 0, _LARGEST)
        return np.asarray(result - (_TO_SIGNED if self.signed_output else 0), np.int64)


@cache
def google_matrix(seed: int = 0) -> TrialMatrix:
    """The matrix whose program was compared with Google's, with random weights."""
    return TrialMatrix(
        GOOGLE_SIZE,
        GOOGLE_SIZE,
        input_scale=0.00784302782267332,
        input_zero_point=127,
        output_scale=0.01904885843396187,
        output_zero_point=129,
        weight_scale=0.0008,
        seed=seed,
    )


class RetargetedMatrix(TrialMatrix):
    """A matrix whose file is retargeted from the file of `google_matrix`."""

    @cached_property
    def model(self) -> CompiledModel:
        """The program for the stick, with these weights."""
        source = google_matrix()
        made = retarget(source.model.file, source.graph(), self.graph(), "confirm")
        return CompiledModel.parse(made.file, "confirm")


def compared(outputs: NDArray[Any], expected: NDArray[np.int64]) -> Values:
    """Compare outputs with the expected ones; Refuted if any differs by more than one step."""
    differences = np.abs(outputs.astype(np.int64) - expected)
    values: Mapping[str, Any] = {
        "outputs": int(differences.size),
        "off_by_one": int(np.count_nonzero(differences == 1)),
        "largest_difference": int(differences.max(initial=0)),
    }
    wrong = int(np.count_nonzero(differences > 1))
    if wrong:
        raise Refuted(
            f"{wrong} of {differences.size} outputs differ from the expected ones by more than one step, by "
            f"up to {differences.max()}",
            values,
        )
    return values
