"""Converts the compiled file of a graph for another graph with the same operators and shapes.

Weights, biases and multipliers go into the parameters, requantisation into the program, scales and names into
the package. Everything else stays, byte for byte. Layers that are not known well enough are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from edgetpu_driver.compiled_model import VIRTUAL_COMPILER, CompiledModel
from edgetpu_driver.darwinn.executable import Layer
from edgetpu_driver.errors import GraphError, ModelUnsupportedError
from edgetpu_driver.tflite.checks.graph_checks import check_graph
from edgetpu_driver.tflite.graph_edit import TensorChange
from edgetpu_driver.tflite.graph_matching import match_tensors
from edgetpu_driver.tflite.model_reader import (
    ABSENT,
    EDGETPU_CUSTOM_OP,
    Subgraph,
    Tensor,
    each_parsed_once,
    parse_model,
)
from edgetpu_driver.tflite.shared_quantisation import CHOOSING, MOVING, chip_quantisation
from edgetpu_driver.tflite.subgraph_extraction import extract_between
from edgetpu_driver.toolchain.retargeting.file_rewriting import PartChange, rewrite_file
from edgetpu_driver.toolchain.retargeting.graph_adaptation import Requantised, adapt_graph
from edgetpu_driver.toolchain.retargeting.graph_pairs import GraphPair, pair_graphs, weight_operands
from edgetpu_driver.toolchain.retargeting.operator_requantisation import RULES
from edgetpu_driver.toolchain.retargeting.parameter_rewriting import rewrite_parameters
from edgetpu_driver.toolchain.retargeting.program_calibration import calibrated
from edgetpu_driver.toolchain.retargeting.program_explanation import ProgramExplanation
from edgetpu_driver.toolchain.retargeting.program_rewriting import RewrittenProgram, rewrite_program
from edgetpu_driver.toolchain.retargeting.zero_point_operations import ZeroPointOperations
from edgetpu_driver.weights.section_search import locate_sections

_OF_ONE_SCALE = ("SOFTMAX", "LOGISTIC")
"""Operators whose output has the same scale and zero point in every graph."""

UNCONFIRMED = "retargeted from a compiled file; no such file has run on a stick yet"


@dataclass(frozen=True)
class RetargetedModel:
    """A compiled file made from the compiled file of another graph."""

    file: bytes
    """The compiled .tflite file."""
    graph: bytes
    """The graph that the file computes: the requested one, unless layers were requantised."""
    requantised: tuple[Requantised, ...]
    """Layers that could not get their own scale and zero point."""
    changed_layers: tuple[str, ...]
    """Names of the operators whose parameters or requantisation differ from those in the compiled file."""

    @property
    def remark(self) -> str:
        """What a user should know before the file runs on a stick."""
        return "; ".join((UNCONFIRMED, *(each.cost for each in self.requantised)))


def retarget(compiled: bytes, old_graph: bytes, new_graph: bytes, name: str = "") -> RetargetedModel:
    """Convert the compiled file of `old_graph` for `new_graph`; always the same bytes.

    compiled: a file of edgetpu_compiler, or of a matrix that was compiled here. name: of the model, for
    messages. An unchanged graph gives the file itself. Raises ModelFormatError for malformed files,
    ModelUnsupportedError, with the name of the layer, if the graph cannot be retargeted.
    """
    with each_parsed_once():
        return _retarget(compiled, old_graph, new_graph, name)


def _retarget(compiled: bytes, old_graph: bytes, new_graph: bytes, name: str) -> RetargetedModel:
    for graph in (old_graph, new_graph):
        check_graph(graph)
    pair_graphs(old_graph, new_graph)
    parts = CompiledModel.parse_parts(compiled, name)
    if parts[0].compiler == VIRTUAL_COMPILER:
        raise ModelUnsupportedError(f"'{name}' is packed for the virtual stick: compile the graph itself")
    own_graph = _calibrated(parts, old_graph)
    if new_graph == old_graph:
        new_graph = own_graph
    old_graph = own_graph
    pair = pair_graphs(old_graph, new_graph)
    sources = [_Source(part, old_graph, pair) for part in parts]
    explained = [source.explain(pair, new_graph) for source in sources]
    operators = sorted({each for source in sources for each in source.operators})
    found = {each for part in explained for each in part.with_zero_points()}
    new_graph, requantised = adapt_graph(old_graph, new_graph, pair, operators, found)
    if requantised:
        pair = pair_graphs(old_graph, new_graph)
        explained = [source.explain(pair, new_graph) for source in sources]
    changes = [part.change() for part in explained]
    container = _Container(compiled, pair, sources)
    file = rewrite_file(compiled, changes, container.changes(), container.options())
    changed = tuple(pair.operator_name(index) for index in _changed_operators(pair))
    return RetargetedModel(file, new_graph, requantised, changed)


def _calibrated(parts: Sequence[CompiledModel], graph: bytes) -> bytes:
    """A graph with the scales and zero points of the calibration that the file was compiled with."""
    try:
        for part in parts:
            graph = calibrated(part, graph)
    except GraphError as error:
        raise ModelUnsupportedError(str(error)) from None
    return graph


class _Source:
    """A part for the Edge TPU and the part of the old graph that it was compiled from."""

    def __init__(self, compiled: CompiledModel, graph: bytes, pair: GraphPair) -> None:
        self.compiled = compiled
        self._data = compiled.source_part(graph)
        self._is_whole = self._data == graph
        self.part = parse_model(self._data).subgraphs[0]
        counts = [(len(each.inputs), len(each.outputs)) for each in (compiled, self.part)]
        if counts[0] != counts[1]:
            ours, theirs = (f"{inputs} inputs and {outputs} outputs" for inputs, outputs in counts)
            raise ModelUnsupportedError(
                f"expected the graph that '{compiled.name}' was compiled from; its part for the Edge TPU has "
                f"{ours}, that of the graph {theirs}"
            )
        by_outputs = {operator.outputs: index for index, operator in enumerate(pair.old.operators)}
        self.operators = tuple(by_outputs[operator.outputs] for operator in self.part.operators)
        """Indices in the whole graph of the operators that the chip runs, in the order of the part."""
        self.located = locate_sections(compiled, graph)

    def tensors(self) -> Iterator[tuple[int, Layer]]:
        """The inputs and outputs of the part as tensors of the old graph, each with its layer."""
        yield from zip(self.part.inputs, self.compiled.input_layers, strict=False)
        yield from zip(self.part.outputs, self.compiled.output_layers, strict=False)

    def explain(self, pair: GraphPair, new_graph: bytes) -> _ExplainedSource:
        """Compare the part's program with a new graph."""
        return _ExplainedSource(self, pair, self._own_pair(pair, new_graph))

    def _own_pair(self, pair: GraphPair, new_graph: bytes) -> GraphPair:
        """The two graphs of the part, old and new."""
        if self._is_whole:
            return pair
        ends = [[pair.tensors[index] for index in each] for each in (self.part.inputs, self.part.outputs)]
        return pair_graphs(self._data, extract_between(new_graph, pair.new, *ends))


class _ExplainedSource:
    """A part for the Edge TPU compared with a new graph: the operator that each operation belongs to."""

    def __init__(self, source: _Source, pair: GraphPair, own_pair: GraphPair) -> None:
        """pair: the whole graphs. own_pair: the graphs of the part."""
        self._source, self._pair, self._own_pair = source, pair, own_pair
        self._program = ProgramExplanation(source.compiled, source.located, own_pair)
        self._zero_points = ZeroPointOperations(self._program)

    def with_zero_points(self) -> Iterator[int]:
        """Indices in the whole graph of the operators whose zero points were found."""
        for index in self._zero_points.operators:
            yield self._source.operators[index]

    def change(self) -> PartChange:
        """The changes to the part."""
        compiled, located = self._source.compiled, self._source.located
        program = rewrite_program(self._program, self._zero_points)
        placed = {each.section.operator for each in located.placed}
        _check_found(compiled, program, self._own_pair, placed)
        parameters = rewrite_parameters(compiled, located, self._own_pair)
        layers: dict[str, Tensor] = {}
        for index, layer in self._source.tensors():
            old, new = self._pair.old.tensors[index], self._pair.new.tensors[self._pair.tensors[index]]
            if old.name == new.name and not self._pair.is_requantised(index):
                continue
            layers[layer.name] = new if layer.name == old.name else replace(new, name=layer.name)
        return PartChange(compiled, parameters, program.bitstreams, layers)


class _Container:
    """The .tflite file around the parts: its tensors, and the operators that the CPU runs."""

    def __init__(self, data: bytes, pair: GraphPair, sources: Sequence[_Source]) -> None:
        self._graph = parse_model(data).subgraphs[0]
        self._pair = pair
        self._tensors = {
            index: ours
            for index, ours in match_tensors(self._graph, pair.old).items()
            if self._graph.tensors[index].shape == pair.old.tensors[ours].shape
        }
        """The tensor of the old graph that each tensor of the file represents."""
        for source in sources:
            operator = self._graph.operators[source.compiled.operator]
            self._tensors |= zip(operator.inputs, source.part.inputs, strict=True)
            self._tensors |= zip(operator.outputs, source.part.outputs, strict=True)

    def changes(self) -> dict[int, TensorChange]:
        """The changes to the tensors; ModelUnsupportedError if a constant that differs was not found."""
        changes = {}
        for index, ours in self._tensors.items():
            theirs = self._pair.tensors.get(ours)
            if theirs is None:
                continue
            present, old, new = (
                self._graph.tensors[index],
                self._pair.old.tensors[ours],
                self._pair.new.tensors[theirs],
            )
            changes[index] = TensorChange(
                name=new.name if present.name == old.name else None,
                quantization=new.quantization if self._pair.is_requantised(ours) else None,
                data=new.data if present.data and present.data != new.data else None,
            )
        found = {ours for index, ours in self._tensors.items() if self._graph.tensors[index].data}
        for index, operator in enumerate(self._graph.operators):
            if operator.custom_code == EDGETPU_CUSTOM_OP:
                continue
            unknown = [
                each
                for each in operator.inputs
                if each != ABSENT and self._graph.tensors[each].data and each not in self._tensors
            ]
            if unknown and _constants_differ(self._pair, found):
                raise ModelUnsupportedError(
                    f"operator {index} of the compiled file, {operator.name}, has constants that are not in "
                    "its graph"
                )
        return changes

    def options(self) -> dict[int, bytes]:
        """The custom options that differ, of operators on the CPU."""
        by_outputs = {operator.outputs: index for index, operator in enumerate(self._pair.old.operators)}
        options = {}
        for index, operator in enumerate(self._graph.operators):
            outputs = tuple(self._tensors.get(each, ABSENT) for each in operator.outputs)
            ours = by_outputs.get(outputs)
            if operator.custom_code != EDGETPU_CUSTOM_OP and ours is not None:
                old, new = (
                    bytes(graph.operators[ours].custom_options) for graph in (self._pair.old, self._pair.new)
                )
                if new != old:
                    options[index] = new
        return options


def _constants_differ(pair: GraphPair, found: set[int]) -> bool:
    """Whether the graphs differ in constants that were not found."""
    return any(
        pair.old.tensors[ours].data != pair.new.tensors[theirs].data
        for ours, theirs in pair.tensors.items()
        if ours not in found
    )


def _changed_operators(pair: GraphPair) -> Iterator[int]:
    """The operators with an operand, a weight or a result that differs."""
    for index, operator in enumerate(pair.old.operators):
        if _is_requantised(pair, index) or any(
            each != ABSENT and pair.old.tensors[each].data != pair.new.tensors[pair.tensors[each]].data
            for each in operator.inputs
        ):
            yield index


def _is_requantised(pair: GraphPair, index: int) -> bool:
    """Whether the scale or zero point of an operand or the result of an operator changes, biases excepted."""
    operator = pair.old.operators[index]
    biases = weight_operands(operator)[1:]
    operands = [
        each for each in (*operator.inputs, *operator.outputs) if each != ABSENT and each not in biases
    ]
    return any(pair.is_requantised(each) for each in operands)


def _check_found(
    compiled: CompiledModel, program: RewrittenProgram, pair: GraphPair, placed: set[int]
) -> None:
    """Raise ModelUnsupportedError for changes to operations that are not understood, or constants not found.

    placed: the operators whose constants were found in the parameters.
    """
    changed = False
    for index in range(len(pair.old.operators)):
        if index not in placed and _has_other_constant(pair, index):
            raise pair.refusal(index, "it has another constant, which is not found in the parameters")
        if not _is_requantised(pair, index):
            continue
        changed = True
        obstacle = _obstacle(pair, index, index in program.operators)
        if obstacle is not None:
            raise pair.refusal(index, obstacle)
    if changed and program.obstacle:
        raise ModelUnsupportedError(
            f"the program of '{compiled.name}' cannot be read to its end: {program.obstacle}"
        )


def _has_other_constant(pair: GraphPair, index: int) -> bool:
    """Whether a constant of an operator differs, weights and bias excepted."""
    operator = pair.old.operators[index]
    excepted = (ABSENT, *weight_operands(operator))
    return any(
        pair.old.tensors[each].data != pair.new.tensors[pair.tensors[each]].data
        for each in operator.inputs
        if each not in excepted
    )


def _obstacle(pair: GraphPair, index: int, is_found: bool) -> str | None:
    """The reason why an operator cannot be requantised; None if it can.

    is_found: whether its operations were found in the program.
    """
    operator = pair.old.operators[index]
    moves_only = all(_moves_only(pair, each, index) for each in (False, True))
    if operator.name in MOVING and moves_only:
        return None
    if operator.name in CHOOSING and not moves_only:
        return "its inputs and its output have different scales or zero points"
    if operator.name in _OF_ONE_SCALE and pair.is_requantised(operator.outputs[0]):
        return "its output has another scale or zero point"
    if operator.name not in RULES:
        return "where its program keeps its scales is not known"
    return None if is_found else "its operations are not found in the program"


def _moves_only(pair: GraphPair, new: bool, index: int) -> bool:
    """Whether the inputs and outputs of an operator all have the same quantisation."""
    graph: Subgraph = pair.new if new else pair.old
    operator = graph.operators[index]
    operands = [graph.tensors[each] for each in (*operator.inputs, *operator.outputs) if each != ABSENT]
    return len({chip_quantisation(each) for each in operands if chip_quantisation(each) is not None}) <= 1
