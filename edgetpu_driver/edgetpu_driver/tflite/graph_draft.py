"""Tensors and operators of a graph under construction: naming, ordering, checks and output as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from edgetpu_driver.errors import GraphError
from edgetpu_driver.tflite.model_reader import ABSENT, NOT_QUANTIZED, Quantization, Tensor, per_tensor
from edgetpu_driver.tflite.model_writer import TENSOR_TYPES, OperatorRecord, write_model
from edgetpu_driver.tflite.tensor import TensorSpec

_OPERATORS = {
    "ADD": (2, "AddOptions"),
    "AVERAGE_POOL_2D": (2, "Pool2DOptions"),
    "CONCATENATION": (2, "ConcatenationOptions"),
    "CONV_2D": (3, "Conv2DOptions"),
    "DEPTHWISE_CONV_2D": (3, "DepthwiseConv2DOptions"),
    "FULLY_CONNECTED": (4, "FullyConnectedOptions"),
    "MAX_POOL_2D": (2, "Pool2DOptions"),
    "MUL": (2, "MulOptions"),
    "QUANTIZE": (1, "NONE"),
    "RESHAPE": (1, "NONE"),
    "SOFTMAX": (2, "SoftmaxOptions"),
    "SUB": (2, "SubOptions"),
}
"""Version and options table of each operator, as converters write them for int8 and compilers expect them."""


class Graph:
    """A graph that grows by one tensor or operator at a time; GraphBuilder adds the operators to it."""

    def __init__(self, description: str = "") -> None:
        self._description = description
        self._tensors: list[Tensor] = []
        self._specs: dict[str, TensorSpec] = {}
        self._index: dict[str, int] = {}
        self._operators: list[OperatorRecord] = []
        self._inputs: list[int] = []
        self._outputs: list[int] = []

    def input(
        self, name: str, shape: Sequence[int], dtype: DTypeLike, *, scale: float = 0.0, zero_point: int = 0
    ) -> TensorSpec:
        """Add a graph input; scale 0 means not quantised, which only custom operators take."""
        spec = self._activation(TensorSpec(name, tuple(shape), np.dtype(dtype), scale, zero_point))
        self._inputs.append(self._index[name])
        return spec

    def output(self, tensor: TensorSpec) -> None:
        """Declare a tensor to be the next output of the graph."""
        self._outputs.append(self._position("output", tensor))

    def constant(
        self, values: ArrayLike, *, scale: float, zero_point: int, name: str | None = None
    ) -> TensorSpec:
        """Add a constant int8 tensor, e.g. as second operand of `mul`."""
        name = name or self._free_name("constant")
        return self._constant(name, int_array(name, values, np.int8), per_tensor(scale, zero_point))

    def custom(
        self,
        custom_code: str,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        custom_options: bytes = b"",
    ) -> tuple[TensorSpec, ...]:
        """CUSTOM: an operator named by `custom_code` with the outputs specified in `outputs`."""
        operands = tuple(self._position(custom_code, tensor) for tensor in inputs)
        results = tuple(self._activation(spec) for spec in outputs)
        positions = tuple(self._index[spec.name] for spec in results)
        self._operators.append(
            OperatorRecord(
                "CUSTOM", 1, operands, positions, custom_code=custom_code, custom_options=custom_options
            )
        )
        return results

    def build(self) -> bytes:
        """The .tflite file; the same calls always give the same bytes."""
        require(bool(self._inputs), "build", "the graph has no input")
        require(bool(self._outputs), "build", "the graph has no output")
        return write_model(self._description, self._tensors, self._operators, self._inputs, self._outputs)

    def _apply(
        self,
        operator: str,
        operands: Sequence[TensorSpec | None],
        result: TensorSpec,
        options: Mapping[str, float] | None = None,
    ) -> TensorSpec:
        """Add a builtin operator; None stands for an omitted operand."""
        inputs = tuple(ABSENT if each is None else self._position(result.name, each) for each in operands)
        spec = self._activation(result)
        version, table = _OPERATORS[operator]
        outputs = (self._index[spec.name],)
        self._operators.append(OperatorRecord(operator, version, inputs, outputs, table, options or {}))
        return spec

    def _activation(self, spec: TensorSpec) -> TensorSpec:
        if spec.scale == 0:
            return self._add(Tensor(spec.name, spec.shape, spec.dtype))
        positive = spec.scale > 0 and bool(np.isfinite(spec.scale))
        require(positive, spec.name, f"expected a positive scale, got {spec.scale}")
        if spec.dtype.kind in "iu":
            limits = np.iinfo(spec.dtype)
            fits = limits.min <= spec.zero_point <= limits.max
            require(fits, spec.name, f"expected a zero point within {spec.dtype}, got {spec.zero_point}")
        quantization = per_tensor(spec.scale, spec.zero_point)
        return self._add(Tensor(spec.name, spec.shape, spec.dtype, quantization=quantization))

    def _constant(
        self, name: str, values: NDArray[Any], quantization: Quantization = NOT_QUANTIZED
    ) -> TensorSpec:
        data = values.tobytes()
        return self._add(Tensor(name, values.shape, values.dtype, data=data, quantization=quantization))

    def _add(self, tensor: Tensor) -> TensorSpec:
        name = tensor.name
        require(name not in self._index, name, "a tensor of this name exists already")
        require(tensor.dtype in TENSOR_TYPES, name, f"tensors of dtype {tensor.dtype} are not supported")
        whole = all(isinstance(extent, int | np.integer) and extent > 0 for extent in tensor.shape)
        require(whole, name, f"expected a shape of positive integers, got {list(tensor.shape)}")
        self._index[name] = len(self._tensors)
        self._tensors.append(tensor)
        self._specs[name] = tensor.spec
        return self._specs[name]

    def _position(self, user: str, tensor: TensorSpec) -> int:
        """Index of a tensor that must be one of this graph."""
        require(self._specs.get(tensor.name) is tensor, user, f"{tensor} is not a tensor of this graph")
        return self._index[tensor.name]

    def _free_name(self, stem: str) -> str:
        names = (stem if count == 0 else f"{stem}_{count}" for count in range(len(self._tensors) + 1))
        return next(name for name in names if name not in self._index)


def require(condition: bool, subject: str, message: str) -> None:
    """Raise GraphError unless the condition holds."""
    if not condition:
        raise GraphError(f"{subject}: {message}")


def int_array(name: str, values: ArrayLike, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """The values as a contiguous array of dtype; GraphError if they are not integers within its range."""
    array = np.asarray(values)
    kind, limits = np.dtype(dtype), np.iinfo(dtype)
    integers = array.dtype.kind in "iu" and array.size > 0
    require(integers, name, f"expected {kind} values, got {array.dtype}{list(array.shape)}")
    low, high = int(array.min()), int(array.max())
    require(limits.min <= low and high <= limits.max, name, f"expected {kind} values, got {low}..{high}")
    return np.ascontiguousarray(array, dtype)
