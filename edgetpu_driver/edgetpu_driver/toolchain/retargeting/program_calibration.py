"""Reads the scales and zero points of layers from a program that was compiled from another calibration.

For its inputs and outputs they are in the file itself (`CompiledModel.calibrated`). For inner layers they are
read from the operations: the zero point is stored as such, the scale is part of the multiplier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import replace

import numpy as np

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.tflite.model_reader import Subgraph, parse_model, per_tensor
from edgetpu_driver.tflite.shared_quantisation import ChipQuantisation, chip_quantisation, with_quantisation
from edgetpu_driver.toolchain.retargeting.graph_pairs import GraphPair, pair_graphs
from edgetpu_driver.toolchain.retargeting.operator_requantisation import LAYER, has_own_multipliers, steps_of
from edgetpu_driver.toolchain.retargeting.program_explanation import ProgramExplanation
from edgetpu_driver.weights.section_search import locate_sections

_NEIGHBOURS = 4
"""Number of neighbouring float32 scales, on either side of the quotient, that may round to the same
multiplier."""


def calibrated(compiled: CompiledModel, graph: bytes) -> bytes:
    """The whole graph with the scales and zero points that a part for the Edge TPU was compiled with.

    Looks into the program only if inputs or outputs differ from the graph's. Layers with a multiplier for
    every channel keep the graph's quantisation. Raises what `CompiledModel.calibrated` raises.
    """
    own_graph = compiled.calibrated(graph)
    if own_graph == graph:
        return graph
    known: set[int] = set()
    while (layer := _first_layer(compiled, own_graph, known)) is not None:
        tensor, quantisation = layer
        known.add(tensor)
        part = parse_model(compiled.source_part(own_graph)).subgraphs[0]
        kept = {
            index: chip_quantisation(part.tensors[index]) for index in (*known, *part.inputs, *part.outputs)
        }
        steps = {index: own for index, own in kept.items() if own is not None}
        own_graph = with_quantisation(own_graph, steps | {tensor: quantisation})
    return own_graph


def _first_layer(
    compiled: CompiledModel, graph: bytes, known: Container[int]
) -> tuple[int, ChipQuantisation] | None:
    """The first layer whose operations differ from the graph: its result, and the quantisation of that.

    known: tensors to leave out. None if there is no such layer.
    """
    part = compiled.source_part(graph)
    pair = pair_graphs(part, part)
    program = ProgramExplanation(compiled, locate_sections(compiled, graph), pair)
    wanted: dict[int, set[Requantisation]] = defaultdict(set)
    for requantisation, owner in program.unexplained:
        if owner is not None:
            wanted[owner].add(requantisation)
    others = {requantisation for requantisation, _ in program.unexplained}
    for owner in sorted(wanted):
        operator, fields = pair.old.operators[owner], wanted[owner]
        (result,) = operator.outputs[:1]
        if result in known or len(fields) > 1 or has_own_multipliers(pair.old.tensors[operator.inputs[1]]):
            continue
        possible = list(_results(pair, owner, fields.pop()))
        if possible:
            return result, max(possible, key=lambda each: _explains(pair, result, each, others))
    return None


def _results(pair: GraphPair, owner: int, fields: Requantisation) -> Iterator[ChipQuantisation]:
    """The quantisations of a layer's result that give these fields, the most likely first."""
    operator = pair.old.operators[owner]
    source, weights = (pair.old.tensors[each].spec.scale for each in operator.inputs[:2])
    if not fields.multiplier > 0:
        return
    scale = np.float32(np.float32(source) * np.float32(weights) / np.float32(fields.multiplier))
    scales = [scale]
    for direction in (np.float32(0), np.float32(np.inf)):
        each = scale
        for _ in range(_NEIGHBOURS):
            each = np.nextafter(each, direction)
            scales.append(each)
    for each in scales:
        result = ChipQuantisation(float(each), fields.output_zero_point)
        changed = _with_result(pair.old, operator.outputs[0], result)
        steps = steps_of(changed, pair.options, owner, has_section=True)
        if any(step.role == LAYER and step.requantisation == fields for step in steps):
            yield result


def _explains(
    pair: GraphPair, tensor: int, quantisation: ChipQuantisation, fields: set[Requantisation]
) -> int:
    """How many steps of the operators that read a tensor have these fields if it has this quantisation."""
    changed = _with_result(pair.old, tensor, quantisation)
    users = [index for index, each in enumerate(changed.operators) if tensor in each.inputs]
    steps = (step for index in users for step in steps_of(changed, pair.options, index))
    return sum(step.requantisation in fields for step in steps)


def _with_result(graph: Subgraph, tensor: int, quantisation: ChipQuantisation) -> Subgraph:
    before = graph.tensors[tensor]
    own = chip_quantisation(before)
    shift = 0 if own is None else own.zero_point - int(before.quantization.zero_points[0])
    after = replace(before, quantization=per_tensor(quantisation.scale, quantisation.zero_point - shift))
    return replace(graph, tensors=(*graph.tensors[:tensor], after, *graph.tensors[tensor + 1 :]))
