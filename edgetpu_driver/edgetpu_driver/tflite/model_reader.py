"""The content of a .tflite file as dataclasses, and a parser for untrusted files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.files.flatbuffer import Table, table_fields
from edgetpu_driver.tflite.file_tables import (
    ACTIVATIONS,
    BUFFER,
    DTYPES,
    FORMAT_VERSION,
    OPERATOR,
    OPERATOR_CODE,
    OPTIONS,
    QUANTIZATION,
    SUBGRAPH,
    TENSOR,
    read_model_table,
)
from edgetpu_driver.tflite.schema import tflite_enums_generated as enums
from edgetpu_driver.tflite.tensor import TensorSpec

EDGETPU_CUSTOM_OP = "edgetpu-custom-op"
"""Custom code of the operator with which edgetpu_compiler replaces the operators that run on the chip."""
ABSENT = -1
"""Tensor index of an omitted optional input."""
NO_ACTIVATION = ACTIVATIONS[0]

_LARGEST_TENSOR = 2**31 - 1  # bytes: the offsets of FlatBuffers and of LiteRT's arena are 31-bit

_FULLY_CONNECTED = table_fields(*(field.schema_name for field in OPTIONS["FULLY_CONNECTED"]))

_EMPTY = memoryview(b"")
_OPERATOR_NAMES = {number: name for name, number in vars(enums.BuiltinOperator).items() if name.isupper()}


@dataclass(frozen=True, eq=False)
class Quantization:
    """Quantisation of a tensor: real = scale * (integer - zero_point)."""

    scales: NDArray[np.float32]
    """float32[n]: one scale for the whole tensor, or one per index along `axis`; empty if not quantised."""
    zero_points: NDArray[np.int64]
    """int64[n], one per scale."""
    axis: int = 0
    """The dimension of per-channel scales."""
    scales_offset: int = 0
    """Byte offset of the scales in the file; 0 if not quantised or not read from a file."""


def per_tensor(scale: float, zero_point: int) -> Quantization:
    """One scale and zero point for the whole tensor."""
    return Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))


NOT_QUANTIZED = Quantization(np.empty(0, np.float32), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a graph: an activation, or a constant with its data."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    buffer: int = 0
    """Index of its buffer in the file."""
    data: bytes = b""
    """Little-endian, row-major; empty for activations."""
    data_offset: int = 0
    """Byte offset of the data in the file."""
    quantization: Quantization = NOT_QUANTIZED
    is_variable: bool = False
    """Whether it keeps its value between runs."""

    @property
    def spec(self) -> TensorSpec:
        """Specification for users of the model; per-channel tensors show their first scale."""
        scales, zero_points = self.quantization.scales, self.quantization.zero_points
        scale = float(scales[0]) if scales.size else 0.0
        zero_point = int(zero_points[0]) if zero_points.size else 0
        return TensorSpec(self.name, self.shape, self.dtype, scale, zero_point)


@dataclass(frozen=True)
class Operator:
    """One step of a graph."""

    name: str
    """Name in the enum BuiltinOperator, e.g. "CONV_2D"; "CUSTOM" for those named by custom_code."""
    custom_code: str
    inputs: tuple[int, ...]
    """Tensor indices; -1 where an optional input is absent."""
    outputs: tuple[int, ...]
    custom_options: memoryview = _EMPTY
    """A view into the file."""
    activation: str = NO_ACTIVATION
    """Fused activation of a FULLY_CONNECTED layer, a value of the enum ActivationFunctionType."""


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A graph: its tensors, and its operators in execution order."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        """The inputs in the model's order, with unique names."""
        return self.specs_of(self.inputs)

    @property
    def output_specs(self) -> tuple[TensorSpec, ...]:
        """The outputs in the model's order, with unique names."""
        return self.specs_of(self.outputs)

    def specs_of(self, indices: Sequence[int]) -> tuple[TensorSpec, ...]:
        """The specifications of these tensors, with unique names."""
        return _distinct([self.tensors[index].spec for index in indices])

    @cached_property
    def edgetpu_operators(self) -> tuple[int, ...]:
        """The indices of the operators that stand for a part compiled for the Edge TPU."""
        return tuple(n for n, each in enumerate(self.operators) if each.custom_code == EDGETPU_CUSTOM_OP)

    @cached_property
    def users(self) -> Mapping[int, Sequence[int]]:
        """The indices of the operators that have a tensor as an input, by tensor; unused ones are absent."""
        return _operators_of(operator.inputs for operator in self.operators)

    @cached_property
    def makers(self) -> Mapping[int, Sequence[int]]:
        """The indices of the operators that compute a tensor, by tensor; other tensors are left out."""
        return _operators_of(operator.outputs for operator in self.operators)


@dataclass(frozen=True, eq=False)
class Model:
    """The content of a .tflite file; subgraph 0 is the one that runs."""

    version: int
    description: str
    subgraphs: tuple[Subgraph, ...]


def _operators_of(operands: Iterable[Sequence[int]]) -> Mapping[int, Sequence[int]]:
    """The indices of the operators that have a tensor among their operands, by tensor."""
    found: dict[int, list[int]] = defaultdict(list)
    for index, tensors in enumerate(operands):
        for tensor in dict.fromkeys(tensors):
            found[tensor].append(index)
    return dict(found)


def _distinct(specs: list[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The specs, with "#2", "#3".. appended to repeated names, which the format allows."""
    taken = {spec.name for spec in specs}
    seen: set[str] = set()
    result = []
    for spec in specs:
        name, count = spec.name, 1
        while name in seen or (count > 1 and name in taken):
            count += 1
            name = f"{spec.name}#{count}"
        seen.add(name)
        result.append(replace(spec, name=name))
    return tuple(result)


_PARSED: ContextVar[dict[bytes, Model] | None] = ContextVar("_PARSED", default=None)


@contextmanager
def each_parsed_once() -> Iterator[None]:
    """Parse equal files once within the context, in this thread; the results must not be changed.

    A context within another one shares its files.
    """
    token = _PARSED.set({} if (around := _PARSED.get()) is None else around)
    try:
        yield
    finally:
        _PARSED.reset(token)


def parse_model(data: bytes) -> Model:
    """Parse a .tflite file; ModelFormatError, naming the field, if it is malformed."""
    parsed = _PARSED.get()
    if parsed is None:
        return _parse(data)
    if data not in parsed:
        parsed[data] = _parse(data)
    return parsed[data]


def operand_specs(data: bytes, most: int) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """The inputs and outputs of the graph that runs, without reading its other tensors.

    If there are more than `most` inputs, or outputs, they are left out. Raises ModelFormatError if the part
    that is read is malformed.
    """
    graph = read_model_table(data).table_at("subgraphs", 0, SUBGRAPH)

    def specs(field: str) -> tuple[TensorSpec, ...]:
        indices = graph.integers(field)
        if len(indices) > most:
            return ()
        return _distinct([_described(graph.table_at("tensors", index, TENSOR)).spec for index in indices])

    return specs("inputs"), specs("outputs")


def _parse(data: bytes) -> Model:
    root = read_model_table(data)
    version = root.scalar("version", np.uint32)
    if version != FORMAT_VERSION:
        raise ModelFormatError(f"model.version: expected {FORMAT_VERSION}, got {version}")
    codes = [_operator_name(code) for code in root.tables("operator_codes", OPERATOR_CODE)]
    buffers = [(each.data("data"), each.data_offset("data")) for each in root.tables("buffers", BUFFER)]
    subgraphs = [_subgraph(table, codes, buffers) for table in root.tables("subgraphs", SUBGRAPH)]
    if not subgraphs:
        raise ModelFormatError("model.subgraphs: expected at least one subgraph")
    return Model(version, root.string("description"), tuple(subgraphs))


def _operator_name(code: Table) -> tuple[str, str]:
    """Name and custom code. Older files have only the narrow deprecated_builtin_code, newer ones both."""
    narrow = code.scalar("deprecated_builtin_code", np.int8)
    number = max(narrow, code.scalar("builtin_code", np.int32))
    name = _OPERATOR_NAMES.get(number, f"BUILTIN_{number}")
    return name, code.string("custom_code") if name == "CUSTOM" else ""


def _subgraph(table: Table, codes: list[tuple[str, str]], buffers: list[tuple[bytes, int]]) -> Subgraph:
    tensors = tuple(_tensor(each, buffers) for each in table.tables("tensors", TENSOR))
    operators = tuple(_operator(each, codes, len(tensors)) for each in table.tables("operators", OPERATOR))
    inputs = _tensor_indices(table, "inputs", 0, len(tensors))
    outputs = _tensor_indices(table, "outputs", 0, len(tensors))
    return Subgraph(table.string("name"), tensors, inputs, outputs, operators)


def _operator(table: Table, codes: list[tuple[str, str]], tensor_count: int) -> Operator:
    index = table.scalar("opcode_index", np.uint32)
    if index >= len(codes):
        raise ModelFormatError(f"{table.path}.opcode_index: {index} of {len(codes)} operator codes")
    name, custom_code = codes[index]
    inputs = _tensor_indices(table, "inputs", ABSENT, tensor_count)
    outputs = _tensor_indices(table, "outputs", 0, tensor_count)
    options = table.table("builtin_options", _FULLY_CONNECTED) if name == "FULLY_CONNECTED" else None
    number = options.scalar("fused_activation_function", np.int8) if options is not None else 0
    activation = ACTIVATIONS.get(number, f"ACTIVATION_{number}")
    return Operator(name, custom_code, inputs, outputs, table.view("custom_options"), activation)


def _tensor_indices(table: Table, field: str, lowest: int, tensor_count: int) -> tuple[int, ...]:
    indices = table.integers(field)
    for index in indices:
        if not lowest <= index < tensor_count:
            raise ModelFormatError(f"{table.path}.{field}: tensor {index} of {tensor_count}")
    return indices


def _tensor(table: Table, buffers: list[tuple[bytes, int]]) -> Tensor:
    tensor, path = _described(table), table.path
    size = prod(tensor.shape) * tensor.dtype.itemsize
    buffer = table.scalar("buffer", np.uint32)
    if buffer >= len(buffers):
        raise ModelFormatError(f"{path}.buffer: tensor '{tensor.name}' has buffer {buffer} of {len(buffers)}")
    data, offset = buffers[buffer]
    if data and len(data) != size:
        raise ModelFormatError(f"{path}.buffer: tensor '{tensor.name}' takes {size} bytes, got {len(data)}")
    is_variable = table.scalar("is_variable", np.bool_)
    return Tensor(
        tensor.name, tensor.shape, tensor.dtype, buffer, data, offset, tensor.quantization, is_variable
    )


def _described(table: Table) -> Tensor:
    """A tensor without its data."""
    name, path = table.string("name"), table.path
    number = table.scalar("type", np.int8)
    dtype = DTYPES.get(number)
    if dtype is None:
        raise ModelFormatError(f"{path}.type: tensor '{name}' has type {number}; expected a type of numbers")
    shape = table.integers("shape")
    if any(extent < 0 for extent in shape):
        raise ModelFormatError(f"{path}.shape: tensor '{name}' has the shape {list(shape)}")
    size = prod(shape) * dtype.itemsize
    if size > _LARGEST_TENSOR:
        raise ModelFormatError(f"{path}.shape: tensor '{name}' of {size} bytes is larger than 2 GiB")
    return Tensor(name, shape, dtype, quantization=_quantization(table, shape, dtype))


def _quantization(tensor: Table, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Quantization:
    table = tensor.table("quantization", QUANTIZATION)
    if table is None:
        return NOT_QUANTIZED
    scales = table.array("scale", np.float32)
    zero_points = table.array("zero_point", np.int64)
    axis = table.scalar("quantized_dimension", np.int32)
    if not zero_points.size:
        zero_points = np.zeros(scales.size, np.int64)
    if scales.size != zero_points.size:
        raise ModelFormatError(f"{table.path}: {scales.size} scales and {zero_points.size} zero points")
    if scales.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scales.size):
        raise ModelFormatError(f"{table.path}: {scales.size} scales along axis {axis} of {list(shape)}")
    if not (scales.min(initial=0) >= 0 and scales.max(initial=0) < np.inf):  # false for NaN
        raise ModelFormatError(f"{table.path}.scale: expected finite scales, none negative")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.iinfo(np.int64)
    if zero_points.min(initial=0) < limits.min or zero_points.max(initial=0) > limits.max:
        raise ModelFormatError(f"{table.path}.zero_point: expected values that {dtype} can hold")
    return Quantization(scales, zero_points, axis, table.data_offset("scale"))
