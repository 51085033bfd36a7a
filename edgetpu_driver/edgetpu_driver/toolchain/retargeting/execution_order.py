"""Tells which operators of a graph a program can be running at a location, from operations already known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from edgetpu_driver.tflite.model_reader import Subgraph

Location = tuple[int, int]
"""The chunk of an operation and its index in the chunk; sorted, they are in execution order."""


class ExecutionOrder:
    """The order in which a program runs the operators of a graph.

    If the known operations appear operator by operator, the program runs each operator as a whole. If it
    returns to operators, for one tile after another, every operator is possible everywhere.
    """

    def __init__(self, graph: Subgraph, known: Iterable[tuple[Location, int]]) -> None:
        """known: locations of operations, in execution order, with the operator that each belongs to."""
        self._before = _ancestors(graph)
        in_order = sorted(known)
        runs = [operator for operator, _ in groupby(operator for _, operator in in_order)]
        self._in_one_go = len(runs) == len(set(runs))
        self._first: dict[int, Location] = {}
        self._last: dict[int, Location] = {}
        for location, operator in in_order:
            self._first.setdefault(operator, location)
            self._last[operator] = location

    def allows(self, operator: int, location: Location) -> bool:
        """Whether an operator can run at a location: after its sources, and before operators that need it."""
        if not self._in_one_go:
            return True
        before = self._before[operator]
        after = (each for each in self._first if self._before[each] >> operator & 1)
        return all(last < location for each, last in self._last.items() if before >> each & 1) and all(
            self._first[each] > location for each in after
        )


def _ancestors(graph: Subgraph) -> list[int]:
    """The operators that each operator depends on, by index: bit i is set for operator i.

    Sets of numbers would take a gigabyte for a chain of some thousand operators.
    """
    makers = {output: index for index, operator in enumerate(graph.operators) for output in operator.outputs}
    ancestors: list[int] = []
    for operator in graph.operators:
        before = 0
        for index in {makers[each] for each in operator.inputs if each in makers}:
            if index < len(ancestors):
                before |= ancestors[index] | 1 << index
        ancestors.append(before)
    return ancestors
