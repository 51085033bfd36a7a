"""Results of nodes compared with the truth: shares of valid results, errors, and sigmas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive.truth import Measured, Record, Truth


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Measured and true values of one or two quantities in each image; NaN: not valid or not known."""

    values: NDArray[np.float64]
    """Measured values, [quantities, images], like the other arrays."""
    sigmas: NDArray[np.float64]
    true: NDArray[np.float64]

    @classmethod
    def of(
        cls, records: Sequence[Record], quantities: Sequence[str], counts: Callable[[Truth], object]
    ) -> Comparisons:
        """Collect the results of the images for whose truth `counts` returns something that is true."""
        columns = [
            [each for record in records for each in _counted(record, quantity, counts)]
            for quantity in quantities
        ]
        numbers = np.array([[(one.value, one.sigma, one.true) for one in each] for each in columns], float)
        return cls(*np.moveaxis(numbers.reshape(len(columns), -1, 3), 2, 0))

    @property
    def valid(self) -> float:
        """Percentage of valid results among those whose truth is known."""
        known = np.isfinite(self.true).all(axis=0)
        return _percent(~self._missing[known])

    @property
    def not_valid(self) -> float:
        """Percentage of results that are not valid."""
        return _percent(self._missing)

    @property
    def error(self) -> float:
        """Median distance between measured and true values; NaN if there are none."""
        return _median(np.linalg.norm(self._errors, axis=0))

    @property
    def relative_error(self) -> float:
        """Median error relative to the true values, %; NaN if there are none."""
        return _median(100 * np.linalg.norm(self._errors / self.true[:, self._compared], axis=0))

    @property
    def inside(self) -> float:
        """Percentage of errors within one sigma, over all quantities."""
        return _percent((np.abs(self._errors) <= self.sigmas[:, self._compared]).ravel())

    @property
    def _missing(self) -> NDArray[np.bool_]:
        """Images whose result is not valid."""
        return np.asarray(np.isnan(self.values).any(axis=0), bool)

    @property
    def _compared(self) -> NDArray[np.bool_]:
        """Images with a valid result and known truth."""
        return ~np.asarray(np.isnan(self.values - self.true).any(axis=0), bool)

    @property
    def _errors(self) -> NDArray[np.float64]:
        return np.asarray((self.values - self.true)[:, self._compared])


def _counted(record: Record, quantity: str, counts: Callable[[Truth], object]) -> Iterator[Measured]:
    """The results of the images in a record for whose truth `counts` returns something that is true."""
    for each in record.measured.get(quantity, []):
        truth = record.truth_at(each.time)
        if truth is not None and counts(truth):
            yield each


def _percent(which: NDArray[np.bool_]) -> float:
    return 100 * float(np.mean(which)) if which.size else float("nan")


def _median(errors: NDArray[np.float64]) -> float:
    return float(np.median(errors)) if errors.size else float("nan")
