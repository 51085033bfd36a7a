"""The models that are measured: compiled files where present, otherwise packed ones of the same size."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.virtual.graph_packer import pack
from testdata import GOLDEN


def golden(name: str) -> Path | None:
    """Path of a compiled golden model; None if it is not present."""
    return GOLDEN.find(f"models/{name}_edgetpu.tflite")


def packed_dense(size: int) -> bytes:
    """A matrix with a scale for every row, in the compiler's container."""
    rng = np.random.default_rng(0)
    graph = GraphBuilder(f"dense_{size}")
    x = graph.input("x", (1, size), np.uint8, scale=2 / 255, zero_point=127)
    inner = graph.quantize(x, np.int8, scale=2 / 255, zero_point=-1)
    weights = rng.integers(-127, 128, (size, size))
    scales = rng.uniform(8e-4, 9e-4, size)
    result = graph.fully_connected(inner, weights, weight_scale=scales, scale=0.02, zero_point=1)
    graph.output(graph.quantize(result, np.uint8, scale=0.02, zero_point=129, name="y"))
    return pack(graph.build(), name=f"dense_{size}")
