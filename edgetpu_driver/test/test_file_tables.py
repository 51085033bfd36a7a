"""The tables that are read have the fields of the schema, from which the writer's code is generated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgetpu_driver.tflite import file_tables as tables
from edgetpu_driver.tflite import schema
from edgetpu_driver.tflite.graph_draft import OPERATORS
from edgetpu_driver.tflite.schema import tflite_generated

SCHEMA = (Path(schema.__path__[0]) / "tflite.fbs").read_text()
TABLES = {
    "Model": tables.MODEL,
    "OperatorCode": tables.OPERATOR_CODE,
    "SubGraph": tables.SUBGRAPH,
    "Tensor": tables.TENSOR,
    "QuantizationParameters": tables.QUANTIZATION,
    "Operator": tables.OPERATOR,
    "Buffer": tables.BUFFER,
}


def schema_fields(table: str) -> dict[str, tuple[int, int]]:
    """Index and default of each field of a table in the schema."""
    content = re.search(rf"table {table} {{(.*?)}}", SCHEMA, re.DOTALL)
    assert content is not None
    fields = re.findall(r"(\w+):[^=;]+?(?: = (\d+))? \(id: (\d+)\)", content[1])
    assert len(fields) == content[1].count("id:")
    return {name: (int(index), int(default or 0)) for name, default, index in fields}


@pytest.mark.parametrize("table", TABLES)
def test_fields_have_the_indices_of_the_schema(table: str) -> None:
    expected = {name: index for name, (index, _) in schema_fields(table).items()}
    assert {name: TABLES[table].get(name) for name in expected} == expected


@pytest.mark.parametrize("operator", [name for name, (_, table) in OPERATORS.items() if table != "NONE"])
def test_options_have_the_indices_and_defaults_of_the_schema(operator: str) -> None:
    described = {
        field.schema_name: (index, field.default) for index, field in enumerate(tables.OPTIONS[operator])
    }
    assert described == schema_fields(OPERATORS[operator][1])


@pytest.mark.parametrize("operator", [name for name, (_, table) in OPERATORS.items() if table != "NONE"])
def test_options_can_be_written_by_their_generated_names(operator: str) -> None:
    table = OPERATORS[operator][1]
    for field in tables.OPTIONS[operator]:
        assert callable(getattr(tflite_generated, f"{table}Add{field.generated_name}"))
