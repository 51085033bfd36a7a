"""Pipelines for the virtual stick: a graph cut into segments of about equal work, each packed as a model.

Google's compiler cuts graphs in the same way. As there, the segments share a caching token and begin at the
same place in the chip's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import prod

from edgetpu_driver.compiled_model import caching_token
from edgetpu_driver.tflite.model_reader import Subgraph, parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.virtual.simulated_timing import SUPER_SPEED, compute_cycles, compute_seconds


def cut_into_segments(graph: bytes, count: int) -> list[bytes]:
    """Cut a graph where a single tensor passes on, so that the slowest segment takes the least time."""
    subgraph = parse_model(graph).subgraphs[0]
    places = [0, *_passages(subgraph), len(subgraph.operators)]
    times = [_seconds(subgraph, *each) for each in pairwise(places)]

    def longest(chosen: Sequence[int]) -> float:
        bounds = pairwise((0, *chosen, len(times)))
        return max(
            sum(times[first:last]) + _transfer(subgraph, places[first]) + _transfer(subgraph, places[last])
            for first, last in bounds
        )

    chosen = min(combinations(range(1, len(times)), count - 1), key=longest)
    names = [_passing(subgraph, places[each]) for each in (0, *chosen, len(times))]
    return [extract(graph, sources, results) for sources, results in pairwise(names)]


def compile_pipeline(graph: bytes, count: int, name: str) -> dict[str, bytes]:
    """The segments of a graph, packed for the virtual stick, by file name and in order."""
    token = caching_token(graph)
    stems = [f"{name}_segment_{number}_of_{count}" for number in range(count)]
    segments = zip(stems, cut_into_segments(graph, count), strict=True)
    return {f"{stem}_edgetpu.tflite": pack(each, name=stem, token=token) for stem, each in segments}


def _passages(graph: Subgraph) -> list[int]:
    """Numbers of the operators before which a single tensor is all that passes on."""
    return [place for place in range(1, len(graph.operators)) if len(_passing(graph, place)) == 1]


def _passing(graph: Subgraph, place: int) -> list[str]:
    """Names of the tensors that pass from the operators before a place to those after it."""
    if place == 0:
        return [spec.name for spec in graph.input_specs]
    if place == len(graph.operators):
        return [spec.name for spec in graph.output_specs]
    made = {index for operator in graph.operators[:place] for index in operator.outputs}
    made |= set(graph.inputs)
    used = {index for operator in graph.operators[place:] for index in operator.inputs} | set(graph.outputs)
    return [graph.tensors[index].name for index in sorted(made & used)]


def _transfer(graph: Subgraph, place: int) -> float:
    """Time to transfer the tensors that pass at a place, s."""
    names = set(_passing(graph, place))
    return sum(SUPER_SPEED.bulk(prod(tensor.shape)) for tensor in graph.tensors if tensor.name in names)


def _seconds(graph: Subgraph, first: int, last: int) -> float:
    """Time that the chip takes for the operators from `first` to `last`, s."""
    operators = graph.operators[first:last]
    return compute_seconds(compute_cycles(replace(graph, operators=operators)), 1)
