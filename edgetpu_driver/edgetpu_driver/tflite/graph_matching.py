"""Matches tensors of a graph with tensors of a graph derived from it by merging operators into one."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgetpu_driver.tflite.model_reader import ABSENT, EDGETPU_CUSTOM_OP, Operator, Subgraph, Tensor
from edgetpu_driver.tflite.tensor import TensorSpec

_OperatorForm = tuple[object, ...]


def match_tensors(made: Subgraph, graph: Subgraph) -> dict[int, int]:
    """The index in `graph` of each tensor of `made` that can be identified.

    An operator of `made` that is compiled for the Edge TPU replaces several of `graph`; the others are the
    same in both. Tensors match by name if the name is unique in both graphs. Other tensors match by their
    adjacent operators, starting from inputs, outputs, named tensors and operators whose form is unique;
    finally by shape, dtype and quantisation if these are unique. Ambiguous or contradictory tensors are left
    out.
    """
    return _Matching(made, graph).run()


def named_alike(made: Subgraph, graph: Subgraph) -> dict[int, int]:
    """The index in `graph` of each tensor of `made` whose name is unique in both."""
    counts = Counter(tensor.name for tensor in made.tensors)
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, tensor in enumerate(graph.tensors):
        by_name[tensor.name].append(index)
    return {
        index: by_name[tensor.name][0]
        for index, tensor in enumerate(made.tensors)
        if counts[tensor.name] == len(by_name.get(tensor.name, ())) == 1
    }


class _Matching:
    def __init__(self, made: Subgraph, graph: Subgraph) -> None:
        self._made, self._graph = made, graph
        self._named = named_alike(made, graph)
        self._candidates: dict[int, set[int]] = defaultdict(set)
        self._waiting = deque(self._named.items())
        self._compared: set[tuple[int, int]] = set()
        self._forms: dict[TensorSpec, list[int]] = defaultdict(list)
        """The graph's non-constant tensors, by form."""
        for index, tensor in enumerate(graph.tensors):
            if not tensor.data:
                self._forms[_form(tensor)].append(index)

    def run(self) -> dict[int, int]:
        for ends in ((self._made.inputs, self._graph.inputs), (self._made.outputs, self._graph.outputs)):
            self._match_ends(*ends)
        self._match_only_operators()
        while self._waiting:
            for pair in self._around(*self._waiting.popleft()):
                self._match_operators(*pair)
        told = {index: min(each) for index, each in self._candidates.items() if len(each) == 1}
        return self._by_form() | told | self._named

    def _match_ends(self, ours: Sequence[int], theirs: Sequence[int]) -> None:
        """Match inputs or outputs by position.

        Their quantisation may differ unless it is that of another tensor of the graph: the ends of a segment
        are inside the graph.
        """
        if len(ours) != len(theirs):
            return
        for mine, other in zip(ours, theirs, strict=True):
            end, source = self._made.tensors[mine], self._graph.tensors[other]
            alike = (end.shape, end.dtype) == (source.shape, source.dtype)
            if alike and (_form(end) == _form(source) or not self._forms[_form(end)]):
                self._match(mine, other)

    def _match_only_operators(self) -> None:
        """Match operators whose form is unique in both graphs."""
        forms: list[dict[_OperatorForm, list[int]]] = []
        for graph in (self._made, self._graph):
            by_form: dict[_OperatorForm, list[int]] = defaultdict(list)
            for index, operator in enumerate(graph.operators):
                by_form[_operator_form(graph, operator)].append(index)
            forms.append(by_form)
        for form, ours in forms[0].items():
            theirs = forms[1].get(form, [])
            if len(ours) == len(theirs) == 1:
                self._match_operators(ours[0], theirs[0])

    def _match(self, ours: int, theirs: int) -> None:
        if ours not in self._named and theirs not in self._candidates[ours]:
            self._candidates[ours].add(theirs)
            self._waiting.append((ours, theirs))

    def _match_operators(self, ours: int, theirs: int) -> None:
        if (ours, theirs) in self._compared:
            return
        self._compared.add((ours, theirs))
        first, second = self._made.operators[ours], self._graph.operators[theirs]
        same = _operator_form(self._made, first) == _operator_form(self._graph, second)
        if same and first.custom_code != EDGETPU_CUSTOM_OP:
            for pair in zip((*first.inputs, *first.outputs), (*second.inputs, *second.outputs), strict=True):
                if ABSENT not in pair:
                    self._match(*pair)

    def _around(self, ours: int, theirs: int) -> Iterator[tuple[int, int]]:
        """Pairs of operators that produce the tensors, or of unique form that use them as the same input."""
        makers = [self._made.makers.get(ours, ()), self._graph.makers.get(theirs, ())]
        if all(len(each) == 1 for each in makers):
            yield makers[0][0], makers[1][0]
        users = [_users(self._made, ours), _users(self._graph, theirs)]
        for use, indices in users[0].items():
            others = users[1].get(use, [])
            if len(indices) == len(others) == 1:
                yield indices[0], others[0]

    def _by_form(self) -> dict[int, int]:
        """Quantised tensors whose shape, dtype and quantisation are unique in the graph."""
        found = {}
        for index, tensor in enumerate(self._made.tensors):
            same = self._forms[_form(tensor)]
            if tensor.spec.scale and len(same) == 1 and index not in self._candidates:
                found[index] = same[0]
        return found


def _form(tensor: Tensor) -> TensorSpec:
    """Shape, dtype and quantisation of a tensor."""
    return replace(tensor.spec, name="")


def _operator_form(graph: Subgraph, operator: Operator) -> _OperatorForm:
    """Name of an operator, with shapes and dtypes of its operands and results."""
    operands = tuple(
        None if index == ABSENT else (graph.tensors[index].shape, graph.tensors[index].dtype)
        for index in (*operator.inputs, *operator.outputs)
    )
    return operator.name, operator.custom_code, len(operator.inputs), operands


def _users(graph: Subgraph, tensor: int) -> dict[tuple[_OperatorForm, int], list[int]]:
    """The operators that use a tensor, by their form and its position among their inputs."""
    users: dict[tuple[_OperatorForm, int], list[int]] = defaultdict(list)
    for index in graph.users.get(tensor, ()):
        operator = graph.operators[index]
        for position, each in enumerate(operator.inputs):
            if each == tensor:
                users[_operator_form(graph, operator), position].append(index)
    return users
