"""The options of a graph's operators as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetpu_driver.files.flatbuffer import Table
from edgetpu_driver.tflite.file_tables import OPERATOR, OPTIONS, SUBGRAPH, option_table, read_model_table
from edgetpu_driver.tflite.model_reader import parse_model

Options = Mapping[str, float]


@dataclass(frozen=True)
class OperatorOptions:
    """The options of one operator."""

    numbers: Options
    """Built-in options by name: "padding", "stride_w", "activation", ..; empty for other operators."""
    custom: bytes
    """The options of a custom operator."""


def read_options(data: bytes) -> tuple[OperatorOptions, ...]:
    """Read the options of the operators of subgraph 0, in order; ModelFormatError for a malformed file."""
    operators = parse_model(data).subgraphs[0].operators
    tables = read_model_table(data).tables("subgraphs", SUBGRAPH)[0].tables("operators", OPERATOR)
    return tuple(
        OperatorOptions(_numbers(operator.name, table), bytes(operator.custom_options))
        for operator, table in zip(operators, tables, strict=True)
    )


def _numbers(name: str, operator: Table) -> Options:
    table = operator.table("builtin_options", option_table(name))
    values: dict[str, Any] = {}
    for field in OPTIONS.get(name, ()):
        values[field.name] = (
            field.default if table is None else table.scalar(field.name, field.dtype, field.default)
        )
    return values
