"""A linear readout trained by ridge regression, sample by sample, in constant memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import ArchiveError, InputError
from edgetpu_driver.weights.real_arrays import real_array
from edgetpu_matrix.errors import NotTrainedError

BATCH = 32
"""Number of samples added to the sums at a time: one matrix product instead of 32 outer products."""

MOST_SAMPLES = 2**53
"""Largest number of samples that a float64 counts exactly."""


LARGEST = float(np.finfo(np.float32).max)
"""Largest feature or target. Derived: the sums of the squares of any number of them are finite."""


@dataclass(frozen=True)
class Training:
    """The result of training a readout."""

    samples: int
    residual_rms: NDArray[np.float64]
    """Root mean square of target minus output over the samples, per output, in the unit of the target."""
    target_sigma: NDArray[np.float64]
    """Standard deviation of the targets, per output."""

    @property
    def explained(self) -> float:
        """Explained share of the variance of the targets, 0..1: mean over the outputs."""
        shares = 1.0 - self.residual_rms**2 / np.maximum(self.target_sigma**2, np.finfo(float).tiny)
        return float(np.clip(shares, 0.0, 1.0).mean())


class RidgeReadout:
    """A linear map of features to outputs: least mean |target - output|^2 + regularization |weights|^2.

    Only the sums of the normal equations are kept (features^2 + features x outputs, float64), so memory does
    not grow with the number of samples, and training can continue after `solve`. The first feature is assumed
    to be 1: its weight, the offset, is not regularised.

    The sums are those of targets minus the first one: otherwise the residual of targets that are large
    compared with their deviation, such as times or UTM coordinates, would be lost in rounding.
    """

    ARRAYS = ("weights", "gram", "cross", "target_sum", "target_square", "samples", "residual")
    OPTIONAL_ARRAYS = ("target_shift",)
    """Arrays that files of earlier versions do not have."""

    def __init__(self, features: int, outputs: int) -> None:
        self.features, self.outputs = features, outputs
        self.weights: NDArray[np.float64] | None = None
        """Weights, [outputs, features]; None until the first `solve`."""
        self.residual_rms = np.full(outputs, np.nan)
        """Root mean square of the residual of the last `solve`, [outputs]; NaN before."""
        self.clear()

    def clear(self) -> None:
        """Discard all samples; the weights stay."""
        self._gram = np.zeros((self.features, self.features))
        self._cross = np.zeros((self.features, self.outputs))
        self._target_sum = np.zeros(self.outputs)
        self._target_square = np.zeros(self.outputs)
        self._target_shift = np.zeros(self.outputs)
        """What is subtracted from targets before they are added to the sums."""
        self._samples = 0
        self._waiting: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []

    @property
    def samples(self) -> int:
        """Number of samples since the last `clear`."""
        return self._samples + len(self._waiting)

    def add(self, features: ArrayLike, target: ArrayLike) -> None:
        """Add one sample, float [features] and [outputs].

        InputError for other shapes, NaN, and values above LARGEST, after which no training would succeed.
        """
        sample = _vector(features, self.features, "features").copy(), _vector(target, self.outputs, "targets")
        self._waiting.append(sample)
        if len(self._waiting) == BATCH:
            self._flush()

    def solve(self, regularization: float = 1e-6) -> Training:
        """Compute the weights from the samples so far.

        regularization: in the unit of the mean square of a feature. Raises NotTrainedError without samples
        and if the equations have no unique solution, InputError unless regularization >= 0.
        """
        if not (np.isfinite(regularization) and regularization >= 0):
            raise InputError(f"expected a regularization of 0 or more; got {regularization}")
        self._flush()
        n = self._samples
        if n == 0:
            raise NotTrainedError("expected samples to train on; there are none yet")
        penalty = np.full(self.features, regularization)
        penalty[0] = 0.0
        gram, cross = self._gram / n + np.diag(penalty), self._cross / n
        try:
            # Raises where the matrix is not positive definite: the solution would be noise.
            np.linalg.cholesky(gram)
            solution = np.linalg.solve(gram, cross)
        except np.linalg.LinAlgError:
            raise NotTrainedError(
                f"expected a regularization that makes {n} samples of {self.features} features solvable; "
                f"{regularization:g} is too small"
            ) from None
        mean_square = self._target_square / n
        explained = 2 * (solution * cross).sum(0) - (solution * (self._gram / n @ solution)).sum(0)
        self.weights = np.ascontiguousarray(solution.T)
        self.weights[:, 0] += self._target_shift
        self.residual_rms = np.sqrt(np.maximum(mean_square - explained, 0.0))
        deviation = np.sqrt(np.maximum(mean_square - (self._target_sum / n) ** 2, 0.0))
        return Training(n, self.residual_rms, deviation)

    def predict(self, features: ArrayLike) -> NDArray[np.float64]:
        """The outputs, float64 [outputs], for float [features]; NotTrainedError before `solve`."""
        if self.weights is None:
            raise NotTrainedError("expected a trained readout; this one has not been trained yet")
        return self.weights @ _vector(features, self.features, "features")

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Weights and sums, to be saved. NotTrainedError before `solve`."""
        if self.weights is None:
            raise NotTrainedError("expected a trained readout; this one has not been trained yet")
        self._flush()
        values = (
            self.weights,
            self._gram,
            self._cross,
            self._target_sum,
            self._target_square,
            np.array(self._samples),
            self.residual_rms,
            self._target_shift,
        )
        return dict(zip(self.ARRAYS + self.OPTIONAL_ARRAYS, values, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RidgeReadout:
        """The readout that `to_arrays` described; ArchiveError for other arrays."""
        weights = arrays["weights"]
        if weights.ndim != 2 or 0 in weights.shape:
            raise ArchiveError(f"expected weights [outputs, features]; got {list(weights.shape)}")
        outputs, features = weights.shape
        shapes: tuple[tuple[int, ...], ...] = ((outputs, features), (features, features))
        shapes += ((features, outputs), (outputs,), (outputs,), (), (outputs,), (outputs,))
        arrays = {"target_shift": np.zeros(outputs)} | dict(arrays)
        for name, shape in zip(cls.ARRAYS + cls.OPTIONAL_ARRAYS, shapes, strict=True):
            array = arrays[name]
            if array.shape != shape or array.dtype.kind not in "fi" or not np.isfinite(array).all():
                raise ArchiveError(
                    f"expected {name} as finite numbers {list(shape)}; got {array.dtype}{list(array.shape)}"
                )
        samples = int(arrays["samples"])
        if not 0 <= samples < MOST_SAMPLES:
            raise ArchiveError(f"expected 0 to {MOST_SAMPLES - 1} samples; got {samples}")
        readout = cls(features, outputs)
        readout.weights = weights.astype(np.float64)
        readout._gram = arrays["gram"].astype(np.float64)
        readout._cross = arrays["cross"].astype(np.float64)
        readout._target_sum = arrays["target_sum"].astype(np.float64)
        readout._target_square = arrays["target_square"].astype(np.float64)
        readout._target_shift = arrays["target_shift"].astype(np.float64)
        readout._samples = samples
        readout.residual_rms = arrays["residual"].astype(np.float64)
        return readout

    def _flush(self) -> None:
        if not self._waiting:
            return
        features = np.stack([sample[0] for sample in self._waiting])
        targets = np.stack([sample[1] for sample in self._waiting])
        if not self._samples:
            self._target_shift = targets[0].copy()
        targets -= self._target_shift
        self._gram += features.T @ features
        self._cross += features.T @ targets
        self._target_sum += targets.sum(0)
        self._target_square += (targets**2).sum(0)
        self._samples += len(self._waiting)
        self._waiting.clear()


def _vector(values: ArrayLike, size: int, what: str) -> NDArray[np.float64]:
    vector = real_array(values, what).astype(np.float64, copy=False)
    if vector.shape != (size,):
        raise InputError(f"expected {size} {what}; got shape {list(vector.shape)}")
    if not (np.abs(vector) <= LARGEST).all():
        raise InputError(f"expected {what} that float32 can represent; got {vector[:4]}")
    return vector
