"""Streams of samples cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_matrix.spectrum.sample_blocks import SampleBlock, SampleBlocks, Timing


def starts(blocks: list[SampleBlock]) -> list[float]:
    return [block.samples[0] for block in blocks]


def test_blocks_overlap_by_what_the_hop_leaves() -> None:
    stream = SampleBlocks(4, 2, sample_rate=100.0)
    blocks = stream.add(np.arange(9), 0.0)
    assert [block.samples.tolist() for block in blocks] == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert [block.sequence for block in blocks] == [0, 1, 2]
    assert starts(stream.add([9.0], 0.0)) == [6]


def test_how_the_samples_come_does_not_matter() -> None:
    stream = SampleBlocks(4, 3, sample_rate=100.0)
    found = [start for sample in range(12) for start in starts(stream.add([sample], sample / 100))]
    assert found == starts(SampleBlocks(4, 3, sample_rate=100.0).add(np.arange(12), 0.0)) == [0, 3, 6]


def test_the_rate_is_measured_from_the_stamps() -> None:
    stream = SampleBlocks(5, 5)
    blocks = [block for i in range(5) for block in stream.add([i], 100 + 0.01 * i + 0.001 * (i % 2))]
    assert [block.sample_rate for block in blocks] == pytest.approx([100.0])


def test_a_given_rate_is_that_of_the_blocks() -> None:
    assert SampleBlocks(2, 1, 44100.0).add([1, 2], 0.0)[0].sample_rate == 44100.0


@pytest.mark.parametrize(("later", "gaps"), [(0.10, 1), (-0.05, 1), (0.012, 0)])
def test_a_gap_restarts_the_stream(later: float, gaps: int) -> None:
    stream = SampleBlocks(4, 4)
    for i in range(3):
        stream.add([i], 0.01 * i)
    blocks = stream.add([3], 0.02 + later)
    assert stream.gaps == gaps
    assert len(blocks) == 1 - gaps


def add_each(stream: SampleBlocks, stamps: NDArray[np.float64]) -> list[SampleBlock]:
    """Add the number of each stamp as a sample."""
    return [block for i, stamp in enumerate(stamps) for block in stream.add([i], float(stamp))]


def test_evenly_spaced_samples_are_used_as_they_are() -> None:
    (block,) = add_each(SampleBlocks(16, 16), 5 + 0.01 * np.arange(16))
    assert block.samples.tolist() == list(range(16))
    assert block.sample_rate == pytest.approx(100.0)
    assert (block.timing, block.jitter) == (Timing.EVEN, pytest.approx(0.0, abs=1e-6))


def test_stamps_with_jitter_give_samples_at_even_times() -> None:
    stamps = 0.01 * (np.arange(64) + 0.2 * (np.arange(64) % 2))
    stream = SampleBlocks(64, 64)
    (block,) = [block for stamp in stamps for block in stream.add([3 * stamp], stamp)]
    assert block.timing is Timing.RESAMPLED
    assert block.sample_rate == pytest.approx(100.0, rel=2e-4)
    assert block.jitter == pytest.approx(0.1, rel=2e-3)
    assert np.diff(block.samples) == pytest.approx(3 / block.sample_rate)  # a ramp stays one


@pytest.mark.parametrize("size", [2, 7, 10])
def test_samples_in_bursts_are_spread_evenly(size: int) -> None:
    numbers = np.arange(64)
    (block,) = add_each(SampleBlocks(64, 64), 0.01 * size * (numbers // size) + 1e-4 * (numbers % size))
    assert block.timing is Timing.SPREAD
    assert block.samples.tolist() == list(range(64))
    assert block.sample_rate == pytest.approx(100.0)


def test_samples_without_stamps_of_their_own_are_spread_evenly() -> None:
    stream = SampleBlocks(16, 16)
    stream.arrival_stamps = True
    stamps = 0.01 * np.arange(16)
    stamps[8] += 0.008
    (block,) = add_each(stream, stamps)
    assert block.timing is Timing.SPREAD
    assert block.samples.tolist() == list(range(16))


@pytest.mark.parametrize(("pause", "gaps"), [(0.1, 0), (0.3, 1)])
def test_a_sample_may_arrive_late_where_stamps_are_times_of_arrival(pause: float, gaps: int) -> None:
    stream = SampleBlocks(16, 16)
    stream.arrival_stamps = True
    stamps = 0.01 * np.arange(24)
    stamps[4:] += pause
    blocks = add_each(stream, stamps)
    assert stream.gaps == gaps
    assert starts(blocks) == [4.0 * gaps]


def test_a_block_begins_after_the_missing_samples() -> None:
    stream = SampleBlocks(16, 16)
    stamps = 0.01 * np.arange(40)
    stamps[10:] += 0.01
    stamps[30:] += 5.0
    assert starts(add_each(stream, stamps)) == [10.0]
    assert stream.gaps == 1  # the second one comes to light with the next block


def test_stamps_that_do_not_advance_are_refused() -> None:
    stream = SampleBlocks(4, 4)
    with pytest.raises(InputError, match=r"expected stamps that advance, or a sample rate; got 7 s 4 times"):
        add_each(stream, np.full(4, 7.0))
    assert starts(add_each(stream, 8 + 0.01 * np.arange(4))) == [0.0]


def test_with_a_given_rate_only_time_that_goes_back_is_a_gap() -> None:
    stream = SampleBlocks(4, 4, 100.0)
    stream.add([0, 1], 10.0)
    assert len(stream.add([2, 3], 50.0)) == 1
    stream.add([0, 1], 60.0)
    assert stream.add([2, 3], 59.0) == []
    assert stream.gaps == 1


@pytest.mark.parametrize("samples", [[np.nan], [np.inf], [-1e38], [[1.0]]])
def test_bad_samples_are_refused_and_the_stream_continues(samples: list[float]) -> None:
    stream = SampleBlocks(2, 2, 100.0)
    stream.add([1], 0.0)
    with pytest.raises(InputError):
        stream.add(samples, 0.01)
    assert [block.samples.tolist() for block in stream.add([2], 0.02)] == [[1, 2]]


@pytest.mark.parametrize("stamp", [np.nan, np.inf])
def test_a_stamp_that_is_no_time_is_refused_and_the_stream_continues(stamp: float) -> None:
    stream = SampleBlocks(2, 2)
    stream.add([1], 0.0)
    with pytest.raises(InputError, match="expected a finite stamp; got"):
        stream.add([5], stamp)
    assert [block.samples.tolist() for block in stream.add([2], 0.02)] == [[1, 2]]


def test_several_samples_of_one_stamp_need_a_rate() -> None:
    with pytest.raises(InputError, match="expected a sample rate for messages of 2 samples"):
        SampleBlocks(4, 4).add([1, 2], 0.0)


@pytest.mark.parametrize("arguments", [(4, 0), (4, 5), (4, 4, -1.0), (4, 4, np.nan), (1, 1)])
def test_bad_arguments_are_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        SampleBlocks(*arguments)
