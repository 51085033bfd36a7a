"""Reads a .tflite file into an editable graph, which can be written again."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.files.flatbuffer import table_fields
from edgetpu_driver.tflite.graph_draft import OPERATORS, Graph
from edgetpu_driver.tflite.model_reader import (
    OPERATOR,
    OPERATOR_CODE,
    SUBGRAPH,
    parse_model,
    read_model_table,
)
from edgetpu_driver.tflite.model_writer import OperatorRecord

_Kinds = tuple[tuple[str, type[np.generic], float], ...]
_WINDOW: _Kinds = (("Padding", np.int8, 0), ("StrideW", np.int32, 0), ("StrideH", np.int32, 0))
_DILATION: _Kinds = (("DilationWFactor", np.int32, 1), ("DilationHFactor", np.int32, 1))
_FUSED: _Kinds = (("FusedActivationFunction", np.int8, 0),)
_OPTIONS: dict[str, _Kinds] = {
    "AddOptions": _FUSED,
    "ConcatenationOptions": (("Axis", np.int32, 0), *_FUSED),
    "Conv2DOptions": (*_WINDOW, *_FUSED, *_DILATION),
    "DepthwiseConv2DOptions": (*_WINDOW, ("DepthMultiplier", np.int32, 0), *_FUSED, *_DILATION),
    "FullyConnectedOptions": _FUSED,
    "MulOptions": _FUSED,
    "NONE": (),
    "Pool2DOptions": (*_WINDOW, ("FilterWidth", np.int32, 0), ("FilterHeight", np.int32, 0), *_FUSED),
    "SoftmaxOptions": (("Beta", np.float32, 0.0),),
    "SubOptions": _FUSED,
}
"""The first fields of each options table in schema order, with their defaults.

GraphBuilder leaves all later fields at their defaults.
"""


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
        options: dict[str, Any] = {}
        fields = table_fields(*(name for name, _, _ in _OPTIONS[kind]))
        found = table.table("builtin_options", fields) if fields else None
        if found is not None:
            options = {name: found.scalar(name, dtype, value) for name, dtype, value in _OPTIONS[kind]}
        records.append(
            OperatorRecord(operator.name, version, operator.inputs, operator.outputs, kind, options)
        )
    return Graph.of(model.description, graph.tensors, records, graph.inputs, graph.outputs)
