"""The spacing of stamps: even, with jitter, in bursts, with samples missing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_matrix.spectrum.stamp_timing import interpolate, stamp_timing

COUNT = 256
INTERVAL = 0.01
EVEN = 1000 + INTERVAL * np.arange(COUNT)


def bursts(size: int) -> NDArray[np.float64]:
    """Stamps of samples that are delivered `size` at a time, 0.1 ms apart, when the last one is taken."""
    numbers = np.arange(COUNT)
    return 1000 + INTERVAL * size * (numbers // size + 1) + 1e-4 * (numbers % size)


def later(stamps: NDArray[np.float64], first: int, by: float, last: int = COUNT) -> NDArray[np.float64]:
    """Stamps of which those from `first` to before `last` are later by `by` intervals."""
    result = stamps.copy()
    result[first:last] += by * INTERVAL
    return result


def test_even_stamps_have_no_jitter_bursts_or_gaps() -> None:
    timing = stamp_timing(EVEN)
    assert timing.interval == pytest.approx(INTERVAL, rel=1e-9)
    assert timing.grid == pytest.approx(EVEN, abs=1e-9)
    assert timing.jitter == pytest.approx(0.0, abs=1e-9)
    assert (timing.bursts, timing.first_after_gap) == (False, 0)


def test_jitter_is_its_rms_in_intervals() -> None:
    signs = np.where(np.arange(COUNT) // 2 % 2, 1, -1)
    timing = stamp_timing(EVEN + 0.15 * INTERVAL * signs)
    assert timing.jitter == pytest.approx(0.15, rel=1e-3)
    assert timing.interval == pytest.approx(INTERVAL, rel=1e-4)
    assert (timing.bursts, timing.first_after_gap) == (False, 0)


@pytest.mark.parametrize("size", [2, 3, 10, 32, 50])
def test_the_interval_of_samples_in_bursts_is_that_of_the_bursts_over_their_size(size: int) -> None:
    timing = stamp_timing(bursts(size))
    assert timing.interval == pytest.approx(INTERVAL, rel=1e-9)
    assert (timing.bursts, timing.first_after_gap) == (True, 0)


def test_bursts_may_differ_in_size() -> None:
    sizes = np.resize([9, 10, 11, 10, 8, 12], 30)
    tails = np.cumsum(sizes)
    stamps = np.concatenate(
        [tail * INTERVAL + 1e-4 * np.arange(size) for tail, size in zip(tails, sizes, strict=True)]
    )
    timing = stamp_timing(stamps[:COUNT])
    assert timing.interval == pytest.approx(INTERVAL, rel=1e-3)
    assert (timing.bursts, timing.first_after_gap) == (True, 0)


@pytest.mark.parametrize(
    ("stamps", "first"),
    [
        (later(EVEN, 100, 1.0), 100),
        (later(EVEN, 255, 1.0), 255),
        (later(EVEN, 100, 1e4), 100),
        (later(bursts(10), 100, 10.0), 100),
        (later(bursts(10), 250, 300.0), 250),
    ],
    ids=["one sample", "before the last", "a long pause", "a burst", "a pause after a burst"],
)
def test_missing_samples_are_found(stamps: NDArray[np.float64], first: int) -> None:
    assert stamp_timing(stamps).first_after_gap == first


@pytest.mark.parametrize(
    "stamps",
    [later(EVEN, 100, 0.8, 101), later(bursts(10), 100, 5.0, 110)],
    ids=["a sample", "a burst"],
)
def test_late_samples_that_catch_up_are_not_missing(stamps: NDArray[np.float64]) -> None:
    assert stamp_timing(stamps).first_after_gap == 0


def test_interpolation_is_exact_for_polynomials_of_degree_five() -> None:
    times = np.linspace(-1, 1, 32)
    stamps = times + 0.015 * np.sin(40 * times)
    assert interpolate(stamps**5 - stamps**2, stamps, times) == pytest.approx(times**5 - times**2, abs=1e-12)


def test_samples_of_the_same_stamp_do_not_spoil_the_interpolation() -> None:
    times = 0.1 * np.arange(16)
    stamps = times.copy()
    stamps[8] = stamps[7]
    assert interpolate(2 * stamps, stamps, times) == pytest.approx(2 * times)
