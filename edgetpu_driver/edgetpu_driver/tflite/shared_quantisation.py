"""Finds and changes tensors that share a quantisation because operators between them only move values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgetpu_driver.tflite.graph_edit import GraphEdit, TensorChange
from edgetpu_driver.tflite.model_reader import ABSENT, Subgraph, Tensor, parse_model, per_tensor

MOVING = (
    *("RESHAPE", "SQUEEZE", "PAD", "TILE", "CONCATENATION", "QUANTIZE", "AVERAGE_POOL_2D", "MEAN"),
    *("RESIZE_BILINEAR", "SPLIT"),
)
"""Operators whose output may have the quantisation of their inputs."""

CHOOSING = ("MAX_POOL_2D", "MAXIMUM")
"""Operators whose output must have the quantisation of their inputs: they only select values."""

SIGNED_SHIFT = 128
"""Difference between the chip's zero points and those of int8 tensors."""


@dataclass(frozen=True)
class ChipQuantisation:
    """Quantisation of a tensor with one scale; the zero point is as on the chip, 0..255."""

    scale: float
    zero_point: int


def chip_quantisation(tensor: Tensor) -> ChipQuantisation | None:
    """The quantisation of an 8-bit tensor with one scale; None for any other tensor."""
    scales = tensor.quantization.scales
    if tensor.dtype not in (np.int8, np.uint8) or scales.size != 1 or not scales[0] > 0:
        return None
    return ChipQuantisation(float(scales[0]), int(tensor.quantization.zero_points[0]) + _shift(tensor))


def tensors_sharing_quantisation(graph: Subgraph, tensor: int) -> set[int]:
    """The indices of a tensor and those that share its quantisation through MOVING or CHOOSING operators."""
    wanted = chip_quantisation(graph.tensors[tensor])
    alike, waiting = {tensor}, [tensor]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        around = {*graph.users.get(current, ()), *graph.makers.get(current, ())} - seen
        seen |= around
        for operator in (graph.operators[index] for index in around):
            if operator.name in (*MOVING, *CHOOSING):
                operands = {each for each in (*operator.inputs, *operator.outputs) if each != ABSENT}
                same = {each for each in operands if chip_quantisation(graph.tensors[each]) == wanted}
                waiting += same - alike
                alike |= same
    return {each for each in alike if chip_quantisation(graph.tensors[each]) is not None}


def with_quantisation(data: bytes, wanted: Mapping[int, ChipQuantisation]) -> bytes:
    """Set scales and zero points of tensors in a .tflite file, by index; returns `data` if nothing changes.

    Tensors that share the quantisation of a changed one change with it, unless they are in `wanted`. Biases
    keep their values.
    """
    graph = parse_model(data).subgraphs[0]
    changes: dict[int, TensorChange] = {}
    given = set(wanted)
    for index, quantisation in wanted.items():
        own = chip_quantisation(graph.tensors[index])
        if own is None or own == quantisation:
            continue
        for each in {index} | (tensors_sharing_quantisation(graph, index) - given):
            zero_point = quantisation.zero_point - _shift(graph.tensors[each])
            changes[each] = TensorChange(quantization=per_tensor(quantisation.scale, zero_point))
    if not changes:
        return data
    edit = GraphEdit(data)
    edit.change(changes)
    return edit.file()


def _shift(tensor: Tensor) -> int:
    return SIGNED_SHIFT if tensor.dtype == np.int8 else 0
