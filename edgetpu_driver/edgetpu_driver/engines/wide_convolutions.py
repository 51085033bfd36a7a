"""Rewrites convolutions of a single channel for LiteRT, which then takes a half to a twentieth of the time.

XNNPACK, LiteRT's library for the CPU, computes many channels at once and therefore one number at a time of an
image that has one channel. Here BLOCK neighbouring columns of such an image become channels, and so do BLOCK
neighbouring columns of the result: each has the same kernel, moved by one column. Sums are of the same
products and rounded in the same way, so the results are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
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
"""Columns that become channels. Measured: 4 and 16 take longer for kernels of 7x7 and 16x16."""

_SMALLEST_KERNEL = 20
"""Elements of a kernel from which that is worth it. Measured: 3x3 takes longer, 5x5 half as long."""


def with_wide_convolutions(data: bytes) -> bytes:
    """The graph of a file that GraphBuilder has written, or any other, with its convolutions rewritten.

    Inputs and outputs keep their indices. A file that holds nothing to rewrite, or that cannot be rewritten,
    is returned as it is.
    """
    try:
        graph = read_draft(data)
        operators: list[OperatorRecord] = []
        for operator in graph.operators:
            operators += (
                _Rewriting(graph, operator).operators() if _is_narrow(graph, operator) else [operator]
            )
        if len(operators) == len(graph.operators):
            return data
        graph.replace_operators(operators)
        return graph.build()
    except (ModelUnsupportedError, GraphError):
        return data


def _is_narrow(graph: Graph, operator: OperatorRecord) -> bool:
    """Whether it is a convolution of an image of one channel with a constant kernel, at every pixel."""
    if operator.name not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return False
    image, weights = (graph.tensors[index] for index in operator.inputs[:2])
    steps = ("StrideW", "StrideH", "DilationWFactor", "DilationHFactor")
    return (
        len(operator.inputs) == 3
        and image.shape[0] == image.shape[3] == 1
        and image.dtype == weights.dtype == np.int8
        and bool(weights.data)
        and prod(weights.shape[1:3]) >= _SMALLEST_KERNEL
        and all(operator.options[name] == 1 for name in steps)
    )


class _Rewriting:
    """Replaces one convolution of a graph by operators that give the same."""

    def __init__(self, graph: Graph, operator: OperatorRecord) -> None:
        self._graph, self._operator = graph, operator
        self._image, self._weights, self._bias = (graph.tensors[index] for index in operator.inputs)
        self._result = graph.tensors[operator.outputs[0]]
        self._steps: list[OperatorRecord] = []

    def operators(self) -> list[OperatorRecord]:
        """The operators that give the result of the convolution."""
        kernels = self._kernels()
        channels, rows, columns = kernels.shape
        (_, height, width, _), (_, result_rows, result_columns, _) = self._image.shape, self._result.shape
        blocks = -(-result_columns // BLOCK)
        kernel_blocks = -(-(columns + BLOCK - 1) // BLOCK)
        all_rows, all_columns = result_rows + rows - 1, (blocks + kernel_blocks - 1) * BLOCK
        same = self._operator.options["Padding"] == schema.Padding.SAME
        above, left = ((rows - 1) // 2, (columns - 1) // 2) if same else (0, 0)
        pads = [[0, 0], [above, all_rows - height - above], [left, all_columns - width - left], [0, 0]]
        index = self._operator.inputs[0]
        if any(map(any, pads)):
            index = self._add("PAD", self._image, (1, all_rows, all_columns, 1), index, pads)
        shape = (1, all_rows, all_columns // BLOCK, BLOCK)
        index = self._add("RESHAPE", self._image, shape, index, shape)
        index = self._convolve(index, _shifted(kernels, kernel_blocks), (1, result_rows, blocks))
        shape = (1, result_rows, blocks * BLOCK, channels)
        if shape == self._result.shape:
            self._add("RESHAPE", self._result, shape, index, shape, last=True)
        else:
            index = self._add("RESHAPE", self._result, shape, index, shape)
            self._add(
                "SLICE", self._result, self._result.shape, index, [0] * 4, self._result.shape, last=True
            )
        return self._steps

    def _kernels(self) -> NDArray[np.int8]:
        """One kernel for each channel of the result: int8 [channels, rows, columns]."""
        kernels = np.frombuffer(self._weights.data, np.int8).reshape(self._weights.shape)
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
        """Add an operator on a tensor and constants; the index of its result, quantised like another."""
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
        bias = np.tile(np.frombuffer(self._bias.data, np.int32), BLOCK)
        operands = (
            index,
            self._constant(kernels, _repeated(self._weights.quantization)),
            self._constant(bias, _repeated(self._bias.quantization)),
        )
        result = self._tensor(self._result, (*shape, len(kernels)))
        names = ("StrideW", "StrideH", "FusedActivationFunction", "DilationWFactor", "DilationHFactor")
        options = {name: self._operator.options[name] for name in names}
        options["Padding"] = schema.Padding.VALID
        version, table = OPERATORS["CONV_2D"]
        self._steps.append(OperatorRecord("CONV_2D", version, operands, (result,), table, options))
        return result


def _shifted(kernels: NDArray[np.int8], blocks: int) -> NDArray[np.int8]:
    """Kernels [channels, rows, columns] at each of BLOCK columns: [BLOCK * channels, rows, blocks, BLOCK]."""
    channels, rows, columns = kernels.shape
    shifted = np.zeros((BLOCK, channels, rows, blocks * BLOCK), np.int8)
    for shift in range(BLOCK):
        shifted[shift, :, :, shift : shift + columns] = kernels
    return shifted.reshape(BLOCK * channels, rows, blocks, BLOCK)


def _repeated(quantization: Quantization) -> Quantization:
    """One scale for all channels, or those of the channels once for each column."""
    if quantization.scales.size == 1:
        return quantization
    return Quantization(np.tile(quantization.scales, BLOCK), np.tile(quantization.zero_points, BLOCK))
