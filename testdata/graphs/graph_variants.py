"""Graphs with the same operators and shapes but other weights, biases and quantisation, as if retrained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from edgetpu_driver.tflite.graph_edit import GraphEdit, TensorChange
from edgetpu_driver.tflite.model_reader import ABSENT, Operator, Quantization, Subgraph, Tensor, parse_model

_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_MOVING = (
    *("RESHAPE", "PAD", "TILE", "CONCATENATION", "QUANTIZE", "AVERAGE_POOL_2D", "RESIZE_BILINEAR", "SPLIT"),
    *("MAX_POOL_2D", "MAXIMUM"),
)
_FIXED_RESULTS = ("SOFTMAX", "LOGISTIC")
_FIXED = ("SUB",)
"""Operators whose scales cannot be changed in a compiled program."""
_UNSIGNED_SHIFT = 128


class GraphVariant:
    """Draws a variant of a graph, always the same one for a seed.

    scales: whether scales differ; zero_points: whether zero points differ, if a compiled program allows it.
    """

    def __init__(self, data: bytes, seed: int, *, scales: bool = True, zero_points: bool = True) -> None:
        self._data = data
        self._rng = np.random.default_rng(seed)
        self._scales, self._zero_points = scales, zero_points
        self._graph: Subgraph = parse_model(data).subgraphs[0]
        self._changes: dict[int, TensorChange] = {}
        self._quantizations: dict[int, Quantization] = {}

    def build(self) -> bytes:
        """The variant's .tflite file."""
        self._draw_activations()
        for operator in self._graph.operators:
            if operator.name in _WEIGHTED and self._tensor(operator, 1).data:
                self._draw_weights(operator)
        edit = GraphEdit(self._data)
        edit.change(self._changes)
        return edit.file()

    def _tensor(self, operator: Operator, position: int) -> Tensor:
        return self._graph.tensors[operator.inputs[position]]

    def _draw_activations(self) -> None:
        fixed, padded = set(), set()
        for operator in self._graph.operators:
            if operator.name in _FIXED_RESULTS:
                fixed.update(self._alike(operator.outputs[0]))
            if operator.name in _FIXED:
                for each in (*operator.inputs, *operator.outputs):
                    fixed.update(self._alike(each))
            if operator.name == "PAD":
                padded.update(self._alike(operator.inputs[0]))
        drawn: set[int] = set()
        for index, tensor in enumerate(self._graph.tensors):
            if index in drawn or tensor.data or _key(tensor) is None:
                continue
            group = self._alike(index)
            drawn |= group
            factor = self._rng.uniform(0.7, 1.3) if self._scales and index not in fixed else 1.0
            zero_point = int(self._rng.integers(40, 210))
            for each in group:
                self._change(each, factor, None if each in fixed | padded else zero_point)

    def _change(self, index: int, factor: float, zero_point: int | None) -> None:
        tensor = self._graph.tensors[index]
        before = tensor.quantization
        points = before.zero_points
        key = _key(tensor)
        # A zero point of 0 belongs to an activation without negative values, and stays.
        if zero_point is not None and self._zero_points and key is not None and key[1]:
            points = np.array([zero_point - (_UNSIGNED_SHIFT if tensor.dtype == np.int8 else 0)])
        self._quantizations[index] = Quantization(
            (before.scales * np.float32(factor)).astype(np.float32), points
        )
        self._changes[index] = TensorChange(quantization=self._quantizations[index])

    def _alike(self, index: int) -> set[int]:
        """Tensors that must have the same quantisation, since the operators between them only move values."""
        alike, waiting = {index}, [index]
        while waiting:
            current = waiting.pop()
            for operator in self._graph.operators:
                operands = {each for each in (*operator.inputs, *operator.outputs) if each != ABSENT}
                if operator.name in _MOVING and current in operands:
                    key = _key(self._graph.tensors[current])
                    same = {each for each in operands if _key(self._graph.tensors[each]) == key} - alike
                    alike |= same
                    waiting += same
        return alike

    def _draw_weights(self, operator: Operator) -> None:
        weights = self._tensor(operator, 1)
        before, limits = weights.quantization, np.iinfo(weights.dtype)
        values = self._rng.integers(max(limits.min, -127), limits.max + 1, weights.shape)
        several = bool(np.any(before.scales != before.scales[0]))
        factors: Any = (
            self._rng.uniform(0.7, 1.3, before.scales.size if several else 1) if self._scales else 1.0
        )
        points = before.zero_points
        if weights.dtype == np.uint8 and self._zero_points:
            points = self._rng.integers(60, 190, 1)
        scales = (before.scales * factors).astype(np.float32)
        self._changes[operator.inputs[1]] = TensorChange(
            quantization=Quantization(scales, points, before.axis),
            data=values.astype(weights.dtype).tobytes(),
        )
        if len(operator.inputs) > 2 and operator.inputs[2] != ABSENT:
            self._draw_bias(operator, scales)

    def _draw_bias(self, operator: Operator, weight_scales: Any) -> None:
        bias = self._tensor(operator, 2)
        source = self._quantizations[operator.inputs[0]]
        values = np.frombuffer(bias.data, np.int32)
        if values.any():
            values = self._rng.integers(-20000, 20000, bias.shape).astype(np.int32)
        scales = (source.scales * weight_scales).astype(np.float32)[: bias.quantization.scales.size]
        quantization = Quantization(scales, bias.quantization.zero_points, bias.quantization.axis)
        self._changes[operator.inputs[2]] = TensorChange(quantization=quantization, data=values.tobytes())


def with_quantization(data: bytes, changes: dict[str, tuple[float, int]]) -> bytes:
    """The graph with other scales and zero points for tensors by name, otherwise unchanged."""
    graph = parse_model(data).subgraphs[0]
    edit = GraphEdit(data)
    edit.change(
        {
            index: TensorChange(
                quantization=Quantization(np.array([scale], np.float32), np.array([zero_point]))
            )
            for index, (scale, zero_point) in _named(graph, changes)
        }
    )
    return edit.file()


def _named(graph: Subgraph, changes: dict[str, tuple[float, int]]) -> Iterator[tuple[int, tuple[float, int]]]:
    for index, tensor in enumerate(graph.tensors):
        if tensor.name in changes:
            yield index, changes[tensor.name]


def _key(tensor: Tensor) -> tuple[float, int] | None:
    """Scale and zero point in the chip's form; None if the tensor has no scale or several scales."""
    quantization = tensor.quantization
    if quantization.scales.size != 1 or tensor.dtype.itemsize != 1:
        return None
    shift = _UNSIGNED_SHIFT if tensor.dtype == np.int8 else 0
    return float(quantization.scales[0]), int(quantization.zero_points[0]) + shift
