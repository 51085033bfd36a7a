"""The Dense graph: a square matrix times a vector.

Operators and weight scales are chosen so that the location of every weight and multiplier in the compiled
model is known and both can be replaced.
"""

from __future__ import annotations

import re
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import GraphError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain.graph_family import GraphFamily
from edgetpu_driver.weights.replaceable_weights import INT8_MAX

LARGEST = 2048
"""Rows of the largest matrix, which takes 4 MB of the chip's 8."""

OUTPUT_DEVIATIONS = 4.6
"""Range of the outputs in standard deviations; 1 in 240 000 Gaussian outputs exceeds it.

It is part of every dense_<size> file. How outputs use the range depends on the plan, see matrix.scaling.
"""

_SPREAD = 1 / 128  # spread of the row scales: if all are equal, the compiler stores no multiplier per row


def name(size: int) -> str:
    """Name of the graph of a matrix of this many rows and columns: "dense_256"."""
    return f"dense_{size}"


def build(size: int) -> bytes:
    """Graph of a matrix of `size` rows and columns, 1 to 2048, with replaceable weights.

    Input "x": uint8 [1, size], -1 to 1, zero point 128. Weights "y_steps/weights": int8 [size, size] with a
    scale for each row: -1 to 1 in the first row, 1/128 more in the last. Output "y": uint8 [1, size], zero
    point 128; its range suits Gaussian inputs and weights whose largest values are 1, and is at most `size`
    to either side. Raises GraphError for any other size.
    """
    if not 1 <= size <= LARGEST:
        raise GraphError(f"expected a matrix of 1 to {LARGEST} rows; got {size}")
    scale = output_scale(size)
    graph = GraphBuilder(name(size))
    x = graph.input("x", (1, size), np.uint8, scale=1 / INT8_MAX, zero_point=128)
    steps = graph.quantize(x, np.int8, scale=1 / INT8_MAX, zero_point=0, name="x_steps")
    product = graph.fully_connected(
        steps, _weights(size), weight_scales(size), scale=scale, zero_point=0, name="y_steps"
    )
    graph.output(graph.quantize(product, np.uint8, scale=scale, zero_point=128, name="y"))
    return graph.build()


def weight_scales(size: int) -> NDArray[np.float64]:
    """Weight scale of each row: float64 [size]."""
    return (1 + _SPREAD * np.arange(size) / size) / INT8_MAX


def output_scale(size: int) -> float:
    """Scale of the output."""
    sigma = sqrt(size) / (_largest_gaussian(size) * _largest_gaussian(size * size))
    return min(OUTPUT_DEVIATIONS * sigma, size) / INT8_MAX


def _largest_gaussian(count: int) -> float:
    """Median of the largest of `count` Gaussian values, in standard deviations."""
    return NormalDist().inv_cdf((1 + 0.5 ** (1 / count)) / 2)


def _weights(size: int) -> NDArray[np.int8]:
    """Placeholder weights over all of int8 with distinct rows, which the compiler cannot simplify."""
    index = np.arange(size * size, dtype=np.uint32).reshape(size, size)
    mixed = (index * np.uint32(2654435761)) >> np.uint32(16)  # multiplicative hashing (Knuth)
    return ((mixed % np.uint32(2 * INT8_MAX + 1)).astype(np.int16) - INT8_MAX).astype(np.int8)


FAMILIES = (
    GraphFamily(
        "dense_<size>",
        re.compile(r"dense_([1-9]\d{0,3})"),
        lambda size: build(int(size)),
        "a square matrix times a vector, its weights to be replaced",
        (name(256), name(512), name(1024)),
    ),
)
