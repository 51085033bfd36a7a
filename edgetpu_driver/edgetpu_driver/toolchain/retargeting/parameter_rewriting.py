"""Writes the values of another graph into the parameters of a compiled file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel, Parameters
from edgetpu_driver.darwinn.parameters.layer_layout import LayerLayout
from edgetpu_driver.darwinn.requantisation import multipliers
from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.tflite.model_reader import ABSENT, Operator, Subgraph
from edgetpu_driver.toolchain.retargeting.graph_pairs import GraphPair, weight_operands
from edgetpu_driver.toolchain.retargeting.operator_requantisation import has_own_multipliers
from edgetpu_driver.weights.network_layers import LayerSection, encode_network, without_last_row
from edgetpu_driver.weights.section_search import NetworkSections, PlacedSection


def rewrite_parameters(compiled: CompiledModel, located: NetworkSections, pair: GraphPair) -> Parameters:
    """The parameter bytes with the sections of the new graph in place of those of the old one.

    located: of the old graph. pair: of the parts of the graphs that the chip runs. ModelUnsupportedError,
    which names the layer, if the section of a layer that differs was not found or cannot hold the new values.
    """
    blobs = [each.copy() for each in compiled.parameters.arrays]
    wanted, former = (_sections(graph) for graph in (pair.new, pair.old))
    for placed in located.placed:
        operator = placed.section.operator
        new = wanted.get(operator)
        if new is None:
            raise pair.refusal(operator, "its new weights have no known layout")
        if new.kind == "SOFTMAX" and new.data.size != placed.size:
            new = without_last_row(pair.new, new)
        if not _differs(pair, operator, former, new):
            continue
        if placed.ambiguous or placed.own_scales:
            reason = "another layer has the same parameters" if placed.ambiguous else "it has other scales"
            raise pair.refusal(operator, f"in the compiled file {reason}")
        placed.of(blobs[placed.streamed])[...] = _encoded(pair, placed, new)
    for layer in located.missing:
        if any(_is_changed(pair, index) for index in weight_operands(pair.old.operators[layer.operator])):
            raise pair.refusal(layer.operator, layer.reason)
    return Parameters(blobs[False].tobytes(), blobs[True].tobytes())


def _sections(graph: Subgraph) -> dict[int, LayerSection]:
    sections, _ = encode_network(graph)
    return {each.operator: each for each in sections}


def _differs(pair: GraphPair, operator: int, former: Mapping[int, LayerSection], new: LayerSection) -> bool:
    if new.kind == "SOFTMAX":
        return pair.is_requantised(pair.old.operators[operator].inputs[0])
    old = former.get(operator)
    return old is None or not np.array_equal(old.data, new.data)


def _encoded(pair: GraphPair, placed: PlacedSection, new: LayerSection) -> NDArray[np.uint8]:
    """The section with the new values, in the rows and the order of the section in the file."""
    layout = placed.section.layout
    if not isinstance(layout, LayerLayout) or not isinstance(new.layout, LayerLayout):
        return new.data
    same_form = all(
        getattr(layout, each) == getattr(new.layout, each) for each in ("header", "inputs_first", "block")
    )
    if same_form or new.tensor == ABSENT:
        return new.data
    number = placed.section.operator
    operator = pair.new.operators[number]
    weights = pair.new.tensors[operator.inputs[1]]
    if new.layout.header.bias and not layout.header.bias:
        raise pair.refusal(number, "it was compiled without a bias, and has no space for one")
    if has_own_multipliers(weights) and not layout.header.multipliers:
        reason = "it was compiled with one scale for all channels, and has no space for several"
        raise pair.refusal(number, reason)
    section = np.zeros(layout.size, np.uint8)
    try:
        layout.encode_header(
            section,
            bias=_bias(pair.new, operator, layout.channels) if layout.header.bias else None,
            multipliers=_multipliers(pair.new, operator, layout.channels)
            if layout.header.multipliers
            else None,
        )
        layout.encode(np.frombuffer(weights.data, weights.dtype).reshape(weights.shape), section)
    except EdgeTpuError as error:
        raise pair.refusal(number, str(error)) from None
    return section


def _bias(graph: Subgraph, operator: Operator, channels: int) -> NDArray[np.int32]:
    """The bias of a layer, [channels]; zeros if it has none."""
    index = operator.inputs[2] if len(operator.inputs) > 2 else ABSENT
    if index == ABSENT:
        return np.zeros(channels, np.int32)
    return np.frombuffer(graph.tensors[index].data, np.int32)


def _multipliers(graph: Subgraph, operator: Operator, channels: int) -> NDArray[np.float32]:
    """The factors from sums to output steps, [channels]."""
    source, weights, result = (
        graph.tensors[index] for index in (operator.inputs[0], operator.inputs[1], operator.outputs[0])
    )
    scales = np.broadcast_to(weights.quantization.scales, channels)
    return multipliers(source.spec.scale, scales, result.spec.scale)


def _is_changed(pair: GraphPair, index: int) -> bool:
    if index == ABSENT:
        return False
    return pair.is_requantised(index) or (
        pair.old.tensors[index].data != pair.new.tensors[pair.tensors[index]].data
    )
