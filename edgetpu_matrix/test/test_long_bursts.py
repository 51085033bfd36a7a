"""Samples without stamps that come in bursts as long as a block, which say nothing about the sample rate."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_matrix.spectrum.sample_blocks import SampleBlocks, Timing

LENGTH = 64
INTERVAL = 0.01
TRANSMISSION = 1e-4
"""Seconds between samples of a burst."""


def bursts(*sizes: int) -> NDArray[np.float64]:
    """Times of arrival of bursts of these sizes, each when its last sample is taken."""
    ends = INTERVAL * np.cumsum(sizes)
    return np.concatenate(
        [end + TRANSMISSION * np.arange(size) for end, size in zip(ends, sizes, strict=True)]
    )


def outcomes(stamps: NDArray[np.float64], hop: int = LENGTH, arrival: bool = True) -> list[float | str]:
    """The sample rates of the blocks, and the errors in place of blocks, in order."""
    stream = SampleBlocks(LENGTH, hop)
    stream.arrival_stamps = arrival

    def added(stamp: float) -> list[float | str]:
        try:
            return [round(block.sample_rate) for block in stream.add([1.0], stamp)]
        except InputError as error:
            return [str(error)]

    return [each for stamp in stamps.tolist() for each in added(stamp)]


def refusal(size: int) -> str:
    return (
        f"expected a sample rate: messages without stamps come in bursts, the last of {size}, and a block of "
        "64 has less than five of them"
    )


def test_bursts_as_long_as_a_block_are_reported_from_the_fourth_on() -> None:
    found = outcomes(bursts(*[LENGTH] * 6))
    assert found == [10000, 10000, 10000, refusal(64), refusal(64), refusal(64)]


def test_bursts_may_be_longer_than_a_block_and_differ_in_size() -> None:
    found = outcomes(bursts(100, 110, 95, 104, 100), hop=32)
    assert found == [10000] * 5 + [refusal(95)] * 2 + [refusal(104)] * 2


def test_samples_that_come_one_by_one_again_give_blocks_again() -> None:
    stamps = bursts(*[LENGTH] * 4)
    single = stamps[-1] + INTERVAL * np.arange(1, 257)
    found = outcomes(np.concatenate((stamps, single)))
    assert found[:4] == [10000, 10000, 10000, refusal(64)]
    assert found[-2:] == [100, 100]


def test_bursts_with_stamps_of_their_own_are_what_they_say() -> None:
    assert outcomes(bursts(*[LENGTH] * 6), arrival=False) == [10000] * 6


@pytest.mark.parametrize("pauses", [[0.3, 0.3, 0.3, 0.3], [5.0, 60.0, 9.0, 30.0]], ids=["short", "long"])
def test_interruptions_of_a_signal_are_no_bursts(pauses: list[float]) -> None:
    parts = [INTERVAL * np.arange(LENGTH) + index * INTERVAL * LENGTH for index in range(5)]
    stamps = np.concatenate([part + sum(pauses[:index]) for index, part in enumerate(parts)])
    assert outcomes(stamps) == [100] * 5


def test_shorter_bursts_are_spread_as_before() -> None:
    stream = SampleBlocks(LENGTH, LENGTH)
    stream.arrival_stamps = True
    stamps = bursts(*[10] * 20).tolist()
    blocks = [block for stamp in stamps for block in stream.add([1.0], stamp)]
    assert [(round(each.sample_rate), each.timing) for each in blocks] == [(100, Timing.SPREAD)] * 3
