"""The tables of a .tflite file: which fields each has, in the order of the schema.

Readers, checks and edits ask for fields by these names, which error messages show. `model_writer` writes with
the code generated from schema/tflite.fbs; test_file_tables.py compares the two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from edgetpu_driver.files.flatbuffer import Fields, Table, read_root, table_fields
from edgetpu_driver.tflite.schema import tflite_enums_generated as enums

FORMAT_VERSION = 3
"""Version of the TFLite schema."""
IDENTIFIER = b"TFL3"
"""The identifier of files of this version."""

MODEL = table_fields(
    "version",
    "operator_codes",
    "subgraphs",
    "description",
    "buffers",
    "metadata_buffer",
    "metadata",
    "signature_defs",
    "external_buffer_groups",
    "external_buffers",
)
OPERATOR_CODE = table_fields("deprecated_builtin_code", "custom_code", "version", "builtin_code")
SUBGRAPH = table_fields("tensors", "inputs", "outputs", "operators", "name")
TENSOR = table_fields(
    "shape",
    "type",
    "buffer",
    "name",
    "quantization",
    "is_variable",
    "sparsity",
    "shape_signature",
    "has_rank",
    "variant_tensors",
    "external_buffer",
)
QUANTIZATION = table_fields(
    "min", "max", "scale", "zero_point", "details_type", "details", "quantized_dimension"
)
OPERATOR = table_fields(
    "opcode_index",
    "inputs",
    "outputs",
    "builtin_options_type",
    "builtin_options",
    "custom_options",
    "custom_options_format",
    "mutating_variable_inputs",
    "intermediates",
    "large_custom_options_offset",
    "large_custom_options_size",
    "builtin_options_2_type",
    "builtin_options_2",
)
BUFFER = table_fields("data", "offset", "size")
METADATA = table_fields("name", "buffer")
SIGNATURE = table_fields("inputs", "outputs", "signature_key", "reserved", "subgraph_index")
TENSOR_MAP = table_fields("name", "tensor_index")
SPARSITY = table_fields("traversal_order", "block_map", "dim_metadata")
DIMENSION = table_fields(
    "format",
    "dense_size",
    "array_segments_type",
    "array_segments",
    "array_indices_type",
    "array_indices",
)

DTYPES: dict[int, np.dtype[Any]] = {
    enums.TensorType.FLOAT32: np.dtype(np.float32),
    enums.TensorType.FLOAT16: np.dtype(np.float16),
    enums.TensorType.FLOAT64: np.dtype(np.float64),
    enums.TensorType.INT8: np.dtype(np.int8),
    enums.TensorType.INT16: np.dtype(np.int16),
    enums.TensorType.INT32: np.dtype(np.int32),
    enums.TensorType.INT64: np.dtype(np.int64),
    enums.TensorType.UINT8: np.dtype(np.uint8),
    enums.TensorType.UINT16: np.dtype(np.uint16),
    enums.TensorType.UINT32: np.dtype(np.uint32),
    enums.TensorType.UINT64: np.dtype(np.uint64),
    enums.TensorType.BOOL: np.dtype(np.bool_),
    enums.TensorType.COMPLEX64: np.dtype(np.complex64),
    enums.TensorType.COMPLEX128: np.dtype(np.complex128),
}
"""The NumPy dtypes of tensors that hold numbers, by the enum TensorType."""


ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}
"""The enum ActivationFunctionType."""


class OptionField(NamedTuple):
    """A number in the options of an operator."""

    name: str
    dtype: type[np.generic]
    schema_name: str
    default: int = 0

    @property
    def generated_name(self) -> str:
        """The name in the functions of the generated code, e.g. "StrideW"."""
        return "".join(part.capitalize() for part in self.schema_name.split("_"))


def _field(name: str, dtype: type[np.generic]) -> OptionField:
    return OptionField(name, dtype, name)


_WINDOW = (_field("padding", np.int8), _field("stride_w", np.int32), _field("stride_h", np.int32))
_FILTER = (
    OptionField("filter_w", np.int32, "filter_width"),
    OptionField("filter_h", np.int32, "filter_height"),
)
_MULTIPLIER = OptionField("multiplier", np.int32, "depth_multiplier")
_ACTIVATION = OptionField("activation", np.int8, "fused_activation_function")
_DILATION = (
    OptionField("dilation_w", np.int32, "dilation_w_factor", 1),
    OptionField("dilation_h", np.int32, "dilation_h_factor", 1),
)
_POOL = (*_WINDOW, *_FILTER, _ACTIVATION)
_RESIZE = (_field("align_corners", np.bool_), _field("half_pixel_centers", np.bool_))
OPTIONS: dict[str, tuple[OptionField, ...]] = {
    "CONV_2D": (*_WINDOW, _ACTIVATION, *_DILATION),
    "DEPTHWISE_CONV_2D": (*_WINDOW, _MULTIPLIER, _ACTIVATION, *_DILATION),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _POOL),
    "SOFTMAX": (_field("beta", np.float32),),
    "CONCATENATION": (_field("axis", np.int32), _ACTIVATION),
    **dict.fromkeys(("FULLY_CONNECTED", "ADD", "MUL", "SUB"), (_ACTIVATION,)),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), (_field("keep_dims", np.bool_),)),
    "RESIZE_BILINEAR": (_field("unused_1", np.int32), _field("unused_2", np.int32), *_RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": _RESIZE,
    "LEAKY_RELU": (_field("alpha", np.float32),),
}
"""The first fields of the options of each operator, in the order of the schema."""


def option_table(operator: str) -> Fields:
    """The fields of an operator's options; empty for operators that are not in OPTIONS."""
    return table_fields(*(field.name for field in OPTIONS.get(operator, ())))


def read_model_table(data: bytes | bytearray) -> Table:
    """Read the root table of a .tflite file; ModelFormatError if there is none.

    One root allows a file to be read a few times. A graph of many small operators needs a root for each pass.
    """
    return read_root(memoryview(data), IDENTIFIER, "model", MODEL)
