"""Whole models for a host with virtual sticks, and LiteRT's results for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine

IMAGE = {"image": np.random.default_rng(13).integers(0, 256, (1, 8), np.uint8)}
SEGMENTS = [f"chain_segment_{number}_of_3" for number in range(3)]


def by_litert(graph: bytes, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """LiteRT's outputs of a graph for these inputs."""
    return CpuEngine(graph).run(inputs)


def check_same(outputs: Any, expected: dict[str, NDArray[Any]]) -> None:
    """Check that a result has the expected outputs, in the same order."""
    assert list(outputs) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(outputs[name], values)
