"""What the tests of the matrix package share: matrices in the eight bits of the suite's own Dense graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from numpy.typing import ArrayLike


@pytest.fixture
def on_cpu() -> Callable[..., Any]:
    """A function that makes an EngineMatrix with options and sets weights on it."""
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    from edgetpu_driver.engines.cpu_engine import CpuEngine
    from edgetpu_driver.toolchain import dense_graph
    from edgetpu_matrix import EngineMatrix

    def make(weights: ArrayLike, **options: Any) -> EngineMatrix:
        matrix = EngineMatrix([CpuEngine(dense_graph.build(256))], **options)
        matrix.set(weights)
        return matrix

    return make
