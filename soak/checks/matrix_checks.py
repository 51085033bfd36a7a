"""Checks whether results of the matrix nodes follow from the published signal and embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetpu_matrix.place_recognition.place_database import PlaceDatabase
from soak.outcome_journal import Judgement, Outcome

BLOCK = 64
"""Period of the signal and length of a spectrum's block, samples."""
PEAK_BIN, PEAK_AMPLITUDE = 8, 1.0
_SECOND_BIN, _SECOND_AMPLITUDE = 3, 0.3

PLACES, DIMENSION = 60, 48
_SHARE_OF_NEXT = 0.3
"""Share of the next place in each embedding."""

AMPLITUDE_TOLERANCE = 0.03
SCORE_TOLERANCE = 0.02
"""Tolerance of a score; the second-best place differs by more than ten times as much."""
PREDICTION_TOLERANCE = 0.15
"""Largest error of a prediction, for a signal between -1.3 and 1.3."""
SETTLED_STEPS = 30
"""Number of inputs in a row after which the reservoir has forgotten a gap."""
ENOUGH_SAMPLES = 150
"""Number of training samples after which the reservoir's readout is trained."""
_LARGEST_RESIDUAL = 0.03
"""Largest root mean square of the residual of a good training."""


def signal(index: int) -> float:
    """The sample that is published with the image number `index`."""
    turn = 2 * math.pi * (index % BLOCK) / BLOCK
    return PEAK_AMPLITUDE * math.sin(PEAK_BIN * turn) + _SECOND_AMPLITUDE * math.cos(_SECOND_BIN * turn)


def place_vectors() -> NDArray[np.float64]:
    """A unit vector for each place, [PLACES, DIMENSION]."""
    vectors = np.random.default_rng(11).normal(size=(PLACES, DIMENSION))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def label(place: int) -> str:
    """The name of a place."""
    return f"place {place}"


def write_places(path: Path) -> None:
    """Write the file of places with which the node starts."""
    database = PlaceDatabase()
    for place, vector in enumerate(place_vectors()):
        database.add(label(place), vector)
    path.parent.mkdir(parents=True, exist_ok=True)
    database.save(path)


def embedding(index: int, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The embedding that is published with image number `index`: a view of place `index` modulo PLACES."""
    view = (1 - _SHARE_OF_NEXT) * vectors[index % PLACES] + _SHARE_OF_NEXT * vectors[(index + 1) % PLACES]
    return np.asarray(view)


@dataclass(frozen=True)
class SpectrumResult:
    """The checked values of a spectrum, without ROS types."""

    valid: bool
    sample_rate: float
    peak_frequency: float
    peak_amplitude: float


def judge_spectrum(result: SpectrumResult, period: float) -> Judgement:
    """Compare the strongest line with that of the signal; `period`: time between samples, s."""
    rate = 1 / period
    if abs(result.sample_rate / rate - 1) > 1e-3:
        return Outcome.WRONG, f"sample rate {result.sample_rate:.4f}, expected {rate:.4f}"
    if not result.valid:
        return Outcome.NOT_VALID, ""
    frequency = PEAK_BIN / BLOCK * rate
    if abs(result.peak_frequency - frequency) > 0.5 * rate / BLOCK:
        return Outcome.WRONG, f"peak at {result.peak_frequency:.4f} Hz, expected {frequency:.4f}"
    if abs(result.peak_amplitude - PEAK_AMPLITUDE) > AMPLITUDE_TOLERANCE:
        return Outcome.WRONG, f"amplitude {result.peak_amplitude:.4f}, expected {PEAK_AMPLITUDE}"
    return Outcome.RIGHT, ""


class PlaceCheck:
    """Checks matches of the embeddings."""

    def __init__(self) -> None:
        self._vectors = place_vectors()

    def judge(self, index: int, valid: bool, found: str, score: float) -> Judgement:
        """Compare the best match of the embedding number `index`; `score`: its cosine."""
        view = embedding(index, self._vectors)
        cosines = self._vectors @ (view / np.linalg.norm(view))
        best = int(np.argmax(cosines))
        if not valid:
            return Outcome.NOT_VALID, ""
        if found != label(best):
            return Outcome.WRONG, f"embedding {index}: '{found}', expected '{label(best)}'"
        if abs(score - cosines[best]) > SCORE_TOLERANCE:
            return Outcome.WRONG, f"embedding {index}: score {score:.4f}, expected {cosines[best]:.4f}"
        return Outcome.RIGHT, ""


class PredictionCheck:
    """Checks predictions of the next sample, once the reservoir has had enough samples without a gap."""

    def __init__(self) -> None:
        self._last = (-2, -2)
        self._even = 0

    def judge(self, index: int, step: int, valid: bool, value: float) -> Judgement:
        """Compare a prediction from the sample number `index`; `step`: step of the reservoir."""
        follows = (index - 1, step - 1) == self._last
        self._even = self._even + 1 if follows else 0
        self._last = index, step
        if not valid or self._even < SETTLED_STEPS:
            return Outcome.NOT_JUDGED, ""
        true = signal(index + 1)
        if abs(value - true) > PREDICTION_TOLERANCE:
            return Outcome.WRONG, f"sample {index}: predicted {value:.4f}, expected {true:.4f}"
        return Outcome.RIGHT, ""


class ReadoutTraining:
    """Whether predictions come from a good readout, and when to train one.

    A training restarts the count of samples, by which results of the previous readout are recognised.
    """

    def __init__(self) -> None:
        self.is_good = False
        self._samples = 0
        """Number of samples of a good training that no result has followed yet; 0: there is none."""

    def wants(self, valid: bool, samples: int) -> bool:
        """Take a result with the samples since the last training; return whether to request a training."""
        if not valid and samples < ENOUGH_SAMPLES:  # the node was restarted
            self.is_good, self._samples = False, 0
        if valid and samples < self._samples:
            self.is_good, self._samples = True, 0
        return not self.is_good and not self._samples and samples >= ENOUGH_SAMPLES

    def done(self, samples: int, residual_rms: float) -> None:
        """Take the answer to a successful training request.

        If a request was repeated too early, the readout has only the few samples since the first request.
        """
        if samples >= ENOUGH_SAMPLES and residual_rms < _LARGEST_RESIDUAL:
            self._samples = samples
