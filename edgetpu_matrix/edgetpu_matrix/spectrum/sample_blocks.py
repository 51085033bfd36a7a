"""A stream of samples cut into overlapping blocks of one length, with the time and rate of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError

GAP = 1.5
"""A sample later than so many sample intervals after the one before: some are missing in between."""

GAP_OF_ARRIVALS = 25.0
"""As GAP, where stamps are the times of arrival: a sample may come late and none be missing."""


@dataclass(frozen=True)
class SampleBlock:
    """Consecutive samples of a signal."""

    samples: NDArray[np.float64]
    """[length], oldest first."""
    sample_rate: float
    """Hz."""
    sequence: int
    """Counts the blocks since the last `reset`."""


class SampleBlocks:
    """Gathers samples, however many come at a time, and gives a block every `hop` samples.

    sample_rate: Hz; 0: measured from the stamps, for which every sample must come with its own.
    Raises InputError for lengths and rates that make no block.
    """

    def __init__(self, length: int, hop: int, sample_rate: float = 0.0) -> None:
        if not 1 <= hop <= length:
            raise InputError(f"expected a hop of 1 to {length} samples; got {hop}")
        if not (np.isfinite(sample_rate) and sample_rate >= 0):
            raise InputError(f"expected a sample rate of 0 (measured) or more, Hz; got {sample_rate}")
        self.length, self.hop, self.sample_rate = length, hop, sample_rate
        self.gap = GAP
        """Sample intervals after which samples are missing."""
        self.gaps = 0
        """Times the stream began anew because samples were missing."""
        self.reset()

    def reset(self) -> None:
        """Forget the samples gathered."""
        self._samples = np.zeros(0)
        self._stamps = np.zeros(0)
        self._sequence = 0

    def add(self, samples: ArrayLike, stamp: float) -> list[SampleBlock]:
        """Take samples, float [n], of which the last was taken at `stamp` seconds; the blocks now complete.

        A stamp that goes back, or one after a gap where the rate is measured, begins the stream anew.
        Raises InputError for another shape, NaN and infinity, and for several samples with one stamp where
        the rate is to be measured.
        """
        values = np.asarray(samples, np.float64)
        if values.ndim != 1:
            raise InputError(f"expected samples [n]; got shape {list(values.shape)}")
        if not np.isfinite(values).all():
            raise InputError("expected finite samples; got NaN or infinity")
        if not self.sample_rate and values.size != 1:
            raise InputError(
                f"expected a sample rate for messages of {values.size} samples: one stamp cannot tell it"
            )
        self._begin_anew_after_a_gap(values.size, stamp)
        self._samples = np.concatenate((self._samples, values))
        self._stamps = np.concatenate((self._stamps, np.full(values.size, stamp)))
        blocks = []
        while len(self._samples) >= self.length:
            blocks.append(SampleBlock(self._samples[: self.length].copy(), self._rate(), self._sequence))
            self._sequence += 1
            self._samples, self._stamps = self._samples[self.hop :], self._stamps[self.hop :]
        return blocks

    def _rate(self) -> float:
        if self.sample_rate:
            return self.sample_rate
        stamps = self._stamps[: self.length]
        return float((len(stamps) - 1) / (stamps[-1] - stamps[0]))

    def _begin_anew_after_a_gap(self, count: int, stamp: float) -> None:
        if not len(self._stamps):
            return
        step = stamp - self._stamps[-1]
        if self.sample_rate:
            missing = step < 0
        else:
            intervals = np.diff(self._stamps[-self.length :])
            usual = float(np.median(intervals)) if intervals.size else float("inf")
            missing = step <= 0 or step > self.gap * usual
        if missing and count:
            self.gaps += 1
            self.reset()
