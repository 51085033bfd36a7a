"""The weight tensors of a graph whose values can be replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import Model, Operator, Tensor
from edgetpu_driver.weights.dense_layer import is_pure_matmul

_KINDS = ("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D")


@dataclass(frozen=True, eq=False)
class WeightTensor:
    """A constant tensor of weights whose values can be replaced."""

    name: str
    operator: str
    """Name of the operator that uses it, e.g. "CONV_2D"."""
    shape: tuple[int, ...]
    scales: NDArray[np.float32]
    """float32[rows]: real value of one step."""
    has_row_scales: bool = False
    """Whether every row can have its own scale."""
    is_pure_matmul: bool = False
    """Whether the model only multiplies by this matrix: no bias, no activation, no other layer."""

    @property
    def is_matrix(self) -> bool:
        """Whether its shape is [rows, columns], so that a smaller matrix can be padded."""
        return self.operator == "FULLY_CONNECTED"

    @property
    def rows_last(self) -> bool:
        """Whether output channels run along the last dimension instead of the first."""
        return self.operator == "DEPTHWISE_CONV_2D"


def weight_tensors(model: Model) -> tuple[WeightTensor, ...]:
    """The weights of a plain graph whose values can be replaced: symmetric int8 with data of their own."""
    graph = model.subgraphs[0]
    buffers = [tensor.buffer for tensor in graph.tensors]
    found: dict[str, WeightTensor] = {}
    for operator in graph.operators:
        if operator.name in _KINDS:
            tensor = graph.tensors[operator.inputs[1]]
            if _is_replaceable(tensor) and buffers.count(tensor.buffer) == 1:
                found[tensor.name] = _weight_tensor(operator, tensor, is_pure_matmul(graph, operator))
    return tuple(found.values())


def select_tensor(tensors: Sequence[WeightTensor], name: str) -> WeightTensor:
    """The tensor of that name; for "" that of the only convolution, else matrix, else depthwise convolution.

    Raises InputError for an unknown name and where "" is ambiguous; ModelUnsupportedError if there are no
    tensors.
    """
    if not tensors:
        raise ModelUnsupportedError("the model has no weights whose values can be replaced")
    names = ", ".join(f"'{tensor.name}'" for tensor in tensors)
    if name:
        for tensor in tensors:
            if tensor.name == name:
                return tensor
        raise InputError(f"expected one of the weight tensors {names}; got '{name}'")
    for kind in _KINDS:
        candidates = [tensor for tensor in tensors if tensor.operator == kind]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            break
    raise InputError(f"expected the name of one of the weight tensors {names}; got none")


def _is_replaceable(tensor: Tensor) -> bool:
    quantisation = tensor.quantization
    symmetric = quantisation.scales.size > 0 and not np.any(quantisation.zero_points)
    return bool(tensor.data) and tensor.dtype == np.int8 and symmetric


def _weight_tensor(operator: Operator, tensor: Tensor, pure_matmul: bool) -> WeightTensor:
    rows = tensor.shape[-1] if operator.name == "DEPTHWISE_CONV_2D" else tensor.shape[0]
    scales = tensor.quantization.scales
    return WeightTensor(
        tensor.name,
        operator.name,
        tensor.shape,
        np.broadcast_to(scales, rows),
        has_row_scales=scales.size == rows > 1,
        is_pure_matmul=pure_matmul,
    )
