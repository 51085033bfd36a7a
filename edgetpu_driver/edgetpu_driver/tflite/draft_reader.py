"""Reads a .tflite file into an editable graph, which can be written again."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.files.flatbuffer import Table, table_fields
from edgetpu_driver.tflite.file_tables import (
    OPERATOR,
    OPERATOR_CODE,
    OPTIONS,
    SUBGRAPH,
    read_model_table,
)
from edgetpu_driver.tflite.graph_draft import OPERATORS, Graph
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.model_writer import OperatorRecord


def read_draft(data: bytes) -> Graph:
    """Read a file written by GraphBuilder; tensors keep their indices.

    Raises ModelFormatError for a malformed file, and ModelUnsupportedError for operators that GraphBuilder
    does not write.
    """
    model = parse_model(data)
    root = read_model_table(data)
    codes = root.tables("operator_codes", OPERATOR_CODE)
    tables = root.tables("subgraphs", SUBGRAPH)[0].tables("operators", OPERATOR)
    graph = model.subgraphs[0]
    records = []
    for operator, table in zip(graph.operators, tables, strict=True):
        version, kind = OPERATORS.get(operator.name, (0, ""))
        given = codes[table.scalar("opcode_index", np.uint32)].scalar("version", np.int32, 1)
        if not kind or given != version:
            raise ModelUnsupportedError(
                f"GraphBuilder does not write operator {operator.name}, version {given}"
            )
        options = _options(operator.name, table)
        records.append(
            OperatorRecord(operator.name, version, operator.inputs, operator.outputs, kind, options)
        )
    return Graph.of(model.description, graph.tensors, records, graph.inputs, graph.outputs)


def _options(name: str, operator: Table) -> dict[str, Any]:
    """The options by the writer's names. GraphBuilder leaves fields not in OPTIONS at their defaults."""
    known = {field.generated_name: field for field in OPTIONS.get(name, ())}
    found = operator.table("builtin_options", table_fields(*known)) if known else None
    if found is None:
        return {}
    return {written: found.scalar(written, field.dtype, field.default) for written, field in known.items()}
