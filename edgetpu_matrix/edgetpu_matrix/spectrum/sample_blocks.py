"""A stream of samples cut into overlapping blocks of one length, with the rate and timing of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.weights.real_arrays import real_array
from edgetpu_matrix.spectrum.long_bursts import LongBursts
from edgetpu_matrix.spectrum.stamp_timing import interpolate, stamp_timing

MOST_LATE_ARRIVAL = 24.0
"""Sample intervals by which a sample may be late without a gap where stamps are times of arrival."""

LEAST_JITTER = 0.002
"""RMS deviation of the stamps from even spacing, in sample intervals, from which a block is resampled."""


LARGEST = 1e37
"""Largest magnitude of a sample. Derived: the amplitudes of any block are float32, which ends at 3.4e38."""


class Timing(IntEnum):
    """Why the samples of a block are evenly spaced."""

    EVEN = 0
    """By their stamps, or because the sample rate is given."""
    RESAMPLED = 1
    """They were interpolated, as their stamps have jitter."""
    SPREAD = 2
    """They are assumed to be: stamps in bursts, or times of arrival, do not say when each was taken."""


@dataclass(frozen=True)
class SampleBlock:
    """Consecutive samples of a signal, evenly spaced."""

    samples: NDArray[np.float64]
    """Samples, [length], oldest first."""
    sample_rate: float
    """Sample rate, Hz."""
    sequence: int
    """Number of blocks since the last `reset`."""
    timing: Timing = Timing.EVEN
    jitter: float = 0.0
    """RMS deviation of the stamps from even spacing, in sample intervals; 0 if the sample rate is given."""


class SampleBlocks:
    """Collects samples, any number at a time, and returns a block every `hop` samples.

    sample_rate: Hz; 0: measured from the stamps, which requires a stamp with every sample.
    Raises InputError for lengths and rates that make no block.
    """

    def __init__(self, length: int, hop: int, sample_rate: float = 0.0) -> None:
        if not 1 <= hop <= length:
            raise InputError(f"expected a hop of 1 to {length} samples; got {hop}")
        if not (np.isfinite(sample_rate) and sample_rate >= 0):
            raise InputError(f"expected a sample rate of 0 (measured) or more, Hz; got {sample_rate}")
        if not sample_rate and length < 2:
            raise InputError("expected blocks of at least 2 samples where the sample rate is measured; got 1")
        self.length, self.hop, self.sample_rate = length, hop, sample_rate
        self.arrival_stamps = False
        """Whether stamps are times of arrival: samples may be late, and are assumed to be evenly spaced."""
        self.gaps = 0
        """Number of restarts of the stream because samples were missing or time went back."""
        self.reset()

    def reset(self) -> None:
        """Forget the samples collected."""
        self._samples = np.zeros(0)
        self._stamps = np.zeros(0)
        self._sequence = 0
        self._bursts = LongBursts()

    def add(self, samples: ArrayLike, stamp: float) -> list[SampleBlock]:
        """Take samples, float [n], of which the last was taken at `stamp` s; return the blocks now complete.

        A stamp that goes back restarts the stream. If the rate is measured, so do missing samples: late
        stamps that the following ones do not make up for. Raises InputError for another shape, for NaN,
        values above LARGEST and infinite stamps; if the rate is measured, also for several samples with one
        stamp, for stamps that do not advance, and for times of arrival in bursts as long as a block.
        """
        values = real_array(samples, "samples").astype(np.float64, copy=False)
        if values.ndim != 1:
            raise InputError(f"expected samples [n]; got shape {list(values.shape)}")
        if not (np.abs(values) <= LARGEST).all():
            raise InputError(f"expected samples of at most {LARGEST:.1g}; got {values[:4]}")
        if not np.isfinite(stamp):
            raise InputError(f"expected a finite stamp; got {stamp}")
        if not self.sample_rate and values.size != 1:
            raise InputError(
                f"expected a sample rate for messages of {values.size} samples, which have one stamp"
            )
        if values.size and len(self._stamps) and stamp < self._stamps[-1]:
            self.gaps += 1
            self.reset()
        self._samples = np.concatenate((self._samples, values))
        self._stamps = np.concatenate((self._stamps, np.full(values.size, stamp)))
        blocks = []
        while len(self._samples) >= self.length:
            if block := self._next_block():
                blocks.append(block)
        return blocks

    def _next_block(self) -> SampleBlock | None:
        """Make a block of the oldest samples; None after removing those before a gap."""
        samples, stamps = self._samples[: self.length], self._stamps[: self.length]
        if self.sample_rate:
            block = SampleBlock(samples.copy(), self.sample_rate, self._sequence)
        else:
            if stamps[0] == stamps[-1]:
                self.reset()
                raise InputError(
                    f"expected stamps that advance, or a sample rate; got {stamps[0]:g} s {len(stamps)} times"
                )
            if self.arrival_stamps:
                self._bursts.begin_block(stamps)
            timing = stamp_timing(stamps, MOST_LATE_ARRIVAL if self.arrival_stamps else 0.0)
            if timing.first_after_gap:
                self.gaps += 1
                self._sequence = 0
                self._remove(timing.first_after_gap)
                return None
            if self.arrival_stamps and self._bursts.size:
                self._remove(self.hop)
                raise InputError(
                    f"expected a sample rate: messages without stamps come in bursts, the last of "
                    f"{self._bursts.size}, and a block of {self.length} has less than five of them"
                )
            kind = Timing.EVEN
            if self.arrival_stamps or timing.bursts:
                kind = Timing.SPREAD
            elif timing.jitter > LEAST_JITTER:
                kind = Timing.RESAMPLED
                samples = interpolate(samples, stamps, timing.grid)
            rate = 1.0 / timing.interval
            block = SampleBlock(samples.copy(), rate, self._sequence, kind, timing.jitter)
        self._sequence += 1
        self._remove(self.hop)
        return block

    def _remove(self, count: int) -> None:
        self._bursts.advance(self._stamps[:count])
        self._samples, self._stamps = self._samples[count:], self._stamps[count:]
