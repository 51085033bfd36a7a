"""Writes tensors and operators as the bytes of a .tflite file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import flatbuffers
import numpy as np

from edgetpu_driver.files.flatbuffer_vectors import aligned_bytes, int32_vector, offset_vector
from edgetpu_driver.tflite.file_tables import DTYPES, FORMAT_VERSION, IDENTIFIER
from edgetpu_driver.tflite.model_reader import Tensor
from edgetpu_driver.tflite.schema import tflite_enums_generated as enums
from edgetpu_driver.tflite.schema import tflite_generated as schema

DATA_ALIGNMENT = 16  # of constants and custom options: LiteRT maps them in place
_LONG_CODE = 127  # value of deprecated_builtin_code, a signed byte, for every operator from 127 on

_WRITTEN_DTYPES = (np.float32, np.int32, np.uint8, np.int64, np.int16, np.int8)
TENSOR_TYPES = {dtype: number for number, dtype in DTYPES.items() if dtype in _WRITTEN_DTYPES}


@dataclass(frozen=True)
class OperatorRecord:
    """One operator to write."""

    name: str
    """Name in enum BuiltinOperator, e.g. "CONV_2D"."""
    version: int
    inputs: tuple[int, ...]
    """Tensor indices; -1 where an optional input is absent."""
    outputs: tuple[int, ...]
    options_table: str = "NONE"
    """Member of union BuiltinOptions, e.g. "Conv2DOptions"."""
    options: Mapping[str, float] = field(default_factory=dict)
    """Fields of the options by the names of the generated functions, e.g. {"StrideW": 1}."""
    custom_code: str = ""
    custom_options: bytes = b""

    @property
    def code(self) -> tuple[str, int, str]:
        """The key of the operator's OperatorCode."""
        return self.name, self.version, self.custom_code


def write_model(
    description: str,
    tensors: Sequence[Tensor],
    operators: Sequence[OperatorRecord],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> bytes:
    """Write a model with one subgraph; equal arguments give equal bytes."""
    builder = flatbuffers.Builder(4096 + sum(len(tensor.data) for tensor in tensors))
    codes = list(dict.fromkeys(operator.code for operator in operators))
    constants = [tensor.data for tensor in tensors if tensor.data]
    # Buffer 0 is empty by convention; tensors without data refer to it.
    buffers = [_write_buffer(builder, data) for data in [b"", *constants]]
    buffer_numbers = iter(range(1, len(buffers)))
    tensor_offsets = [_write_tensor(builder, t, next(buffer_numbers) if t.data else 0) for t in tensors]
    operator_offsets = [
        _write_operator(builder, operator, codes.index(operator.code)) for operator in operators
    ]
    subgraph = _write_subgraph(builder, tensor_offsets, operator_offsets, inputs, outputs)
    code_offsets = [_write_code(builder, *code) for code in codes]
    vectors = [offset_vector(builder, items) for items in (code_offsets, [subgraph], buffers)]
    # It may be the name of a file, which need not be UTF-8.
    text = builder.CreateString(description, errors="backslashreplace")
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, FORMAT_VERSION)
    schema.ModelAddOperatorCodes(builder, vectors[0])
    schema.ModelAddSubgraphs(builder, vectors[1])
    schema.ModelAddDescription(builder, text)
    schema.ModelAddBuffers(builder, vectors[2])
    builder.Finish(schema.ModelEnd(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _write_buffer(builder: flatbuffers.Builder, data: bytes) -> int:
    vector = aligned_bytes(builder, data, DATA_ALIGNMENT) if data else None
    schema.BufferStart(builder)
    if vector is not None:
        schema.BufferAddData(builder, vector)
    return int(schema.BufferEnd(builder))


def _write_tensor(builder: flatbuffers.Builder, tensor: Tensor, buffer: int) -> int:
    quantization = None
    if tensor.quantization.scales.size:
        scales = builder.CreateNumpyVector(tensor.quantization.scales)
        zero_points = builder.CreateNumpyVector(tensor.quantization.zero_points)
        schema.QuantizationParametersStart(builder)
        schema.QuantizationParametersAddScale(builder, scales)
        schema.QuantizationParametersAddZeroPoint(builder, zero_points)
        schema.QuantizationParametersAddQuantizedDimension(builder, tensor.quantization.axis)
        quantization = schema.QuantizationParametersEnd(builder)
    name = builder.CreateString(tensor.name)
    shape = int32_vector(builder, tensor.shape)
    schema.TensorStart(builder)
    schema.TensorAddShape(builder, shape)
    schema.TensorAddType(builder, TENSOR_TYPES[tensor.dtype])
    schema.TensorAddBuffer(builder, buffer)
    schema.TensorAddName(builder, name)
    if quantization is not None:
        schema.TensorAddQuantization(builder, quantization)
    if tensor.is_variable:
        schema.TensorAddIsVariable(builder, True)
    return int(schema.TensorEnd(builder))


def _write_options(builder: flatbuffers.Builder, table: str, options: Mapping[str, float]) -> int:
    getattr(schema, f"{table}Start")(builder)
    for name, value in options.items():
        getattr(schema, f"{table}Add{name}")(builder, value)
    return int(getattr(schema, f"{table}End")(builder))


def _write_operator(builder: flatbuffers.Builder, operator: OperatorRecord, code: int) -> int:
    options = None
    if operator.options_table != "NONE":
        options = _write_options(builder, operator.options_table, operator.options)
    custom = (
        aligned_bytes(builder, operator.custom_options, DATA_ALIGNMENT) if operator.custom_options else None
    )
    inputs = int32_vector(builder, operator.inputs)
    outputs = int32_vector(builder, operator.outputs)
    schema.OperatorStart(builder)
    schema.OperatorAddOpcodeIndex(builder, code)
    schema.OperatorAddInputs(builder, inputs)
    schema.OperatorAddOutputs(builder, outputs)
    if options is not None:
        schema.OperatorAddBuiltinOptionsType(builder, getattr(schema.BuiltinOptions, operator.options_table))
        schema.OperatorAddBuiltinOptions(builder, options)
    if custom is not None:
        schema.OperatorAddCustomOptions(builder, custom)
    return int(schema.OperatorEnd(builder))


def _write_code(builder: flatbuffers.Builder, name: str, version: int, custom_code: str) -> int:
    number = getattr(enums.BuiltinOperator, name)
    text = builder.CreateString(custom_code) if custom_code else None
    schema.OperatorCodeStart(builder)
    schema.OperatorCodeAddDeprecatedBuiltinCode(builder, min(number, _LONG_CODE))
    if text is not None:
        schema.OperatorCodeAddCustomCode(builder, text)
    schema.OperatorCodeAddVersion(builder, version)
    schema.OperatorCodeAddBuiltinCode(builder, number)
    return int(schema.OperatorCodeEnd(builder))


def _write_subgraph(
    builder: flatbuffers.Builder,
    tensors: Sequence[int],
    operators: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> int:
    tensor_vector = offset_vector(builder, tensors)
    operator_vector = offset_vector(builder, operators)
    input_vector = int32_vector(builder, inputs)
    output_vector = int32_vector(builder, outputs)
    name = builder.CreateString("main")
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tensor_vector)
    schema.SubGraphAddInputs(builder, input_vector)
    schema.SubGraphAddOutputs(builder, output_vector)
    schema.SubGraphAddOperators(builder, operator_vector)
    schema.SubGraphAddName(builder, name)
    return int(schema.SubGraphEnd(builder))
