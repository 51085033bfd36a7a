"""Checks of untrusted graphs before LiteRT sees them.

LiteRT relies on the guarantees of a converter: values are computed before they are used, operators have their
operands, strides are not zero, shapes are consistent. Files that break these have crashed its process.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.tflite.checks.file_checks import check_rest, check_size
from edgetpu_driver.tflite.checks.operator_checks import OperatorCheck
from edgetpu_driver.tflite.file_tables import OPERATOR, SUBGRAPH, read_model_table
from edgetpu_driver.tflite.model_reader import ABSENT, Model, Subgraph, Tensor, parse_model

LARGEST_ACTIVATIONS = 1 << 30
"""Maximum total size of a graph's non-constant tensors, bytes. Chosen far above that of Edge TPU models."""


def check_graph(data: bytes) -> Model:
    """Read a .tflite file and check everything that LiteRT relies on.

    Raises ModelFormatError, which names the faulty part.
    """
    check_size(len(data))
    model = parse_model(data)
    check_rest(data)
    tables = read_model_table(data).tables("subgraphs", SUBGRAPH)
    for index, (graph, table) in enumerate(zip(model.subgraphs, tables, strict=True)):
        path = f"model.subgraphs[{index}]"
        check_order(path, graph)
        _check_memory(path, graph)
        for operator, fields in zip(graph.operators, table.tables("operators", OPERATOR), strict=True):
            OperatorCheck(graph, operator, fields).check()
    return model


def is_constant(tensor: Tensor) -> bool:
    """Whether a tensor has data in the file; one without elements needs none."""
    return bool(tensor.data) or prod(tensor.shape) == 0


def check_order(path: str, graph: Subgraph) -> None:
    """Raise ModelFormatError unless every tensor is computed once, before it is used."""
    tensors = graph.tensors
    known = [is_constant(tensor) or tensor.is_variable for tensor in tensors]
    for index in graph.inputs:
        if tensors[index].data:
            raise ModelFormatError(f"{path}.inputs: {_name(index, tensors)} is a constant")
        known[index] = True
    computed = set(graph.inputs)
    for position, operator in enumerate(graph.operators):
        where = f"{path}.operators[{position}] ({operator.custom_code or operator.name})"
        _check_known(f"{where}.inputs", operator.inputs, tensors, known)
        for index in operator.outputs:
            if tensors[index].data or index in computed:
                raise ModelFormatError(f"{where}.outputs: {_name(index, tensors)} has a value already")
            computed.add(index)
            known[index] = True
    _check_known(f"{path}.outputs", graph.outputs, tensors, known)


def _check_known(path: str, indices: Sequence[int], tensors: Sequence[Tensor], known: list[bool]) -> None:
    for index in indices:
        if index != ABSENT and not known[index]:
            raise ModelFormatError(f"{path}: {_name(index, tensors)} is used before it is computed")


def _check_memory(path: str, graph: Subgraph) -> None:
    size = sum(prod(tensor.shape) * tensor.dtype.itemsize for tensor in graph.tensors if not tensor.data)
    if size > LARGEST_ACTIVATIONS:
        raise ModelFormatError(
            f"{path}.tensors: {size >> 20} MB besides the constants; expected at most "
            f"{LARGEST_ACTIVATIONS >> 20} MB"
        )


def _name(index: int, tensors: Sequence[Tensor]) -> str:
    return f"tensor {index} '{tensors[index].name}'"
