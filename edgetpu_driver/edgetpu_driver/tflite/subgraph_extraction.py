"""Extracts the subgraph between given tensors from a .tflite file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from edgetpu_driver.errors import GraphError
from edgetpu_driver.tflite.file_tables import SUBGRAPH, read_model_table
from edgetpu_driver.tflite.model_reader import Operator, Subgraph, parse_model


def extract(data: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """Return a file whose subgraph 0 has the given inputs and outputs and only the operators between them.

    Raises ModelFormatError for a malformed file; GraphError if a name is not that of exactly one tensor, or
    if the outputs cannot be computed from these inputs.
    """
    graph = parse_model(data).subgraphs[0]
    return extract_between(data, graph, _indices(graph, inputs), _indices(graph, outputs))


def extract_between(data: bytes, graph: Subgraph, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """Like `extract`, with tensors given by their index in `graph`, which was read from the file."""
    return extract_operators(data, _needed(graph, inputs, outputs), inputs, outputs)


def extract_operators(
    data: bytes, operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> bytes:
    """Return a file whose subgraph 0 has only these operators, inputs and outputs, given by index.

    data: a file that `parse_model` has accepted, since that checks every offset used here. The operators must
    be in the order of the file. Tensors, constants and other subgraphs stay. GraphError for a graph without
    operators, inputs or outputs.
    """
    copy = bytearray(data)
    table = read_model_table(data).tables("subgraphs", SUBGRAPH)[0]
    fields = [table.field_offset(name) for name in ("operators", "inputs", "outputs")]
    if not all(fields):
        raise GraphError("expected a graph with operators, inputs and outputs")
    _keep(copy, table.data_offset("operators"), operators)
    for field, indices in zip(fields[1:], (inputs, outputs), strict=True):
        copy += bytes(-len(copy) % 4)
        copy[field : field + 4] = (len(copy) - field).to_bytes(4, "little")
        copy += np.array([len(indices), *indices], "<u4").tobytes()
    return bytes(copy)


def _indices(graph: Subgraph, names: Iterable[str]) -> list[int]:
    """The tensors of these names."""
    found = []
    for name in names:
        indices = [index for index, tensor in enumerate(graph.tensors) if tensor.name == name]
        if len(indices) != 1:
            raise GraphError(f"expected one tensor '{name}' in the graph, found {len(indices)}")
        found += indices
    return found


def _needed(graph: Subgraph, sources: Sequence[int], results: Sequence[int]) -> list[int]:
    """Indices of the operators needed to compute the results from the sources, in order."""
    wanted = set(results) - set(sources)
    needed = []
    for index, operator in reversed(list(enumerate(graph.operators))):
        if not wanted.isdisjoint(operator.outputs):
            needed.append(index)
            wanted.difference_update(operator.outputs)
            wanted.update(_variables(graph, operator) - set(sources))
    if wanted:
        missing = ", ".join(f"'{graph.tensors[index].name}'" for index in sorted(wanted))
        raise GraphError(f"the outputs depend on {missing}, which the inputs do not provide")
    return needed[::-1]


def _variables(graph: Subgraph, operator: Operator) -> set[int]:
    """The operator's inputs that are not constants."""
    return {index for index in operator.inputs if index >= 0 and not graph.tensors[index].data}


def _keep(file: bytearray, start: int, kept: Sequence[int]) -> None:
    """Reduce a vector of tables to some of its items; start: byte offset of the first item."""
    offsets = np.frombuffer(file, "<u4", int.from_bytes(file[start - 4 : start], "little"), start)
    shifts = [4 * (index - position) for position, index in enumerate(kept)]
    shortened = (offsets[list(kept)] + np.array(shifts, np.uint32)).astype("<u4").tobytes()
    del offsets  # its view would keep the file from growing
    file[start - 4 : start + len(shortened)] = len(kept).to_bytes(4, "little") + shortened
