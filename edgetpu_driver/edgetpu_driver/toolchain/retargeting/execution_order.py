"""When the operators of a graph can be under way in a program, from operations that are known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from edgetpu_driver.tflite.model_reader import Subgraph

_Place = tuple[int, int]


class ExecutionOrder:
    """The order of the operators of a graph in a program.

    A program whose known operations come operator after operator runs each operator in one go. In one that
    returns to operators, for tile after tile, nothing can be said.
    """

    def __init__(self, graph: Subgraph, known: Iterable[tuple[_Place, int]]) -> None:
        """known: places of operations in their order, and the operator that each belongs to."""
        self._before = _ancestors(graph)
        in_order = sorted(known)
        runs = [operator for operator, _ in groupby(operator for _, operator in in_order)]
        self._in_one_go = len(runs) == len(set(runs))
        self._first: dict[int, _Place] = {}
        self._last: dict[int, _Place] = {}
        for place, operator in in_order:
            self._first.setdefault(operator, place)
            self._last[operator] = place

    def allows(self, operator: int, place: _Place) -> bool:
        """Whether the operator can be under way there: after what it needs, before what needs it."""
        if not self._in_one_go:
            return True
        before = self._before[operator]
        after = (each for each in self._first if operator in self._before[each])
        return all(self._last[each] < place for each in before if each in self._last) and all(
            self._first[each] > place for each in after
        )


def _ancestors(graph: Subgraph) -> list[set[int]]:
    """The operators that each operator depends on."""
    makers = {output: index for index, operator in enumerate(graph.operators) for output in operator.outputs}
    ancestors: list[set[int]] = []
    for operator in graph.operators:
        direct = {
            makers[each] for each in operator.inputs if each in makers and makers[each] < len(ancestors)
        }
        ancestors.append(direct.union(*(ancestors[each] for each in direct)))
    return ancestors
