"""Changes names, quantisation and constants of tensors in a .tflite file; all other bytes stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.flatbuffer import Table
from edgetpu_driver.files.flatbuffer_edit import FlatbufferEdit
from edgetpu_driver.tflite.file_tables import OPERATOR, QUANTIZATION, SUBGRAPH, TENSOR, read_model_table
from edgetpu_driver.tflite.model_reader import Quantization, parse_model

_ALIGNMENT = 16  # of appended data: LiteRT maps constants in place


@dataclass(frozen=True, eq=False)
class TensorChange:
    """New values for a tensor's properties; None leaves one unchanged."""

    name: str | None = None
    quantization: Quantization | None = None
    """New quantisation; must have as many scales as before."""
    data: bytes | None = None
    """New content; must have as many bytes as before."""


class GraphEdit:
    """An editable copy of a .tflite file; indices of tensors and operators are those of subgraph 0."""

    def __init__(self, data: bytes) -> None:
        """data: the file; ModelFormatError if it is malformed."""
        self._graph = parse_model(data).subgraphs[0]
        self._copy = bytearray(data)
        self._edit = FlatbufferEdit(self._copy)
        table = read_model_table(data).tables("subgraphs", SUBGRAPH)[0]
        self._tensors = table.tables("tensors", TENSOR)
        self._operators = table.tables("operators", OPERATOR)

    def change(self, changes: Mapping[int, TensorChange]) -> None:
        """Change tensors, by index; InputError for values that do not fit."""
        for index, change in changes.items():
            self._check_shared(index, changes)
            if change.name is not None:
                self._rename(self._tensors[index], change.name)
            if change.quantization is not None:
                self._quantise(index, change.quantization)
            if change.data is not None:
                self._fill(index, change.data)

    def replace_options(self, operator: int, options: bytes) -> None:
        """Replace an operator's custom options."""
        table = self._operators[operator]
        if not self._edit.data(table, "custom_options", options):
            self._append(table, "custom_options", options, len(options))

    def file(self) -> bytes:
        """The changed file."""
        return bytes(self._copy)

    def _check_shared(self, index: int, changes: Mapping[int, TensorChange]) -> None:
        """Check that tensors that share their bytes in the file get the same new ones."""
        data = changes[index].data
        if data is None:
            return
        target = self._graph.tensors[index]
        for other, tensor in enumerate(self._graph.tensors):
            if tensor.buffer == target.buffer:
                change = changes.get(other)
                wanted = tensor.data if change is None or change.data is None else change.data
                if wanted != data:
                    raise InputError(f"'{target.name}' shares its data with '{tensor.name}'")

    def _rename(self, table: Table, name: str) -> None:
        if not self._edit.text(table, "name", name):
            data = name.encode()
            self._append(table, "name", data + b"\0", len(data))

    def _quantise(self, index: int, wanted: Quantization) -> None:
        tensor = self._graph.tensors[index]
        if wanted.scales.size != tensor.quantization.scales.size:
            raise InputError(f"expected {tensor.quantization.scales.size} scales for '{tensor.name}'")
        table = self._tensors[index].table("quantization", QUANTIZATION)
        if table is None:
            return
        self._vector(table, "scale", wanted.scales.astype("<f4"))
        points = wanted.zero_points.astype("<i8")
        if table.view("zero_point") or points.any():
            self._vector(table, "zero_point", points)

    def _vector(self, table: Table, field: str, values: NDArray[np.generic]) -> None:
        data = values.tobytes()
        if len(table.vector(field, values.itemsize)) == len(data):
            position = table.data_offset(field)
            self._copy[position : position + len(data)] = data
        else:
            self._append(table, field, data, values.size)

    def _fill(self, index: int, data: bytes) -> None:
        tensor = self._graph.tensors[index]
        if len(data) != len(tensor.data):
            raise InputError(f"expected {len(tensor.data)} bytes for '{tensor.name}', got {len(data)}")
        self._copy[tensor.data_offset : tensor.data_offset + len(data)] = data

    def _append(self, table: Table, field: str, data: bytes, count: int) -> None:
        """Append a vector to the file and point the field to it."""
        position = table.field_offset(field)
        if not position:
            raise InputError(f"{table.path}.{field} is absent and cannot be set")
        copy = self._copy
        copy += bytes(-(len(copy) + 4) % _ALIGNMENT)
        copy[position : position + 4] = (len(copy) - position).to_bytes(4, "little")
        copy += count.to_bytes(4, "little") + data
        copy += bytes(-len(copy) % 4)
