"""Moments of blobs."""

from __future__ import annotations

import tracemalloc

import cv2
import numpy as np
import pytest

from edgetpu_perception.spot_tracker.blob import moments
from testdata.kept_memory import FRAMES, kept_below


def test_moments_are_those_of_opencv() -> None:
    values = np.random.default_rng(1).integers(0, 256, (2, 9, 14)).astype(np.uint8)
    for found, cells in zip(moments(values.astype(float)), values, strict=True):
        known = cv2.moments(cells)
        total = known["m00"]
        assert found == pytest.approx(
            (
                total,
                known["m10"] / total,
                known["m01"] / total,
                known["mu20"],
                known["mu02"],
                known["mu11"],
            )
        )


def test_blobs_of_every_size_keep_no_memory_for_each() -> None:
    tracemalloc.start(FRAMES)
    try:
        for size in range(1, 257):
            moments(np.ones((1, size, size)))
        kept = kept_below(__file__)
    finally:
        tracemalloc.stop()
    assert kept < 100_000  # 511 rows of 24 bytes and what NumPy keeps; a table for each size has 790 kB
