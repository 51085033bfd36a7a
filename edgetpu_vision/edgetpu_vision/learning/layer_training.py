"""Layers over embeddings, learned from examples: by imprinting, and by softmax regression."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_vision.learning.taught_examples import ExampleSet

Array = NDArray[np.float64]

PENALTY = 1e-3
"""Weight of the squared length of the rows in the loss of `regress`.

The accuracy is the same from 1e-4 to 1e-2 (`make accuracy`, area learner); larger values make the
probabilities of taught classes low.
"""

_MEMORY = 10
"""Number of steps that L-BFGS remembers. Usual; uncritical."""
_MOST_STEPS = 200
"""Largest number of steps; five classes need 20."""
_SMALL_GRADIENT = 1e-6
"""Largest component of the gradient below which the minimum is considered found."""
_SHARPNESSES = 2.0 ** np.arange(0, 5.5, 0.5)
"""Candidates for the factor on cosines before the softmax. Examples that are separated without an error would
favour ever larger ones; with 32 a class whose cosine is 0.1 less than the best has 4 % of its probability."""
_USUAL_SHARPNESS = 16.0
"""Sharpness if no class has two examples, or there is only one class: a class whose cosine is 0.1 less than
the best has 20 % of its probability. Does not change the best class."""


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """Logits of embeddings: `sharpness * (weights @ embedding + bias)`."""

    weights: Array
    """Weights, [classes, dimension]."""
    bias: Array
    """Bias, [classes]."""
    sharpness: float = 1.0

    def outputs(self, vectors: Array) -> Array:
        """Weights times vectors plus bias, float64 [.., classes]. vectors: [.., dimension]."""
        return np.asarray(vectors @ self.weights.T + self.bias)


def imprint(examples: ExampleSet) -> LinearLayer:
    """The layer whose rows are the normalised mean embeddings of the classes, without a bias.

    The sharpness makes the examples most likely if each is left out of the mean of its class.
    """
    sums = np.zeros((len(examples.labels), examples.vectors.shape[1]))
    np.add.at(sums, examples.numbers, examples.vectors)
    layer = _unit_rows(sums)
    cosines = examples.vectors @ layer.T
    several = np.flatnonzero(examples.counts[examples.numbers] > 1)
    if not several.size or len(examples.labels) < 2:
        return LinearLayer(layer, np.zeros(len(layer)), _USUAL_SHARPNESS)
    own = examples.numbers[several]
    others = _unit_rows(sums[own] - examples.vectors[several])
    left_out = cosines[several]
    left_out[np.arange(len(own)), own] = np.einsum("ij,ij->i", others, examples.vectors[several])
    likelihoods = [_log_softmax(left_out * each)[np.arange(len(own)), own].mean() for each in _SHARPNESSES]
    return LinearLayer(layer, np.zeros(len(layer)), float(_SHARPNESSES[int(np.argmax(likelihoods))]))


def regress(examples: ExampleSet) -> LinearLayer:
    """The layer of softmax regression: least cross-entropy, with `PENALTY` on the rows.

    Every class counts the same, whatever the number of its examples, so that a class with one example can
    compete with one that has many. Converges to the global minimum, in float64.
    """
    basis, coordinates = _span(examples.vectors)
    count, width = len(examples.labels), coordinates.shape[1]
    shares = 1.0 / (count * examples.counts[examples.numbers])
    chosen = np.arange(len(examples.numbers)), examples.numbers

    def loss(values: Array) -> tuple[float, Array]:
        weights, bias = values[: count * width].reshape(count, width), values[count * width :]
        logarithms = _log_softmax(coordinates @ weights.T + bias)
        errors = np.exp(logarithms)
        errors[chosen] -= 1.0
        errors *= shares[:, np.newaxis]
        gradient = errors.T @ coordinates + PENALTY * weights
        total = -float(shares @ logarithms[chosen]) + PENALTY / 2 * float(np.vdot(weights, weights))
        return total, np.concatenate((gradient.ravel(), errors.sum(axis=0)))

    values = _minimum(loss, np.zeros(count * (width + 1)))
    return LinearLayer(values[: count * width].reshape(count, width) @ basis, values[count * width :])


def _span(vectors: Array) -> tuple[Array, Array]:
    """Orthonormal rows that span the vectors, and the coordinates of each vector.

    The rows of the layer are in that span, and there are usually fewer examples than dimensions.
    """
    if len(vectors) >= vectors.shape[1]:
        return np.eye(vectors.shape[1]), vectors
    directions, triangle = np.linalg.qr(vectors.T)
    return directions.T, triangle.T


def _minimum(loss: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    """The minimum of a smooth convex function, by L-BFGS (Nocedal and Wright, algorithm 7.5)."""
    point, (value, gradient) = start, loss(start)
    memory: deque[tuple[Array, Array, float]] = deque(maxlen=_MEMORY)
    for _ in range(_MOST_STEPS):
        if np.abs(gradient).max(initial=0.0) < _SMALL_GRADIENT:
            break
        direction = _direction(gradient, memory)
        slope, length = float(direction @ gradient), 1.0
        while True:
            following = point + length * direction
            next_value, next_gradient = loss(following)
            if next_value <= value + 1e-4 * length * slope:
                break
            length /= 2
            if length < 1e-10:  # rounding: the value no longer changes
                return point
        step, change = following - point, next_gradient - gradient
        curvature = float(step @ change)
        if curvature > 0:
            memory.append((step, change, curvature))
        point, value, gradient = following, next_value, next_gradient
    return point


def _direction(gradient: Array, memory: deque[tuple[Array, Array, float]]) -> Array:
    """The descent direction of L-BFGS, from the curvature along the last steps."""
    direction: Array = -gradient
    shares: list[float] = []
    for step, change, curvature in reversed(memory):
        share = float(step @ direction) / curvature
        direction = direction - share * change
        shares.append(share)
    if memory:
        _, change, curvature = memory[-1]
        direction = direction * (curvature / float(change @ change))
    for (step, change, curvature), share in zip(memory, reversed(shares), strict=True):
        direction = direction + (share - float(change @ direction) / curvature) * step
    return direction


def _unit_rows(rows: Array) -> Array:
    """Each row normalised to length 1; rows of zeros stay zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0))


def _log_softmax(logits: Array) -> Array:
    """Logarithms of the softmax of each row."""
    below = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))
