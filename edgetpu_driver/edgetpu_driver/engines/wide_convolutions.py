"""Rewrites single-channel convolutions and pools so that LiteRT runs them faster.

XNNPACK, LiteRT's CPU library, vectorises over channels, so it computes a single-channel image one number at a
time. Here BLOCK neighbouring columns of the image become channels, and so do the corresponding columns of the
result: each has the same kernel, shifted by its column. The sums have the same products and rounding, so the
results are equal bit for bit. A maximum is taken along the columns and then along the rows, each time with
all lines as channels. An average is taken over copies of the image that are shifted by a column each, with
all columns as channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import GraphError, ModelUnsupportedError
from edgetpu_driver.tflite.draft_reader import read_draft
from edgetpu_driver.tflite.graph_draft import OPERATORS, Graph
from edgetpu_driver.tflite.model_reader import NOT_QUANTIZED, Quantization, Tensor
from edgetpu_driver.tflite.model_writer import OperatorRecord
from edgetpu_driver.tflite.schema import tflite_generated as schema

BLOCK = 8
"""Columns that become channels. Measured: 4 and 16 are slower for kernels of 7x7 and 16x16."""


def with_wide_convolutions(data: bytes) -> bytes:
    """Rewrite the convolutions and pools of a file, written by GraphBuilder or not.

    Inputs and outputs keep their indices. A file with nothing to rewrite, or that cannot be rewritten, is
    returned unchanged.
    """
    try:
        graph = read_draft(data)
        operators: list[OperatorRecord] = []
        for operator in graph.operators:
            if _is_narrow_convolution(graph, operator):
                operators += _Rewriting(graph, operator).convolution()
            elif _is_narrow_maximum(graph, operator):
                operators += _Rewriting(graph, operator).maximum()
            elif _is_narrow_average(graph, operator):
                operators += _Rewriting(graph, operator).average()
            else:
                operators.append(operator)
        if len(operators) == len(graph.operators):
            return data
        graph.replace_operators(operators)
        return graph.build()
    except (ModelUnsupportedError, GraphError):
        return data


def _is_narrow_convolution(graph: Graph, operator: OperatorRecord) -> bool:
    """Whether it convolves a single-channel image with a constant kernel."""
    if operator.name not in ("CONV_2D", "DEPTHWISE_CONV_2D") or len(operator.inputs) != 3:
        return False
    weights, options = graph.tensors[operator.inputs[1]], operator.options
    alike = options["DilationWFactor"] == options["DilationHFactor"] == 1
    strided = options["StrideW"] == options["StrideH"] and BLOCK % options["StrideW"] == 0
    constant = weights.dtype == np.int8 and bool(weights.data)
    return _has_one_channel(graph, operator) and alike and strided and constant


def _is_narrow_maximum(graph: Graph, operator: OperatorRecord) -> bool:
    """Whether it takes the maximum around every pixel of a single-channel image."""
    if operator.name != "MAX_POOL_2D":
        return False
    return (
        _has_one_channel(graph, operator) and operator.options["StrideW"] == operator.options["StrideH"] == 1
    )


def _is_narrow_average(graph: Graph, operator: OperatorRecord) -> bool:
    """Whether it averages the pixels around every pixel of a single-channel image."""
    if operator.name != "AVERAGE_POOL_2D" or not _has_one_channel(graph, operator):
        return False
    options, width = operator.options, graph.tensors[operator.inputs[0]].shape[2]
    strides = options["StrideW"], options["StrideH"]
    padded = options["Padding"] == schema.Padding.SAME
    return strides == (1, 1) and padded and 3 <= options["FilterWidth"] <= width


def _has_one_channel(graph: Graph, operator: OperatorRecord) -> bool:
    image = graph.tensors[operator.inputs[0]]
    return image.dtype == np.int8 and len(image.shape) == 4 and image.shape[0] == image.shape[3] == 1


class _Rewriting:
    """Replaces one operator of a graph by several with the same result."""

    def __init__(self, graph: Graph, operator: OperatorRecord) -> None:
        self._graph, self._operator = graph, operator
        self._image = graph.tensors[operator.inputs[0]]
        self._result = graph.tensors[operator.outputs[0]]
        self._steps: list[OperatorRecord] = []

    def convolution(self) -> list[OperatorRecord]:
        """The operators that give the result of a convolution."""
        kernels = self._kernels()
        channels, rows, columns = kernels.shape
        (_, height, width, _), (_, result_rows, result_columns, _) = self._image.shape, self._result.shape
        stride = int(self._operator.options["StrideW"])
        above, more_rows = self._padding(height, result_rows, rows)
        left, _ = self._padding(width, result_columns, columns)
        kernel_blocks = -(-(columns + BLOCK - stride) // BLOCK)
        # Columns of the image, and columns needed for the whole result.
        blocks = max(-(-(left + width) // BLOCK), -(-result_columns * stride // BLOCK) + kernel_blocks - 1)
        all_rows = height + more_rows
        index = self._operator.inputs[0]
        if more_rows or left or blocks * BLOCK > width:
            # With columns as channels, XNNPACK pads whole rows instead of single pixels.
            shape = (1, height, 1, width)
            index = self._add("RESHAPE", self._image, shape, index, shape)
            pads = [[0, 0], [above, more_rows - above], [0, 0], [left, blocks * BLOCK - left - width]]
            index = self._add("PAD", self._image, (1, all_rows, 1, blocks * BLOCK), index, pads)
        shape = (1, all_rows, blocks, BLOCK)
        index = self._add("RESHAPE", self._image, shape, index, shape)
        shifted = _shifted(kernels, kernel_blocks, stride)
        result_blocks = blocks - kernel_blocks + 1
        index = self._convolve(index, shifted, (1, result_rows, result_blocks))
        shape = (1, result_rows, result_blocks * BLOCK // stride, channels)
        if shape == self._result.shape:
            self._add("RESHAPE", self._result, shape, index, shape, last=True)
        else:
            index = self._add("RESHAPE", self._result, shape, index, shape)
            self._add(
                "SLICE", self._result, self._result.shape, index, [0] * 4, self._result.shape, last=True
            )
        return self._steps

    def maximum(self) -> list[OperatorRecord]:
        """The operators that give the maxima of windows."""
        (_, height, width, _), (_, rows, columns, _) = self._image.shape, self._result.shape
        shape, turned = (1, height, 1, width), (0, 3, 2, 1)
        index = self._add("RESHAPE", self._image, shape, self._operator.inputs[0], shape)
        index = self._pool(index, (1, rows, 1, width), FilterWidth=1)
        index = self._add("TRANSPOSE", self._image, (1, width, 1, rows), index, turned)
        size = self._operator.options["FilterWidth"]
        index = self._pool(index, (1, columns, 1, rows), FilterWidth=1, FilterHeight=size)
        index = self._add("TRANSPOSE", self._image, (1, rows, 1, columns), index, turned)
        self._add("RESHAPE", self._result, self._result.shape, index, self._result.shape, last=True)
        return self._steps

    def average(self) -> list[OperatorRecord]:
        """The operators that give the averages of windows.

        The windows of the first and last columns extend beyond the image, so that they have fewer pixels;
        they are averaged one by one as before.
        """
        (_, height, width, _), columns = self._image.shape, int(self._operator.options["FilterWidth"])
        whole, right = width - columns + 1, columns // 2
        row = (1, height, 1, width)
        index = self._add("RESHAPE", self._image, row, self._operator.inputs[0], row)
        copies = [self._part(index, (1, height, 1, whole), 3, first) for first in range(columns)]
        index = self._join(copies, (1, height, columns, whole))
        index = self._pool(index, (1, height, 1, whole), StrideW=columns)
        shape = (1, height, whole, 1)
        inner = self._add("RESHAPE", self._result, shape, index, shape)
        first = self._border(0, 0, columns - 1 - right)
        last = self._border(whole, columns - 1 - right, right)
        self._join([first, inner, last], self._result.shape, last=True)
        return self._steps

    def _border(self, start: int, first: int, count: int) -> int:
        """Averages of `count` columns from `start + first`, whose windows end at the border of the image."""
        _, height, _, _ = self._image.shape
        shape = (1, height, int(self._operator.options["FilterWidth"]) - 1, 1)
        index = self._pool(self._part(self._operator.inputs[0], shape, 2, start), shape)
        return self._part(index, (1, height, count, 1), 2, first)

    def _part(self, index: int, shape: tuple[int, ...], axis: int, first: int) -> int:
        """The part of this shape that starts at `first` along an axis."""
        start = [first if each == axis else 0 for each in range(len(shape))]
        return self._add("SLICE", self._image, shape, index, start, shape)

    def _join(self, parts: Sequence[int], shape: tuple[int, ...], last: bool = False) -> int:
        """Put parts side by side."""
        result = self._operator.outputs[0] if last else self._tensor(self._result, shape)
        version, table = OPERATORS["CONCATENATION"]
        options = {"Axis": 2, "FusedActivationFunction": schema.ActivationFunctionType.NONE}
        self._steps.append(OperatorRecord("CONCATENATION", version, tuple(parts), (result,), table, options))
        return result

    def _pool(self, index: int, shape: tuple[int, ...], **options: float) -> int:
        """Apply the operator with other options; shape: of the result."""
        result = self._tensor(self._result, shape)
        changed = {**self._operator.options, **options}
        self._steps.append(replace(self._operator, inputs=(index,), outputs=(result,), options=changed))
        return result

    def _padding(self, size: int, result: int, kernel: int) -> tuple[int, int]:
        """Padding lines before the image, and before and after it."""
        if self._operator.options["Padding"] != schema.Padding.SAME:
            return 0, 0
        total = max((result - 1) * int(self._operator.options["StrideW"]) + kernel - size, 0)
        return total // 2, total

    def _kernels(self) -> NDArray[np.int8]:
        """One kernel for each channel of the result: int8 [channels, rows, columns]."""
        weights = self._graph.tensors[self._operator.inputs[1]]
        kernels = np.frombuffer(weights.data, np.int8).reshape(weights.shape)
        return kernels[..., 0] if self._operator.name == "CONV_2D" else kernels[0].transpose(2, 0, 1)

    def _add(
        self,
        name: str,
        like: Tensor,
        shape: tuple[int, ...],
        index: int,
        *numbers: Sequence[int] | Sequence[Sequence[int]],
        last: bool = False,
    ) -> int:
        """Add an operator on a tensor and constants; returns the index of its result, quantised as `like`."""
        operands = [index, *(self._constant(np.array(each, np.int32)) for each in numbers)]
        result = self._operator.outputs[0] if last else self._tensor(like, shape)
        self._steps.append(OperatorRecord(name, OPERATORS[name][0], tuple(operands), (result,)))
        return result

    def _tensor(self, like: Tensor, shape: tuple[int, ...]) -> int:
        name = f"{self._result.name}/wide"
        return self._graph.add_tensor(Tensor(name, shape, like.dtype, quantization=like.quantization))

    def _constant(self, values: NDArray[Any], quantization: Quantization = NOT_QUANTIZED) -> int:
        name, data = f"{self._result.name}/wide", values.tobytes()
        return self._graph.add_tensor(
            Tensor(name, values.shape, values.dtype, data=data, quantization=quantization)
        )

    def _convolve(self, index: int, kernels: NDArray[np.int8], shape: tuple[int, ...]) -> int:
        """Convolve with kernels [channels, rows, columns, BLOCK]; shape: of the result without channels."""
        weights, bias = (self._graph.tensors[each] for each in self._operator.inputs[1:])
        biases = np.frombuffer(bias.data, np.int32)
        times = len(kernels) // len(biases)
        operands = (
            index,
            self._constant(kernels, _repeated(weights.quantization, times)),
            self._constant(np.tile(biases, times), _repeated(bias.quantization, times)),
        )
        result = self._tensor(self._result, (*shape, len(kernels)))
        names = ("StrideW", "StrideH", "FusedActivationFunction", "DilationWFactor", "DilationHFactor")
        options = {name: self._operator.options[name] for name in names}
        options.update(Padding=schema.Padding.VALID, StrideW=1)
        version, table = OPERATORS["CONV_2D"]
        self._steps.append(OperatorRecord("CONV_2D", version, operands, (result,), table, options))
        return result


def _shifted(kernels: NDArray[np.int8], blocks: int, stride: int) -> NDArray[np.int8]:
    """Kernels [channels, rows, columns] at every `stride`-th column: [.. * channels, rows, blocks, BLOCK]."""
    channels, rows, columns = kernels.shape
    shifted = np.zeros((BLOCK // stride, channels, rows, blocks * BLOCK), np.int8)
    for number in range(BLOCK // stride):
        shifted[number, :, :, number * stride : number * stride + columns] = kernels
    return shifted.reshape(-1, rows, blocks, BLOCK)


def _repeated(quantization: Quantization, times: int) -> Quantization:
    """The quantisation with its per-channel scales repeated; a single scale stays."""
    if quantization.scales.size == 1:
        return quantization
    return Quantization(np.tile(quantization.scales, times), np.tile(quantization.zero_points, times))
