"""The probability that an image shows any of the taught classes."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from edgetpu_vision.learning.taught_examples import ExampleSet

_ASSUMED_KNOWN, _ASSUMED_UNKNOWN = 0.85, 0.57
"""Similarities assumed besides the measured ones: medians of MobileNet embeddings of 26 photographs."""
_ASSUMED_SPREAD = 0.1
"""Standard deviation of the same similarities."""
_ASSUMED_COUNT = 2.0
"""Weight of an assumed similarity, in measured ones: small, so that a dozen examples outweigh it."""
_LEAST_GAP = 0.02
"""Least difference of the means of known and unknown, so that a more similar image is never less likely to be
known."""
_BLOCK = 256
"""Number of examples whose cosines with all others are in memory at a time: 20 MB of 10,000 examples.
Uncritical."""


@dataclass(frozen=True)
class Familiarity:
    """The probability that an image is of a taught class, by its similarity to the most similar example."""

    threshold: float
    """Cosine at which known and unknown are equally probable."""
    slope: float
    """Increase of the log-odds per unit of the cosine."""
    known: int
    """Number of similarities that were measured within classes; 0: only the assumed one counts."""
    unknown: int
    """Number of similarities that were measured between classes; 0: only the assumed one counts."""

    def probability(self, similarity: float) -> float:
        """Probability, 0..1, that an image with this cosine is known."""
        log_odds = self.slope * (similarity - self.threshold)
        return 1 / (1 + exp(-min(max(log_odds, -50.0), 50.0)))


def calibrate(examples: ExampleSet) -> Familiarity:
    """Measure on the examples how similar known and unknown images are.

    Known: the similarity of each example to the most similar other one, if its class has another. Unknown:
    that to the most similar one of all other classes, as if its own class had not been taught. Both are
    assumed to be normally distributed with the same standard deviation, and equally probable a priori.
    """
    of_any, of_other_classes = _most_similar(examples)
    known = of_any[examples.counts[examples.numbers] > 1]
    unknown = of_other_classes if len(examples.labels) > 1 else np.zeros(0)
    known_mean, known_squares = _mean(known, _ASSUMED_KNOWN)
    unknown_mean, unknown_squares = _mean(unknown, _ASSUMED_UNKNOWN)
    freedom = known.size + unknown.size + _ASSUMED_COUNT
    variance = (known_squares + unknown_squares + _ASSUMED_COUNT * _ASSUMED_SPREAD**2) / freedom
    gap = max(known_mean - unknown_mean, _LEAST_GAP)
    return Familiarity((known_mean + unknown_mean) / 2, gap / variance, known.size, unknown.size)


def _most_similar(examples: ExampleSet) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosine of each example with the most similar other one, and with that of another class: [examples]."""
    vectors, numbers = examples.vectors, examples.numbers
    of_any, of_other_classes = np.empty(len(vectors)), np.empty(len(vectors))
    for start in range(0, len(vectors), _BLOCK):
        part = slice(start, start + _BLOCK)
        cosines = vectors[part] @ vectors.T
        np.fill_diagonal(cosines[:, part], -1.0)
        of_any[part] = cosines.max(axis=1)
        cosines[numbers[part, np.newaxis] == numbers] = -1.0
        of_other_classes[part] = cosines.max(axis=1)
    return of_any, of_other_classes


def _mean(measured: NDArray[np.float64], assumed: float) -> tuple[float, float]:
    """The mean including the assumed value, and the sum of the squared deviations from it."""
    mean = (float(measured.sum()) + _ASSUMED_COUNT * assumed) / (measured.size + _ASSUMED_COUNT)
    return mean, float(np.square(measured - mean).sum()) + _ASSUMED_COUNT * (assumed - mean) ** 2
