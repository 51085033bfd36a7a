"""An echo-state network; the product with its recurrent matrix is computed by the caller.

State update after Jaeger (2001): x <- (1 - leak) x + leak f(W x + W_in u + b).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.weights.real_arrays import real_array

ACTIVATIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "tanh": np.tanh,
    "relu": lambda values: np.maximum(values, 0.0),
    "identity": lambda values: values,
}
"""Activation functions by name."""

LARGEST_SIZE = 1024
"""Largest number of neurons: 16 tiles of dense_256, 1 MB of the chip's 8."""


_SQUARINGS = 16  # of the matrix: k = 2^16 in Gelfand's formula, for which the error is below 1 in 10 000
_LARGEST = float(np.finfo(np.float32).max)
"""Largest magnitude; larger values are infinite in float32, the type of the values sent to the stick."""


def spectral_radius(matrix: NDArray[np.float64]) -> float:
    """Largest absolute value of an eigenvalue of a matrix [n, n], to 1 in 10 000.

    By Gelfand's formula, |A^k|^(1/k) for a large k: matrix products are ten times faster than an eigenvalue
    solver, which takes seconds for a size of 1024.
    """
    power, logarithm, exponent = matrix, 0.0, 1
    for _ in range(_SQUARINGS):
        norm = float(np.linalg.norm(power))
        if norm == 0.0:
            return 0.0
        logarithm += np.log(norm) / exponent
        power = power / norm
        power, exponent = power @ power, 2 * exponent
    return float(np.exp(logarithm + np.log(max(float(np.linalg.norm(power)), 1e-300)) / exponent))


def _check_dynamics(radius: float, leak: float, activation: str) -> None:
    """Raise InputError unless a state stays finite with a spectral radius, leak and activation."""
    if not (0 < leak <= 1 and radius > 0):
        raise InputError(f"expected 0 < leak <= 1 and a spectral radius > 0; got {leak} and {radius}")
    if activation not in ACTIVATIONS:
        raise InputError(f"expected an activation of {', '.join(ACTIVATIONS)}; got '{activation}'")
    if activation != "tanh" and radius >= 1:
        raise InputError(
            f"expected a spectral radius below 1 with {activation}, which is unbounded; got {radius}"
        )


class EchoStateNetwork:
    """A random recurrent network with a state, float64 [size]; the caller multiplies W by the state.

    The weights depend on the arguments alone. W is uniformly distributed, because a normal distribution would
    use most of the quantised range for a few large weights, and is scaled to the given spectral radius. W_in
    is uniform in +-input_scaling, b in +-bias.

    inputs: number of values of a sample; 0: that of the first sample. leak: 0 < leak <= 1. activation:
    "tanh", "relu" or "identity". Raises InputError for values out of range.
    """

    def __init__(
        self,
        size: int = 256,
        inputs: int = 0,
        *,
        spectral_radius: float = 0.9,
        leak: float = 1.0,
        activation: str = "tanh",
        input_scaling: float = 0.5,
        bias: float = 0.2,
        seed: int = 0,
    ) -> None:
        if not 1 <= size <= LARGEST_SIZE:
            raise InputError(f"expected a size of 1 to {LARGEST_SIZE}; got {size}")
        if inputs < 0:
            raise InputError(f"expected 0 or more inputs; got {inputs}")
        if not np.isfinite((spectral_radius, input_scaling, bias)).all():
            raise InputError(
                "expected a finite spectral radius, input scaling and bias; "
                f"got {spectral_radius}, {input_scaling} and {bias}"
            )
        if seed < 0:
            raise InputError(f"expected a seed of 0 or more; got {seed}")
        _check_dynamics(spectral_radius, leak, activation)
        self.size, self.inputs, self.leak = size, 0, leak
        self._radius = spectral_radius
        self._activation = ACTIVATIONS[activation]
        # Separate generators, so that W does not depend on the number of inputs.
        recurrent, projection = np.random.SeedSequence(seed).spawn(2)
        self._pattern = np.random.default_rng(recurrent).uniform(-1.0, 1.0, (size, size))
        self._random = np.random.default_rng(projection)
        bias, self._input_scaling = abs(bias), abs(input_scaling)  # numpy refuses the range of -0.0
        self._bias = self._random.uniform(-bias, bias, size)
        self._input_weights = np.zeros((size, 0))
        if inputs:
            self.inputs_are(inputs)
        self._factor: float | None = None
        self.reset()

    def reset(self) -> None:
        """Set the state to zero."""
        self.state = np.zeros(self.size)

    def inputs_are(self, inputs: int) -> None:
        """Set the number of values of a sample, unless it is known already."""
        if not self.inputs:
            self.inputs = inputs
            limit = self._input_scaling
            self._input_weights = self._random.uniform(-limit, limit, (self.size, inputs))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """W before rounding and before scaling to the spectral radius, [size, size]."""
        return self._pattern

    def bind(self, effective: NDArray[np.float64]) -> float:
        """Set the effective matrix, W after rounding, [size, size].

        Returns the factor by which `advance` multiplies products to give W the spectral radius.
        """
        self._factor = self._radius / spectral_radius(effective)
        return self._factor

    def advance(self, recurrent: NDArray[np.floating], inputs: ArrayLike) -> NDArray[np.float64]:
        """Take one step. recurrent: effective matrix @ state, [size]. inputs: the sample u, [inputs].

        Raises InputError for other shapes, NaN, and a sample or a new state beyond the range of float32; the
        state then stays as it was.
        """
        sample = self.check(inputs)
        self.inputs_are(len(sample))
        factor = self._factor or self.bind(self._pattern)
        if recurrent.shape != (self.size,):
            raise InputError(f"expected W @ state of {self.size} values; got shape {list(recurrent.shape)}")
        with np.errstate(over="ignore"):
            drive = factor * recurrent + self._input_weights @ sample + self._bias
            state = (1.0 - self.leak) * self.state + self.leak * self._activation(drive)
        if not np.all(np.abs(state) <= _LARGEST):
            raise InputError(f"expected a sample that keeps the state finite; got {sample[:4]}")
        self.state = state
        return state

    def check(self, inputs: ArrayLike) -> NDArray[np.float64]:
        """The sample as float64 [inputs]; InputError for another shape, NaN and values beyond float32."""
        sample = real_array(inputs, "a sample").astype(np.float64, copy=False)
        if sample.ndim != 1 or len(sample) != (self.inputs or len(sample)) or not len(sample):
            expected = self.inputs or "one or more"
            raise InputError(f"expected a sample of {expected} values; got shape {list(sample.shape)}")
        if not (np.abs(sample) <= _LARGEST).all():
            raise InputError(f"expected a sample of values that float32 can represent; got {sample[:4]}")
        return sample

    def features(self, inputs: ArrayLike) -> NDArray[np.float64]:
        """The input of a readout after a step: 1, the sample and the state, [1 + inputs + size]."""
        return np.concatenate(([1.0], np.asarray(inputs, np.float64), self.state))
