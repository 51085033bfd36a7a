"""Extracting a subgraph from a .tflite file."""

from __future__ import annotations

import flatbuffers
import numpy as np
import pytest

from edgetpu_driver import CpuEngine
from edgetpu_driver.errors import GraphError, ModelFormatError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.schema import tflite_generated as schema
from edgetpu_driver.tflite.subgraph_extraction import extract


@pytest.fixture(scope="module")
def whole() -> bytes:
    """Of int8 at scale 1: b = a + 1, c = b + b, d = a + a, e = c + d."""
    graph = GraphBuilder()
    a = graph.input("a", (1, 4), np.int8, scale=1, zero_point=0)
    b = graph.fully_connected(a, np.eye(4, dtype=np.int8), 1, bias=[1] * 4, scale=1, zero_point=0, name="b")
    c = graph.add(b, b, scale=1, zero_point=0, name="c")
    d = graph.add(a, a, scale=1, zero_point=0, name="d")
    graph.output(graph.add(c, d, scale=1, zero_point=0, name="e"))
    return graph.build()


A = np.array([[1, -2, 3, 40]], np.int8)


@pytest.mark.parametrize(
    ("inputs", "outputs", "operators"),
    [
        (("a",), ("d",), ["ADD"]),
        (("a",), ("d", "c"), ["FULLY_CONNECTED", "ADD", "ADD"]),
        (("b",), ("c",), ["ADD"]),
        (("c", "a"), ("e",), ["ADD", "ADD"]),
        (("a",), ("e",), ["FULLY_CONNECTED", "ADD", "ADD", "ADD"]),
    ],
)
def test_an_extracted_subgraph_computes_the_same(
    whole: bytes, inputs: tuple[str, ...], outputs: tuple[str, ...], operators: list[str]
) -> None:
    values = {"a": A, "b": A + 1, "c": 2 * A + 2, "d": 2 * A, "e": np.minimum(4 * A.astype(int) + 2, 127)}
    part = extract(whole, inputs, outputs)
    graph = parse_model(part).subgraphs[0]
    assert [operator.name for operator in graph.operators] == operators
    results = CpuEngine(part).run({name: values[name] for name in inputs})
    assert list(results) == list(outputs)
    for name in outputs:
        assert results[name].tolist() == values[name].tolist()


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ((), ("c",), "the outputs depend on 'a', which the inputs do not provide"),
        (("a",), ("z",), "expected one tensor 'z' in the graph, found 0"),
    ],
)
def test_outputs_that_cannot_be_computed_are_refused(
    whole: bytes, inputs: tuple[str, ...], outputs: tuple[str, ...], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        extract(whole, inputs, outputs)


def test_a_graph_without_operators_is_refused() -> None:
    builder = flatbuffers.Builder(0)
    schema.SubGraphStart(builder)
    graph = schema.SubGraphEnd(builder)
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), file_identifier=b"TFL3")
    with pytest.raises(GraphError, match="expected a graph with operators"):
        extract(bytes(builder.Output()), (), ())


def test_a_malformed_file_is_refused() -> None:
    with pytest.raises(ModelFormatError):
        extract(b"not a model", ("a",), ("b",))
