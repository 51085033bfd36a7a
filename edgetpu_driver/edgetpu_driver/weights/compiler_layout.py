"""The parameter layouts that edgetpu_compiler gives to graphs of known structure.

Only layouts that were verified on real compiler output are known: Dense, the spot and colour trackers,
looming and Gabor flow, each for the verified image sizes. Any other graph is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import DENSE_COMPILER, CompiledModel, Parameters
from edgetpu_driver.darwinn.chip_geometry import CELLS, TILES
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.darwinn.parameters.depthwise_layout import depthwise_layout
from edgetpu_driver.darwinn.parameters.layer_layout import (
    HeaderRows,
    LayerLayout,
    convolution_layout,
    matrix_layout,
)
from edgetpu_driver.darwinn.parameters.routing_layout import RoutingLayout
from edgetpu_driver.darwinn.requantisation import multipliers
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import ABSENT, Model, Operator, Subgraph, Tensor
from edgetpu_driver.weights.dense_program_plan import plan_dense_program
from edgetpu_driver.weights.parameter_layout import LayerWeights, ParameterLayout, Part

_GRAPH_INPUT = -1
"""Marks a graph's input, in place of the index of the operator that produces a tensor."""
_STREAMED_SIDE = 128  # smallest image side whose coordinate rows are sent with every inference


def parameter_layout(model: Model) -> ParameterLayout:
    """The layout that edgetpu_compiler 16 gives to the parameters of a graph, with the graph's weights.

    ModelUnsupportedError, with the reason, if the layout of this graph is not known.
    """
    graph = model.subgraphs[0]
    recognised = _STRUCTURES.get(_structure(graph))
    if recognised is None or len(graph.inputs) != 1:
        names = ", ".join(operator.name for operator in graph.operators)
        raise ModelUnsupportedError(f"the parameter layout of a graph of {names or 'nothing'} is not known")
    return recognised(graph)


def layout_in(compiled: CompiledModel, graph: Model) -> ParameterLayout:
    """The layout of a compiled model's parameters, with the weights of the graph it was compiled from.

    Raises ModelUnsupportedError like `parameter_layout`.
    """
    if compiled.compiler == DENSE_COMPILER:
        return plan_dense_program(graph).layout
    return parameter_layout(graph)


def encode_parameters(model: Model) -> Parameters:
    """The parameter bytes that edgetpu_compiler 16 writes for a graph; raises like `parameter_layout`."""
    return parameter_layout(model).encode()


def decode_parameters(model: Model, parameters: Parameters) -> ParameterLayout:
    """The weights in the parameters of a model compiled from a graph of this structure and size.

    Raises ModelUnsupportedError like `parameter_layout`; ModelFormatError if the bytes do not fit the layout.
    """
    return parameter_layout(model).decode(parameters)


Structure = tuple[tuple[str, tuple[int, ...]], ...]


def _structure(graph: Subgraph) -> Structure:
    """Each operator's name and the positions of the operators that produce its inputs, without constants."""
    producers = dict.fromkeys(graph.inputs, _GRAPH_INPUT)
    structure = []
    for position, operator in enumerate(graph.operators):
        operands = tuple(producers[index] for index in operator.inputs if index in producers)
        structure.append((operator.name, operands))
        producers.update(dict.fromkeys(operator.outputs, position))
    return tuple(structure)


def _dense(graph: Subgraph) -> ParameterLayout:
    operator = graph.operators[1]
    weights = _weights(graph, operator)
    rows, columns = weights.shape if len(weights.shape) == 2 else (0, 0)
    scales = weights.quantization.scales
    if rows != columns or rows % CELLS or not 0 < rows <= TILES * CELLS:
        raise _unknown(operator, weights, "expected a square matrix of 64, 128, .. 1024 rows")
    if scales.size != rows or np.all(scales == scales[0]):
        raise _unknown(operator, weights, "expected a separate scale for every row")
    source, result = graph.tensors[operator.inputs[0]].spec, graph.tensors[operator.outputs[0]].spec
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        of_rows = multipliers(source.scale, scales, result.scale)
    if not np.all(np.isfinite(of_rows)):
        raise _unknown(operator, weights, "expected a quantised input and output")
    return ParameterLayout((_layer(DenseLayout(rows), operator, weights, of_rows),))


def _bright(graph: Subgraph) -> ParameterLayout:
    side = _image_side(graph, (16, 64, 128), channels=1)
    rows = _coordinate_rows(graph, graph.operators[3:5], side)
    if side < _STREAMED_SIDE:
        return ParameterLayout((*rows, RoutingLayout(2)))
    return ParameterLayout((RoutingLayout(2),), rows)


def _colour(graph: Subgraph) -> ParameterLayout:
    operator = graph.operators[1]
    weights = _weights(graph, operator)
    if weights.shape[1:3] != (1, 1):
        reason = "of pattern trackers only the byte offsets of the kernel's weights are known"
        raise _unknown(operator, weights, reason)
    side = _image_side(graph, (64, 128), channels=3)
    mixer = _convolution(graph, operator, convolution_layout((1, 1, 1, 3)), side)
    rows = _coordinate_rows(graph, graph.operators[4:6], side)
    if side < _STREAMED_SIDE:
        return ParameterLayout((mixer, RoutingLayout(TILES), *rows, RoutingLayout(2)))
    return ParameterLayout((mixer, RoutingLayout(TILES), RoutingLayout(2)), rows)


def _looming(graph: Subgraph) -> ParameterLayout:
    side = _image_side(graph, (64, 128), channels=1)
    gradients = (graph.operators[1], graph.operators[3])
    kernels = [
        _convolution(graph, operator, convolution_layout((1, 3, 3, 1)), side) for operator in gradients
    ]
    zones = graph.tensors[graph.operators[6].outputs[0]].shape
    if zones != (1, 3, 3, 1):
        raise ModelUnsupportedError(
            f"the parameter layout of a looming graph with zones {list(zones)} is not known; expected 3x3"
        )
    return ParameterLayout((*kernels, RoutingLayout(9)))


def _gabor(graph: Subgraph) -> ParameterLayout:
    side = _image_side(graph, (64, 128), channels=1)
    kernels = depthwise_layout((1, 7, 7, 8), 1, HeaderRows(zero_points=True))
    return ParameterLayout((_convolution(graph, graph.operators[1], kernels, side),))


def _coordinate_rows(graph: Subgraph, operators: tuple[Operator, ...], side: int) -> tuple[Part, ...]:
    """The rows of x and y coordinates over an image of `side` x `side` px."""
    layout = matrix_layout((1, side * side))
    rows = []
    for operator in operators:
        weights = _weights(graph, operator)
        _check_form(operator, weights, layout)
        rows.append(_layer(layout, operator, weights))
    return tuple(rows)


def _convolution(graph: Subgraph, operator: Operator, layout: LayerLayout, side: int) -> LayerWeights:
    """The kernels of a convolution that keeps the size of the image."""
    weights = _weights(graph, operator)
    _check_form(operator, weights, layout)
    channels = layout.channels
    result = graph.tensors[operator.outputs[0]].shape
    if result != (1, side, side, channels):
        raise _unknown(
            operator, weights, f"expected an output {[1, side, side, channels]}, not {list(result)}"
        )
    return _layer(layout, operator, weights)


def _layer(
    layout: LayerLayout, operator: Operator, weights: Tensor, of_rows: NDArray[np.float32] | None = None
) -> LayerWeights:
    values = np.frombuffer(weights.data, np.int8).reshape(weights.shape)
    return LayerWeights(layout, operator.inputs[1], values, of_rows)


def _weights(graph: Subgraph, operator: Operator) -> Tensor:
    """The constant, symmetric int8 weights of an operator whose bias is absent or all zeros."""
    if len(operator.inputs) < 2 or operator.inputs[1] == ABSENT:
        raise ModelUnsupportedError(f"expected {operator.name} to have weights")
    weights = graph.tensors[operator.inputs[1]]
    quantisation = weights.quantization
    if weights.dtype != np.int8 or not weights.data:
        raise _unknown(operator, weights, "expected constant int8 weights")
    if not quantisation.scales.size or np.any(quantisation.zero_points):
        raise _unknown(operator, weights, "expected quantised weights with zero point 0")
    for index in operator.inputs[2:]:
        if index != ABSENT and (not graph.tensors[index].data or any(graph.tensors[index].data)):
            raise _unknown(operator, weights, "expected no bias other than zero")
    return weights


def _check_form(operator: Operator, weights: Tensor, layout: LayerLayout) -> None:
    scales = weights.quantization.scales
    if weights.shape != layout.shape:
        raise _unknown(operator, weights, f"expected {list(layout.shape)}")
    if np.any(scales != scales[0]):
        raise _unknown(operator, weights, "expected one scale for all weights")


def _image_side(graph: Subgraph, sides: tuple[int, ...], *, channels: int) -> int:
    """The side of the square input image in pixels; ModelUnsupportedError unless it is one of those known."""
    shape = graph.tensors[graph.inputs[0]].shape
    for side in sides:
        if shape == (1, side, side, channels):
            return side
    known = ", ".join(f"{side}x{side}x{channels}" for side in sides)
    raise ModelUnsupportedError(
        f"the parameter layout for an input {list(shape)} is not known; expected {known}"
    )


def _unknown(operator: Operator, weights: Tensor, reason: str) -> ModelUnsupportedError:
    return ModelUnsupportedError(
        f"the parameter layout of {operator.name} with weights {list(weights.shape)} is not known: {reason}"
    )


_START = ("QUANTIZE", (_GRAPH_INPUT,))
_STRUCTURES: dict[Structure, Callable[[Subgraph], ParameterLayout]] = {
    (_START, ("FULLY_CONNECTED", (0,)), ("QUANTIZE", (1,))): _dense,
    (
        _START,
        ("RESHAPE", (0,)),
        ("SOFTMAX", (1,)),
        ("FULLY_CONNECTED", (2,)),
        ("FULLY_CONNECTED", (2,)),
        ("CONCATENATION", (3, 4)),
    ): _bright,
    (
        _START,
        ("CONV_2D", (0,)),
        ("RESHAPE", (1,)),
        ("SOFTMAX", (2,)),
        ("FULLY_CONNECTED", (3,)),
        ("FULLY_CONNECTED", (3,)),
        ("CONCATENATION", (4, 5)),
    ): _colour,
    (
        _START,
        ("CONV_2D", (0,)),
        ("MUL", (1, 1)),
        ("CONV_2D", (0,)),
        ("MUL", (3, 3)),
        ("ADD", (2, 4)),
        ("AVERAGE_POOL_2D", (5,)),
        ("RESHAPE", (6,)),
        ("QUANTIZE", (7,)),
    ): _looming,
    (_START, ("DEPTHWISE_CONV_2D", (0,)), ("QUANTIZE", (1,))): _gabor,
    (_START, ("DEPTHWISE_CONV_2D", (0,)), ("AVERAGE_POOL_2D", (1,)), ("QUANTIZE", (2,))): _gabor,
}
"""Graph structures whose layout is known, as `_structure` describes them."""
