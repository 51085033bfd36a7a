"""Compiled graphs with operators before, between and after their parts for the Edge TPU, for tests.

Real files of that kind come only from Google's compiler; these have the same structure, with packages for the
virtual stick.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import EDGETPU_CUSTOM_OP, parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.virtual.graph_packer import pack

SCALE = 0.5
SIZE = 8


@cache
def source_graph(parts: int = 2) -> bytes:
    """From uint8 "image" [1, 8]: for each part a QUANTIZE, a matrix in int8 and a QUANTIZE back to uint8.

    The outputs are int8 "b0", that of the first matrix, and uint8 "last".
    """
    builder = GraphBuilder("source")
    value = builder.input("image", (1, SIZE), np.uint8, scale=SCALE, zero_point=128)
    inner = []
    for part in range(parts):
        inside = builder.quantize(value, np.int8, scale=SCALE, zero_point=0, name=f"a{part}")
        inner.append(_matrix(builder, inside, part))
        name = "last" if part == parts - 1 else f"c{part}"
        value = builder.quantize(inner[-1], np.uint8, scale=SCALE, zero_point=128, name=name)
    builder.output(inner[0])
    builder.output(value)
    return builder.build()


@cache
def compiled_graph(parts: int = 2, name: str = "parts") -> bytes:
    """The source graph with every matrix compiled for the Edge TPU."""
    source = source_graph(parts)
    builder = GraphBuilder("compiled")
    value = builder.input("image", (1, SIZE), np.uint8, scale=SCALE, zero_point=128)
    inner: list[TensorSpec] = []
    for part in range(parts):
        inside = builder.quantize(value, np.int8, scale=SCALE, zero_point=0, name=f"a{part}")
        graph = extract(source, [f"a{part}"], [f"b{part}"])
        inner += edge_tpu_operator(builder, [inside], graph, f"{name}{part}")
        last = "last" if part == parts - 1 else f"c{part}"
        value = builder.quantize(inner[-1], np.uint8, scale=SCALE, zero_point=128, name=last)
    builder.output(inner[0])
    builder.output(value)
    return builder.build()


@cache
def segments(count: int = 2) -> tuple[bytes, tuple[bytes, ...]]:
    """A chain of matrices in int8 from "x0" to "x<count>", and each of them compiled as a segment."""
    builder = GraphBuilder("chain")
    value = builder.input("x0", (1, SIZE), np.int8, scale=SCALE, zero_point=0)
    for part in range(count):
        value = _matrix(builder, value, part, f"x{part + 1}")
    builder.output(value)
    whole = builder.build()
    parts = [extract(whole, [f"x{part}"], [f"x{part + 1}"]) for part in range(count)]
    return whole, tuple(
        pack(graph, name=f"chain_segment_{number}_of_{count}") for number, graph in enumerate(parts)
    )


def edge_tpu_operator(
    builder: GraphBuilder, inputs: Sequence[TensorSpec], graph: bytes, name: str
) -> tuple[TensorSpec, ...]:
    """Add the operator that contains the compiled `graph`; return its outputs."""
    packed = parse_model(pack(graph, name=name)).subgraphs[0]
    (operator,) = packed.operators
    options = bytes(operator.custom_options)
    return builder.custom(EDGETPU_CUSTOM_OP, inputs, packed.output_specs, options)


def _matrix(builder: GraphBuilder, x: TensorSpec, seed: int, name: str = "") -> TensorSpec:
    weights = np.random.default_rng(seed).integers(-127, 128, (SIZE, SIZE))
    return builder.fully_connected(
        x, weights, weight_scale=1 / 256, scale=SCALE, zero_point=0, name=name or f"b{seed}"
    )
