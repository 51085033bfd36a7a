"""The layers of a graph for which edgetpu_compiler writes a section of parameters, and the bytes of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.depthwise_layout import depthwise_layout
from edgetpu_driver.darwinn.parameters.layer_layout import (
    GroupedLayout,
    HeaderRows,
    LayerLayout,
    convolution_layout,
    matrix_layout,
)
from edgetpu_driver.darwinn.parameters.section_codec import ALIGNMENT, ZERO_WEIGHT, aligned
from edgetpu_driver.darwinn.parameters.softmax_layout import SoftmaxLayout
from edgetpu_driver.darwinn.requantisation import multipliers
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import ABSENT, Operator, Subgraph, Tensor
from edgetpu_driver.tflite.weighted_operators import WEIGHTED, constant_bias

_ELEMENTWISE = ("ADD", "SUB", "MUL")
_CHANNEL_AXIS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
_RANK = {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 4, "FULLY_CONNECTED": 2}

_FACTORS_IN_ROW = 4
"""Factors in a row of a constant that multiplies every channel by its own factor."""

_MOST_BYTES = 1 << 28
"""Most bytes of all sections, far more than can be sent to a stick: operators may share constants, so that a
small file could describe any number of sections."""
_MOST_SOFTMAX_VALUES = 1 << 16
"""Most values of a SOFTMAX with a section: a larger one is over the pixels of an image and has none."""


@dataclass(frozen=True, eq=False)
class LayerSection:
    """The section of the parameters that belongs to one operator of a graph, as the compiler writes it."""

    operator: int
    """Index in the graph."""
    kind: str
    """The operator's name."""
    name: str
    """Name of the weight tensor or constant; for a SOFTMAX, of its output."""
    layout: LayerLayout | SoftmaxLayout | None
    """None for a constant that an operator adds or multiplies by."""
    data: NDArray[np.uint8]
    """The bytes of the section with the graph's values."""
    tensor: int = ABSENT
    """Index of the weight tensor; -1 for a SOFTMAX or a constant."""
    bias: int = ABSENT
    """Index of the bias tensor; -1 if the section holds none."""

    @property
    def weight_layout(self) -> LayerLayout:
        """The layout of an operator that has weights."""
        assert isinstance(self.layout, LayerLayout)
        return self.layout


@dataclass(frozen=True)
class UnknownLayer:
    """An operator with weights whose layout is not known, or whose weights are not found."""

    operator: int
    name: str
    reason: str
    is_absent: bool = False
    """Whether the layout is known, and the parameters of the file do not contain the weights in it."""


def encode_network(graph: Subgraph) -> tuple[list[LayerSection], list[UnknownLayer]]:
    """The sections of a graph's operators in the parameters, and the layers without a known layout.

    Sections belong to every CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED and SOFTMAX, in the order of the
    graph; then to constants of ADD, SUB and MUL with a value for every pixel of one channel, and of MUL with
    a value for every channel.

    Sections are complete: header rows, weights, padding; the byte values are those of edgetpu_compiler 16.
    Their order in a blob is not promised; at branches it differs from the graph's. Only a compiled file shows
    whether a SOFTMAX or a constant has a section, or whether the CPU runs an operator, see `locate_sections`.
    Layers without a known layout do not raise: each is returned with the reason.
    """
    sections: list[LayerSection] = []
    unknown: list[UnknownLayer] = []
    size = 0
    for index, operator in enumerate(graph.operators):
        if not operator.outputs or ABSENT in operator.inputs[:1] or not operator.inputs:
            continue  # of a damaged graph
        try:
            section = _section(graph, index, _MOST_BYTES - size)
        except ModelUnsupportedError as error:
            unknown.append(UnknownLayer(index, _name(graph, operator), str(error)))
            continue
        if section is not None:
            sections.append(section)
            size += section.data.size
    constants = (_constant(graph, index) for index in range(len(graph.operators)))
    return [*sections, *(each for each in constants if each)], unknown


def _section(graph: Subgraph, index: int, room: int) -> LayerSection | None:
    """The section of an operator; None if it has none. ModelUnsupportedError if its layout is not known.

    room: bytes that are left for sections.
    """
    operator = graph.operators[index]
    if operator.name in WEIGHTED and room > 0:
        return _weighted(graph, index)
    if operator.name in WEIGHTED:
        raise ModelUnsupportedError(f"expected parameters of at most {_MOST_BYTES} bytes")
    if operator.name != "SOFTMAX" or room <= 0:
        return None
    if graph.tensors[operator.inputs[0]].shape[-1:] > (_MOST_SOFTMAX_VALUES,):
        return None
    return _softmax(graph, index, last_row=True)


def without_last_row(graph: Subgraph, section: LayerSection) -> LayerSection:
    """The section of a SOFTMAX in its other form."""
    return _softmax(graph, section.operator, last_row=False)


def with_inputs_first(section: LayerSection) -> LayerSection | None:
    """The section of a convolution in the other order of cells; None if it has only one order."""
    layout = section.layout.with_inputs_first() if isinstance(section.layout, GroupedLayout) else None
    if layout is None:
        return None
    data = section.data.copy()
    layout.encode(section.weight_layout.decode(section.data), data)
    return replace(section, layout=layout, data=data)


def encode_layer(
    section: LayerSection,
    weights: NDArray[Any],
    bias: NDArray[np.int32] | None,
    of_channels: NDArray[np.float32] | None,
) -> NDArray[np.uint8]:
    """The bytes of a layer with other values.

    weights: of the layout's shape and dtype. bias: int32[channels]. of_channels: the multipliers,
    float32[channels]. bias and of_channels are None if the layout has no row for them. InputError for
    anything else.
    """
    layout = section.weight_layout
    data = np.zeros(layout.size, np.uint8)
    layout.encode_header(data, bias=bias, multipliers=of_channels)
    layout.encode(weights, data)
    return data


def _softmax(graph: Subgraph, index: int, *, last_row: bool) -> LayerSection:
    operator = graph.operators[index]
    source, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    layout = SoftmaxLayout(source.shape[-1] if source.shape else 1, last_row=last_row)
    data = np.zeros(layout.size, np.uint8)
    layout.encode(source.spec.scale, data)
    return LayerSection(index, operator.name, result.name, layout, data)


def _constant(graph: Subgraph, index: int) -> LayerSection | None:
    """The section of a constant that an operator combines with its input; None if it has none."""
    operator = graph.operators[index]
    for tensor in operator.inputs if operator.name in _ELEMENTWISE else ():
        constant = graph.tensors[tensor]
        if not constant.data or constant.dtype != np.int8:
            continue
        data = _of_channels(graph, operator) if operator.name == "MUL" else None
        data = _of_pixels(constant) if data is None else data
        if data is not None:
            return LayerSection(index, operator.name, constant.name, None, data)
    return None


def _of_pixels(constant: Tensor) -> NDArray[np.uint8] | None:
    """The bytes of a constant with a value for every pixel of one channel; None for other constants."""
    if constant.shape[-1:] != (1,) or len(constant.data) < ALIGNMENT:
        return None
    data = np.zeros(aligned(len(constant.data)), np.uint8)
    data[: len(constant.data)] = np.frombuffer(constant.data, np.uint8) ^ ZERO_WEIGHT
    return data


def multiplies_channels(graph: Subgraph, operator: Operator) -> bool:
    """Whether a MUL has a constant factor of 8 bits for every channel."""
    if len(operator.inputs) != 2 or ABSENT in operator.inputs or len(operator.outputs) != 1:
        return False  # of a damaged graph
    source, factors = (graph.tensors[each] for each in operator.inputs)
    channels = len(factors.data)
    return not source.data and (source.shape[-1:], factors.shape[-1:]) == ((channels,), (channels,))


def _of_channels(graph: Subgraph, operator: Operator) -> NDArray[np.uint8] | None:
    """The bytes of a factor for every channel, as in a PReLU: each row holds the multipliers of four."""
    if not multiplies_channels(graph, operator):
        return None
    source, factors, result = (graph.tensors[each] for each in (*operator.inputs, *operator.outputs))
    channels = len(factors.data)
    if not (source.spec.scale > 0 and result.spec.scale > 0 and factors.quantization.scales.size == 1):
        return None
    with np.errstate(over="ignore"):
        values = multipliers(
            source.spec.scale,
            factors.spec.dequantise(np.frombuffer(factors.data, np.int8)),
            result.spec.scale,
        )
    rows = np.zeros((-(-channels // _FACTORS_IN_ROW), ALIGNMENT // 4), "<f4")
    rows[:, :_FACTORS_IN_ROW].flat[:channels] = values
    return rows.view(np.uint8).reshape(-1)


def with_channel_blocks(graph: Subgraph, section: LayerSection) -> LayerSection | None:
    """The section of a layer whose channels a RESHAPE splits into blocks; None if none does."""
    layout = section.layout
    if not isinstance(layout, GroupedLayout):
        return None
    (result,) = graph.operators[section.operator].outputs[:1]
    for reshape in graph.operators:
        if reshape.name == "RESHAPE" and reshape.inputs[:1] == (result,):
            block = (graph.tensors[reshape.outputs[0]].shape or (0,))[-1]
            other = layout.with_blocks(block)
            if other is not None:
                bias = layout.decode_bias(section.data) if layout.header.bias else None
                of_channels = layout.decode_multipliers(section.data) if layout.header.multipliers else None
                section = replace(section, layout=other)
                weights = layout.decode(section.data)
                return replace(section, data=encode_layer(section, weights, bias, of_channels))
    return None


def with_zero_bias(graph: Subgraph, section: LayerSection) -> LayerSection | None:
    """The section of a layer with a row for its bias even though the bias is zero; None if it has no bias."""
    if section.tensor == ABSENT or section.bias != ABSENT:
        return None
    other = _weighted(graph, section.operator, keep_zero_bias=True)
    return other if other.bias != ABSENT else None


def _weighted(graph: Subgraph, index: int, *, keep_zero_bias: bool = False) -> LayerSection:
    operator = graph.operators[index]
    weights = _weights(graph, operator)
    source, result = (graph.tensors[each].spec for each in (operator.inputs[0], operator.outputs[0]))
    if not (source.scale > 0 and result.scale > 0):
        raise ModelUnsupportedError(
            f"expected a quantised input and output; got {source.with_quantisation} and "
            f"{result.with_quantisation}"
        )
    own = weights.quantization.scales
    bias = constant_bias(graph, operator, weights.shape[_CHANNEL_AXIS[operator.name]])
    has_bias = bias is not None and (keep_zero_bias or bool(bias.any()))
    header = HeaderRows(multipliers=bool(np.any(own != own[0])), bias=has_bias, zero_points=own.size > 1)
    layout = _layout(operator, weights, header, graph.tensors[operator.inputs[0]].shape)
    section = LayerSection(
        index,
        operator.name,
        weights.name,
        layout,
        np.empty(0, np.uint8),
        operator.inputs[1],
        operator.inputs[2] if has_bias else ABSENT,
    )
    with np.errstate(over="ignore"):
        of_channels = multipliers(source.scale, own, result.scale) if header.multipliers else None
    values = np.frombuffer(weights.data, weights.dtype).reshape(weights.shape)
    data = encode_layer(section, values, bias if has_bias else None, of_channels)
    return replace(section, data=data)


def _layout(operator: Operator, weights: Tensor, header: HeaderRows, source: tuple[int, ...]) -> LayerLayout:
    dtype: Any = weights.dtype.type
    zero_point = int(weights.quantization.zero_points[0])
    if operator.name == "DEPTHWISE_CONV_2D":
        inputs = source[-1] if source else 0
        return depthwise_layout(weights.shape, inputs, header, dtype=dtype, zero_point=zero_point)
    layout = matrix_layout if operator.name == "FULLY_CONNECTED" else convolution_layout
    return layout(weights.shape, header, dtype=dtype, zero_point=zero_point)


def _weights(graph: Subgraph, operator: Operator) -> Tensor:
    """The constant weights of an operator; ModelUnsupportedError for a quantisation that is not known."""
    if len(operator.inputs) < 2 or operator.inputs[1] == ABSENT:
        raise ModelUnsupportedError(f"expected weights; got {operator.name} without any")
    weights = graph.tensors[operator.inputs[1]]
    quantisation = weights.quantization
    zero_points, axis = quantisation.zero_points, _CHANNEL_AXIS[operator.name]
    if weights.dtype not in (np.int8, np.uint8) or not weights.data:
        raise _other_weights(weights, "constant weights of 8 bits")
    if len(weights.shape) != _RANK[operator.name]:
        raise _other_weights(weights, f"weights of {_RANK[operator.name]} dimensions")
    if quantisation.scales.size not in (1, weights.shape[axis]) or np.any(quantisation.scales <= 0):
        raise _other_weights(weights, "one scale, or one for every output channel")
    if quantisation.scales.size > 1 and (quantisation.axis != axis or weights.dtype == np.uint8):
        raise _other_weights(weights, f"scales along dimension {axis}, of int8")
    if weights.dtype == np.int8 and np.any(zero_points):
        raise _other_weights(weights, "int8 weights of zero point 0")
    return weights


def _other_weights(weights: Tensor, expected: str) -> ModelUnsupportedError:
    return ModelUnsupportedError(f"expected {expected}; got {weights.spec}")


def _name(graph: Subgraph, operator: Operator) -> str:
    index = operator.inputs[1] if len(operator.inputs) > 1 else ABSENT
    return graph.tensors[operator.outputs[0] if index == ABSENT else index].name
