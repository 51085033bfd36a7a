"""Timing model of a virtual stick: transfers by link speed, computation by chip clock.

Bandwidth and latency of the faster link reproduce the reported times of Dense inferences and uploads on a USB
3 port: 0.27 to 0.29 ms for 256 x 256 with parameters in memory, 5.6 ms for the first of 1024 x 1024.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgetpu_driver.darwinn.chip_geometry import CELLS, INPUTS_PER_CELL, TILES, TILES_PER_SIDE
from edgetpu_driver.tflite.model_reader import Operator, Subgraph

_CLOCK_HZ = (500e6, 250e6, 125e6, 63e6)  # main clock rates by clock divider


@dataclass(frozen=True)
class LinkTiming:
    """Timing of one link speed."""

    transfer_seconds: float
    """Fixed time of a bulk transfer in seconds, including the host's turnaround."""
    control_seconds: float
    bytes_per_second: float

    def bulk(self, size: int) -> float:
        """Seconds for a bulk transfer."""
        return self.transfer_seconds + size / self.bytes_per_second


SUPER_SPEED = LinkTiming(transfer_seconds=60e-6, control_seconds=60e-6, bytes_per_second=210e6)
HIGH_SPEED = LinkTiming(transfer_seconds=125e-6, control_seconds=250e-6, bytes_per_second=35e6)
"""On USB 3 they fit the reported latencies of Dense models; on USB 2 they are plausible values
(docs/unconfirmed_on_silicon.md, "the virtual device's times")."""


def compute_seconds(cycles: int, clock_divider: int) -> float:
    """Seconds for a number of cycles of the chip's main clock."""
    return cycles / _CLOCK_HZ[clock_divider]


def compute_cycles(graph: Subgraph) -> int:
    """Cycles of a graph whose operators run one after the other on all tiles.

    Images are cut into 4 x 4 tiles; within one, each cell computes one output channel.
    """
    return sum(_cycles(graph, operator) for operator in graph.operators)


def _cycles(graph: Subgraph, operator: Operator) -> int:
    result = graph.tensors[operator.outputs[0]].shape
    if operator.name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        kernel = graph.tensors[operator.inputs[1]].shape[1:]
        depthwise = operator.name == "DEPTHWISE_CONV_2D"
        steps = prod(kernel[:2]) if depthwise else _parts(prod(kernel), INPUTS_PER_CELL)
        pixels = _parts(result[1], TILES_PER_SIDE) * _parts(result[2], TILES_PER_SIDE)
        return pixels * _parts(result[3], CELLS) * steps
    if operator.name == "FULLY_CONNECTED":
        outputs, inputs = graph.tensors[operator.inputs[1]].shape
        return _parts(outputs, CELLS * TILES) * _parts(inputs, INPUTS_PER_CELL)
    return _parts(prod(result), CELLS * TILES)


def _parts(extent: int, size: int) -> int:
    return -(-extent // size)
