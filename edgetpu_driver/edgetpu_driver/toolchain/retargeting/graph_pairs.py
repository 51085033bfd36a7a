"""Compares the graph that a file was compiled from with another graph of the same operators and shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import ABSENT, Operator, Subgraph, Tensor, parse_model
from edgetpu_driver.tflite.operator_options import OperatorOptions, Options, read_options
from edgetpu_driver.tflite.shared_quantisation import chip_quantisation
from edgetpu_driver.tflite.weighted_operators import WEIGHTED

_WEIGHT_OPERANDS = (1, 2)
"""Positions of the weights and the bias among the inputs of an operator; the data come first."""


@dataclass(frozen=True, eq=False)
class GraphPair:
    """Two graphs of the same operators and shapes, with the same tensors, operators and options by position.

    `old` is the graph that the compiled file was made from.
    """

    old: Subgraph
    new: Subgraph
    tensors: Mapping[int, int]
    """The tensor of `new` for each tensor of `old` that an operator uses."""
    options: tuple[Options, ...]
    """The options of each operator."""

    def operator_name(self, index: int) -> str:
        """The name of an operator in messages: its kind, and the name of its result in the new graph."""
        operator = self.new.operators[index]
        name = operator.custom_code or operator.name
        if not operator.outputs:  # it only writes to variables
            return f"{name}, operator {index},"
        return f"{name} '{self.new.tensors[operator.outputs[0]].name}'"

    def refusal(self, index: int, reason: str) -> ModelUnsupportedError:
        """The error for an operator that cannot be retargeted."""
        return ModelUnsupportedError(f"{self.operator_name(index)} cannot be retargeted: {reason}")

    def is_requantised(self, tensor: int) -> bool:
        """Whether a tensor of `old` has another scale or zero point in `new`."""
        old, new = (
            each.quantization for each in (self.old.tensors[tensor], self.new.tensors[self.tensors[tensor]])
        )
        same = np.array_equal(old.scales, new.scales) and np.array_equal(old.zero_points, new.zero_points)
        return not same


def pair_graphs(old: bytes, new: bytes) -> GraphPair:
    """Match two .tflite files; subgraph 0 of each.

    Raises ModelFormatError for malformed files; ModelUnsupportedError, which names the first difference, if
    they differ in more than weights, biases, quantisation and names, or in the kind of quantisation.
    """
    graphs = parse_model(old).subgraphs[0], parse_model(new).subgraphs[0]
    names = [[operator.custom_code or operator.name for operator in graph.operators] for graph in graphs]
    for position, (ours, theirs) in enumerate(zip(*names, strict=False)):
        if ours != theirs:
            raise _different(f"operator {position} is {theirs}, not {ours}")
    if len(names[0]) != len(names[1]):
        raise _different(f"it has {len(names[1])} operators, not {len(names[0])}")
    options = read_options(old), read_options(new)
    pair = GraphPair(*graphs, {}, tuple(each.numbers for each in options[0]))
    matcher = _Matcher(pair)
    for kind, ours, theirs in (
        ("inputs", graphs[0].inputs, graphs[1].inputs),
        ("outputs", graphs[0].outputs, graphs[1].outputs),
    ):
        matcher.match(kind, ours, theirs)
    for index in range(len(graphs[0].operators)):
        _check_options(pair, index, options[0][index], options[1][index])
        matcher.match_operator(index)
    return matcher.pair()


class _Matcher:
    def __init__(self, pair: GraphPair) -> None:
        self._pair = pair
        self._tensors: dict[int, int] = {}
        self._back: dict[int, int] = {}

    def pair(self) -> GraphPair:
        return GraphPair(self._pair.old, self._pair.new, self._tensors, self._pair.options)

    def match_operator(self, index: int) -> None:
        old, new = self._pair.old.operators[index], self._pair.new.operators[index]
        name = self._pair.operator_name(index)
        self.match(f"the inputs of {name}", *_aligned(old, new))
        self.match(f"the outputs of {name}", old.outputs, new.outputs)

    def match(self, what: str, old: Sequence[int], new: Sequence[int]) -> None:
        if len(old) != len(new):
            raise _different(f"{what}: {len(new)} tensors, not {len(old)}")
        for ours, theirs in zip(old, new, strict=True):
            if (ours == ABSENT) != (theirs == ABSENT):
                raise _different(f"{what}: an operand is there in one of them only")
            if ours == ABSENT:
                continue
            if (
                self._tensors.setdefault(ours, theirs) != theirs
                or self._back.setdefault(theirs, ours) != ours
            ):
                raise _different(f"{what}: other tensors")
            _check_tensors(what, self._pair.old.tensors[ours], self._pair.new.tensors[theirs])


def _aligned(old: Operator, new: Operator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pairs of inputs of two operators; one of them may omit optional inputs at the end."""
    count = max(len(old.inputs), len(new.inputs)) if old.name in WEIGHTED else 0

    def padded(indices: Iterable[int]) -> tuple[int, ...]:
        known = tuple(indices)
        return known + (ABSENT,) * (count - len(known))

    return padded(old.inputs), padded(new.inputs)


def weight_operands(operator: Operator) -> tuple[int, ...]:
    """The tensors that hold the weights and the bias of an operator."""
    if operator.name not in WEIGHTED:
        return ()
    return tuple(operator.inputs[i] for i in _WEIGHT_OPERANDS if i < len(operator.inputs))


def _check_tensors(what: str, old: Tensor, new: Tensor) -> None:
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        raise _different(f"{what}: {new.spec}, not {old.spec}")
    if bool(old.data) != bool(new.data):
        raise _different(f"{what}: '{new.name}' is a constant in one of them only")
    if (chip_quantisation(old) is None) != (chip_quantisation(new) is None):
        raise _different(f"{what}: '{new.name}' is quantised in one of them only")
    if old.quantization.scales.size != new.quantization.scales.size:
        raise _different(
            f"{what}: '{new.name}' has {new.quantization.scales.size} scales, not "
            f"{old.quantization.scales.size}: another kind of quantisation"
        )


def _check_options(pair: GraphPair, index: int, old: OperatorOptions, new: OperatorOptions) -> None:
    for name, value in old.numbers.items():
        if new.numbers[name] != value:
            raise _different(f"{pair.operator_name(index)}: {name} {new.numbers[name]}, not {value}")
    if old.custom != new.custom and pair.old.operators[index].name != "CUSTOM":
        raise _different(f"{pair.operator_name(index)}: other options")


def _different(what: str) -> ModelUnsupportedError:
    return ModelUnsupportedError(
        f"expected a graph of the same operators, shapes and kind of quantisation as the compiled one; {what}"
    )
