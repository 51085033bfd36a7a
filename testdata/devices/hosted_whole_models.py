"""Whole models for a host with virtual sticks, and LiteRT's results for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack

IMAGE = {"image": np.random.default_rng(13).integers(0, 256, (1, 8), np.uint8)}
SEGMENTS = [f"chain_segment_{number}_of_3" for number in range(3)]


def backend_of(stick: VirtualEdgeTpu) -> VirtualStickBackend:
    """A backend that opens this stick."""
    return VirtualStickBackend(
        lambda on_phase: EdgeTpu.open(stick, on_phase=on_phase), stick.register_model, pack
    )


def by_litert(graph: bytes, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What LiteRT computes of a graph."""
    return CpuEngine(graph).run(inputs)


def check_same(outputs: Any, expected: dict[str, NDArray[Any]]) -> None:
    """Check that a result has the expected outputs, in the same order."""
    assert list(outputs) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(outputs[name], values)
