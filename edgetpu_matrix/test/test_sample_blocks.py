"""Streams of samples cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.errors import InputError
from edgetpu_matrix.spectrum.sample_blocks import GAP_OF_ARRIVALS, SampleBlock, SampleBlocks


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


@pytest.mark.parametrize(("later", "gaps"), [(0.10, 1), (-0.05, 1), (0.0, 1), (0.012, 0)])
def test_a_gap_begins_the_stream_anew(later: float, gaps: int) -> None:
    stream = SampleBlocks(4, 4)
    for i in range(3):
        stream.add([i], 0.01 * i)
    blocks = stream.add([3], 0.02 + later)
    assert stream.gaps == gaps
    assert len(blocks) == 1 - gaps


def test_a_sample_that_arrives_late_is_no_gap_where_stamps_tell_only_that() -> None:
    stream = SampleBlocks(4, 4)
    stream.gap = GAP_OF_ARRIVALS
    stamps = (0.0, 0.01, 0.21, 0.211, 0.22, 0.23, 0.50)
    assert [start for i, stamp in enumerate(stamps) for start in starts(stream.add([i], stamp))] == [0.0]
    assert stream.gaps == 1


def test_with_a_given_rate_only_time_that_goes_back_is_a_gap() -> None:
    stream = SampleBlocks(4, 4, 100.0)
    stream.add([0, 1], 10.0)
    assert len(stream.add([2, 3], 50.0)) == 1
    stream.add([0, 1], 60.0)
    assert stream.add([2, 3], 59.0) == []
    assert stream.gaps == 1


@pytest.mark.parametrize("samples", [[np.nan], [np.inf], [[1.0]]])
def test_bad_samples_are_refused_and_the_stream_goes_on(samples: list[float]) -> None:
    stream = SampleBlocks(2, 2, 100.0)
    stream.add([1], 0.0)
    with pytest.raises(InputError):
        stream.add(samples, 0.01)
    assert [block.samples.tolist() for block in stream.add([2], 0.02)] == [[1, 2]]


def test_several_samples_of_one_stamp_need_a_rate() -> None:
    with pytest.raises(InputError, match="expected a sample rate for messages of 2 samples"):
        SampleBlocks(4, 4).add([1, 2], 0.0)


@pytest.mark.parametrize("arguments", [(4, 0), (4, 5), (4, 4, -1.0), (4, 4, np.nan)])
def test_bad_arguments_are_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        SampleBlocks(*arguments)
