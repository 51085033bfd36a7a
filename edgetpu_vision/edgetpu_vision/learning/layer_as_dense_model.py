"""Maps a layer with a bias to the matrix of a Dense model, which has no bias."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.matrix.scaling import ALWAYS
from edgetpu_vision.learning.layer_training import LinearLayer
from edgetpu_vision.learning.taught_examples import ExampleSet

HEADROOM = ALWAYS
"""Headroom of the matrix, see `matrix.scaling`. An embedding is nearly parallel to the row of its class, so
that products come close to the largest possible one."""

SIZES = (256, 512, 768, 1024)
"""Sizes of Dense models whose program the suite generates."""

_MOST_BIAS_INPUTS = 8
"""Largest number of constant inputs. With more, the eight bits of the inputs would limit the precision of a
bias."""


@dataclass(frozen=True, eq=False)
class DenseHead:
    """A layer as a matrix, with its bias as the weights of constant inputs if the model has free inputs.

    The host then adds nothing; otherwise it adds the whole bias.
    """

    matrix: NDArray[np.float64]
    """The matrix, [classes, dimension + constant inputs]."""
    constant: float
    """Value of the constant inputs."""
    host_bias: NDArray[np.float64]
    """The bias that the host adds, [classes]; zeros if it is in the matrix."""

    def inputs(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        """The embedding, [dimension], followed by the constant inputs."""
        extended = np.full(self.matrix.shape[1], self.constant)
        extended[: vector.size] = vector
        return extended

    def outputs(self, product: NDArray[np.float64]) -> NDArray[np.float64]:
        """The outputs of the layer, [classes], from the product of the matrix and the inputs."""
        return product + self.host_bias


def head_size(dimension: int) -> int:
    """Rows and columns of the smallest Dense model that holds embedding and bias, or of the largest one."""
    return next((size for size in SIZES if size > dimension), SIZES[-1])


def dense_head(layer: LinearLayer, examples: ExampleSet, columns: int) -> DenseHead:
    """Put a layer onto Dense models of `columns` columns.

    The constant is the largest value of a typical example, so that it does not make the input scale coarser.
    The bias is divided among as many constant inputs as needed, if there are enough, so that it does not make
    the scale of its row coarser.
    """
    bias, weights = layer.bias, layer.weights
    free = -weights.shape[1] % columns
    constant = float(np.median(np.abs(examples.vectors).max(axis=1)))
    if not bias.any() or not free:
        return DenseHead(weights, constant, bias)
    largest = np.abs(weights).max(axis=1)
    needed = np.divide(np.abs(bias), constant * largest, out=np.ones_like(bias), where=largest > 0).max()
    count = min(free, _MOST_BIAS_INPUTS, max(1, ceil(needed)))
    parts = np.repeat((bias / (count * constant))[:, np.newaxis], count, axis=1)
    return DenseHead(np.hstack((weights, parts)), constant, np.zeros_like(bias))
