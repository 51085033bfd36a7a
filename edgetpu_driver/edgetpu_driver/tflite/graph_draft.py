"""A graph under construction: tensors and operators, their names, order and checks, and the file output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from edgetpu_driver.errors import GraphError
from edgetpu_driver.tflite.model_reader import ABSENT, NOT_QUANTIZED, Quantization, Tensor, per_tensor
from edgetpu_driver.tflite.model_writer import TENSOR_TYPES, OperatorRecord, write_model
from edgetpu_driver.tflite.tensor import TensorSpec

OPERATORS = {
    "ADD": (2, "AddOptions"),
    "AVERAGE_POOL_2D": (2, "Pool2DOptions"),
    "CONCATENATION": (2, "ConcatenationOptions"),
    "CONV_2D": (3, "Conv2DOptions"),
    "DEPTHWISE_CONV_2D": (3, "DepthwiseConv2DOptions"),
    "FULLY_CONNECTED": (4, "FullyConnectedOptions"),
    "MAX_POOL_2D": (2, "Pool2DOptions"),
    "MUL": (2, "MulOptions"),
    "PAD": (2, "NONE"),
    "QUANTIZE": (1, "NONE"),
    "RESHAPE": (1, "NONE"),
    "SLICE": (2, "NONE"),
    "SOFTMAX": (2, "SoftmaxOptions"),
    "SUB": (2, "SubOptions"),
    "TRANSPOSE": (2, "NONE"),
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

    @classmethod
    def of(
        cls,
        description: str,
        tensors: Sequence[Tensor],
        operators: Sequence[OperatorRecord],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> Graph:
        """Create a graph of these tensors and operators; operators refer to tensors by index."""
        graph = cls(description)
        for tensor in tensors:
            graph._add(tensor)
        graph._operators, graph._inputs, graph._outputs = list(operators), list(inputs), list(outputs)
        return graph

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors of the graph."""
        return tuple(self._tensors)

    @property
    def operators(self) -> tuple[OperatorRecord, ...]:
        """The operators of the graph, in execution order."""
        return tuple(self._operators)

    def replace_operators(self, operators: Sequence[OperatorRecord]) -> None:
        """Replace all operators; the new ones refer to tensors by index."""
        self._operators = list(operators)

    def add_tensor(self, tensor: Tensor) -> int:
        """Add a tensor under an unused name and return its index."""
        self._add(replace(tensor, name=self._free_name(tensor.name)))
        return len(self._tensors) - 1

    def input(
        self, name: str, shape: Sequence[int], dtype: DTypeLike, *, scale: float = 0.0, zero_point: int = 0
    ) -> TensorSpec:
        """Add a graph input; scale 0 means not quantised, which only custom operators accept."""
        spec = self._activation(TensorSpec(name, tuple(shape), np.dtype(dtype), scale, zero_point))
        self._inputs.append(self._index[name])
        return spec

    def output(self, tensor: TensorSpec) -> None:
        """Declare a tensor as the next output of the graph."""
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

    def add_head(self, head: Graph, prefix: str) -> None:
        """Add a graph of one input, prefixing its tensors' names; heads share one input and common operators.

        The first head defines the input. An operator equal to one of an earlier head, such as the
        quantisation of the input, is not added again. A final conversion of an output to uint8 is dropped;
        the int8 output differs only in the highest bit. Raises GraphError unless the head has one input, the
        graph's own.
        """
        require(len(head._inputs) == 1, prefix, f"expected a head with one input; got {len(head._inputs)}")
        source = head._tensors[head._inputs[0]].spec
        if not self._inputs:
            scale, zero_point = source.scale, source.zero_point
            self.input(source.name, source.shape, source.dtype, scale=scale, zero_point=zero_point)
        given = self._tensors[self._inputs[0]].spec
        require(source == given, prefix, f"expected a head with the input {given}; got {source}")
        signed = head._signed_outputs()
        results = [signed.get(position, position) for position in head._outputs]
        index = {head._inputs[0]: self._inputs[0], ABSENT: ABSENT}
        for operator in head._operators:
            (result,) = operator.outputs
            if result in signed:
                continue
            for position in operator.inputs:
                if position not in index:  # a constant
                    index[position] = self._copy(head._tensors[position], prefix)
            inputs = tuple(index[position] for position in operator.inputs)
            known = None if result in results else self._same(operator, inputs, head._tensors[result])
            if known is None:
                index[result] = self._copy(head._tensors[result], prefix)
                self._operators.append(replace(operator, inputs=inputs, outputs=(index[result],)))
            else:
                index[result] = known
        self._outputs += [index[position] for position in results]

    def _signed_outputs(self) -> dict[int, int]:
        """The outputs that a final QUANTIZE converts to uint8, with their int8 sources."""
        found = {}
        for operator in self._operators:
            source, result = (self._tensors[each[0]].spec for each in (operator.inputs, operator.outputs))
            same = replace(source, name=result.name, dtype=result.dtype, zero_point=source.zero_point + 128)
            signs = source.dtype == np.int8 and result.dtype == np.uint8
            if (
                operator.name == "QUANTIZE"
                and operator.outputs[0] in self._outputs
                and signs
                and result == same
            ):
                found[operator.outputs[0]] = operator.inputs[0]
        return found

    def _copy(self, tensor: Tensor, prefix: str) -> int:
        self._add(replace(tensor, name=f"{prefix}{tensor.name}"))
        return self._index[f"{prefix}{tensor.name}"]

    def _same(self, operator: OperatorRecord, inputs: tuple[int, ...], result: Tensor) -> int | None:
        """The existing tensor that equals a head's result from these inputs; None if there is none."""
        for each in self._operators:
            made = each.outputs[0]
            spec = self._tensors[made].spec
            alike = replace(operator, inputs=inputs, outputs=each.outputs) == each
            if alike and spec == replace(result.spec, name=spec.name) and made not in self._outputs:
                return made
        return None

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
        """Add a builtin operator; None is an omitted operand."""
        inputs = tuple(ABSENT if each is None else self._position(result.name, each) for each in operands)
        spec = self._activation(result)
        version, table = OPERATORS[operator]
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
        """The index of a tensor; GraphError if it is not in this graph."""
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
