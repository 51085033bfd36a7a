"""The weight tensors of a graph whose values can be replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import ABSENT, Model, Operator, Subgraph, Tensor
from edgetpu_driver.weights.dense_model_weights import is_pure_matmul

INT8_MAX = 127
"""Quantisation steps on either side of zero; TFLite leaves -128 unused in weights."""

_INT8, _UINT8_MAX = np.dtype(np.int8), 255
_KINDS = ("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D")
"""Operators whose weights can be replaced. A request without a name means the first kind that the graph has,
and is refused if the graph has it more than once."""


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
    """Whether every row can have its own scale, which compiled files do not store for a layer of one row."""
    is_pure_matmul: bool = False
    """Whether the model only multiplies by this matrix: no bias, no activation, no other layer."""
    dtype: np.dtype[Any] = _INT8
    """Type of the stored values: int8, or uint8 with one scale and zero point."""
    zero_point: int = 0
    """Stored value of the weight 0."""
    bias: str = ""
    """Name of the layer's bias tensor; empty if it has no bias that can be set."""
    bias_scales: NDArray[np.float64] | None = None
    """float64[rows]: real value of one step of the bias; None if there is no bias that can be set."""

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest weight in steps; TFLite leaves -128 unused."""
        if self.dtype == np.uint8:
            return -self.zero_point, _UINT8_MAX - self.zero_point
        return -INT8_MAX, INT8_MAX

    @property
    def is_matrix(self) -> bool:
        """Whether its shape is [rows, columns], so that a smaller matrix can be padded."""
        return self.operator == "FULLY_CONNECTED"

    @property
    def rows_last(self) -> bool:
        """Whether output channels run along the last dimension instead of the first."""
        return self.operator == "DEPTHWISE_CONV_2D"


def weight_tensors(model: Model) -> tuple[WeightTensor, ...]:
    """The weights of a plain graph whose values can be replaced: quantised to 8 bits, with their own data.

    They are symmetric int8, or uint8 with one scale.
    """
    graph = model.subgraphs[0]
    users = Counter(tensor.buffer for tensor in graph.tensors)
    found: dict[str, WeightTensor] = {}
    for operator in graph.operators:
        if operator.name in _KINDS and len(operator.inputs) > 1 and operator.inputs[1] != ABSENT:
            tensor = graph.tensors[operator.inputs[1]]
            if _is_replaceable(operator, tensor) and users[tensor.buffer] == 1:
                found[tensor.name] = _weight_tensor(graph, operator, users)
    return tuple(found.values())


def select_tensor(tensors: Sequence[WeightTensor], name: str) -> WeightTensor:
    """The tensor of that name; for "" see WeightRequest.

    Raises InputError for an unknown name, and for "" if it is ambiguous; ModelUnsupportedError if there are
    no tensors.
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


def _rows(operator: Operator, tensor: Tensor) -> int:
    """Number of output channels."""
    return tensor.shape[-1] if operator.name == "DEPTHWISE_CONV_2D" else tensor.shape[0]


def _is_replaceable(operator: Operator, tensor: Tensor) -> bool:
    quantisation = tensor.quantization
    if not tensor.data or not tensor.shape or quantisation.scales.size not in (1, _rows(operator, tensor)):
        return False
    if not np.all(quantisation.scales > 0):
        return False
    if tensor.dtype == np.uint8:
        return quantisation.scales.size == 1
    return bool(tensor.dtype == np.int8) and not np.any(quantisation.zero_points)


def _weight_tensor(graph: Subgraph, operator: Operator, users: Counter[int]) -> WeightTensor:
    tensor = graph.tensors[operator.inputs[1]]
    rows = _rows(operator, tensor)
    scales = np.broadcast_to(tensor.quantization.scales, rows)
    bias = _bias(graph, operator, rows, users)
    source = graph.tensors[operator.inputs[0]].spec
    return WeightTensor(
        tensor.name,
        operator.name,
        tensor.shape,
        scales,
        has_row_scales=tensor.quantization.scales.size == rows > 1,
        is_pure_matmul=is_pure_matmul(graph, operator),
        dtype=tensor.dtype,
        zero_point=int(tensor.quantization.zero_points[0]),
        bias=bias,
        bias_scales=scales.astype(np.float64) * source.scale if bias else None,
    )


def _bias(graph: Subgraph, operator: Operator, rows: int, users: Counter[int]) -> str:
    """The name of a constant bias in steps of input scale * weight scale; empty if there is none."""
    if len(operator.inputs) < 3 or operator.inputs[2] == ABSENT:
        return ""
    bias = graph.tensors[operator.inputs[2]]
    fits = bias.dtype == np.int32 and bias.shape == (rows,) and bool(bias.data)
    quantised = graph.tensors[operator.inputs[0]].spec.scale > 0
    return bias.name if fits and quantised and users[bias.buffer] == 1 else ""
