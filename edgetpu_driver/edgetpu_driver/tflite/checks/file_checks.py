"""Checks the parts of a .tflite file that LiteRT reads and `parse_model` does not."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np

from edgetpu_driver.errors import ModelFormatError, ModelNotFoundError
from edgetpu_driver.files.file_access import LARGEST_MODEL, read_file
from edgetpu_driver.files.flatbuffer import Table, table_fields
from edgetpu_driver.tflite.file_tables import (
    BUFFER,
    DIMENSION,
    METADATA,
    OPERATOR,
    QUANTIZATION,
    SIGNATURE,
    SPARSITY,
    SUBGRAPH,
    TENSOR,
    TENSOR_MAP,
    read_model_table,
)

LARGEST_FILE = LARGEST_MODEL
"""Maximum size of a file, bytes."""

_ANY_OPTIONS = table_fields("first", "second", "third", "fourth", "fifth", "sixth")

# The vector fields of each options type in the union BuiltinOptions.
_VECTORS = {3: ("second", "third"), 17: ("first",), 30: ("first",), 115: ("first",)}
_STRINGS = {111: ("first", "second")}
_ITEM_SIZES = {1: 4, 2: 2, 3: 1}
"""Sizes of the items of vectors in the union SparseIndexVector."""


def read_model_file(path: Path) -> bytes:
    """The content of a model file.

    Raises ModelNotFoundError if it cannot be read, ModelFormatError if it is too large.
    """
    try:
        return read_file(path, LARGEST_FILE)
    except OSError as error:
        shown = str(path) if str(path).isprintable() else repr(str(path))
        if error.errno == errno.EFBIG:
            check_size(path.stat().st_size, shown)
        raise ModelNotFoundError(f"cannot read {shown}: {error.strerror}") from None


def check_size(size: int, name: str = "the file") -> None:
    """Raise ModelFormatError, with the name, for a file that is too large."""
    if size > LARGEST_FILE:
        raise ModelFormatError(
            f"{name} has {size >> 20} MB; expected a model of at most {LARGEST_FILE >> 20} MB"
        )


def check_rest(data: bytes) -> None:
    """Check everything in a file except tensors, operators, operator codes and buffers.

    Raises ModelFormatError.
    """
    root = read_model_table(data)
    buffers = root.tables("buffers", BUFFER)
    if root.field_offset("external_buffer_groups") or root.field_offset("external_buffers"):
        raise ModelFormatError("model.external_buffers: expected all data in this file")
    for buffer in buffers:
        if buffer.scalar("offset", np.uint64) > 1 or buffer.scalar("size", np.uint64) > 1:
            raise ModelFormatError(f"{buffer.path}: expected data inside the tables of the file")
    for index in root.integers("metadata_buffer"):
        _check_index(root, "metadata_buffer", index, len(buffers))
    for metadata in root.tables("metadata", METADATA):
        metadata.string("name")
        _check_index(metadata, "buffer", metadata.scalar("buffer", np.uint32), len(buffers))
    counts = [_check_tensors(subgraph) for subgraph in read_model_table(data).tables("subgraphs", SUBGRAPH)]
    for subgraph, count in zip(read_model_table(data).tables("subgraphs", SUBGRAPH), counts, strict=True):
        _check_operators(subgraph, count)
    for signature in root.tables("signature_defs", SIGNATURE):
        signature.string("signature_key")
        number = signature.scalar("subgraph_index", np.uint32)
        _check_index(signature, "subgraph_index", number, len(counts))
        for side in ("inputs", "outputs"):
            for each in signature.tables(side, TENSOR_MAP):
                each.string("name")
                index = each.scalar("tensor_index", np.uint32)
                _check_index(each, "tensor_index", index, counts[number])


def _check_tensors(subgraph: Table) -> int:
    """Check the tensors; return their number."""
    tensors = subgraph.tables("tensors", TENSOR)
    for tensor in tensors:
        _check_tensor(tensor)
    return len(tensors)


def _check_operators(subgraph: Table, tensor_count: int) -> None:
    for operator in subgraph.tables("operators", OPERATOR):
        for index in operator.integers("intermediates"):
            if index != -1:
                _check_index(operator, "intermediates", index, tensor_count)
        operator.view("mutating_variable_inputs")
        _check_options(operator)


def _check_tensor(tensor: Table) -> None:
    signature, shape = tensor.integers("shape_signature"), tensor.integers("shape")
    if signature and len(signature) != len(shape):
        raise ModelFormatError(f"{tensor.path}.shape_signature: {list(signature)} for {list(shape)}")
    if tensor.scalar("external_buffer", np.uint32) or tensor.field_offset("variant_tensors"):
        raise ModelFormatError(f"{tensor.path}: expected a tensor of numbers in this file")
    quantization = tensor.table("quantization", QUANTIZATION)
    if quantization is not None:
        for field in ("min", "max"):
            quantization.array(field, np.float32)
        if quantization.scalar("details_type", np.uint8):
            raise ModelFormatError(f"{quantization.path}.details_type: expected no custom quantisation")
    sparsity = tensor.table("sparsity", SPARSITY)
    if sparsity is not None:
        sparsity.integers("traversal_order")
        sparsity.integers("block_map")
        for dimension in sparsity.tables("dim_metadata", DIMENSION):
            _check_dimension(dimension)


def _check_dimension(dimension: Table) -> None:
    """Check the two vectors of one dimension of a sparse tensor."""
    for vector in ("array_segments", "array_indices"):
        kind = dimension.scalar(f"{vector}_type", np.uint8)
        table = dimension.table(vector, _ANY_OPTIONS)
        if kind and (kind not in _ITEM_SIZES or table is None):
            raise ModelFormatError(f"{dimension.path}.{vector}: expected a vector of integers")
        if kind and table is not None:
            table.vector("first", _ITEM_SIZES[kind])


def _check_options(operator: Table) -> None:
    """Check that an operator's options match their declared type, including vectors and strings."""
    if operator.scalar("large_custom_options_offset", np.uint64) > 1:
        raise ModelFormatError(f"{operator.path}: expected options inside the tables of the file")
    for field in ("builtin_options", "builtin_options_2"):
        kind = operator.scalar(f"{field}_type", np.uint8)
        options = operator.table(field, _ANY_OPTIONS)
        if bool(kind) != (options is not None):
            raise ModelFormatError(f"{operator.path}.{field}: options of type {kind} are missing")
        if options is not None and field == "builtin_options":
            for vector in _VECTORS.get(kind, ()):
                options.vector(vector, 4)
            for string in _STRINGS.get(kind, ()):
                options.string(string)


def _check_index(table: Table, field: str, index: int, count: int) -> None:
    if not 0 <= index < count:
        raise ModelFormatError(f"{table.path}.{field}: {index} of {count}")
