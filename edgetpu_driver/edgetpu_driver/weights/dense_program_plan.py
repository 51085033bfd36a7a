"""Converts a FULLY_CONNECTED graph to a Dense program: a matrix, multipliers, zero points and clamps.

Programs exist for matrices of 256, 512, 768 and 1024 rows and columns. A smaller matrix is padded with zeros
to the next size. The chip's Dense program has no bias, so the bias is stored as weights of unused inputs, to
which the host sends constant bytes: 0 or 255, whichever is further from the input's zero point. If a bias is
not a multiple of that distance, one more input gets a byte one step from the zero point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout, PaddedDenseLayout
from edgetpu_driver.darwinn.programs.dense_program import SIZES, DenseProgram
from edgetpu_driver.darwinn.requantisation import (
    ACTIVATIONS,
    Activation,
    Requantisation,
    clamps,
    multipliers,
)
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import Model, Operator, Subgraph, Tensor
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.tflite.weighted_operators import constant_bias
from edgetpu_driver.weights.parameter_layout import LayerWeights, ParameterLayout
from edgetpu_driver.weights.replaceable_weights import INT8_MAX

_TO_UNSIGNED = 128
"""Offset from zero points of int8 to those of uint8."""
_LARGEST_BYTE = 255
"""Largest value of uint8."""
_SAME_SCALE = 1e-6
"""Largest relative difference of scales at which a QUANTIZE counts as changing only the sign."""
_WORST_BIAS_ERROR = 0.5
"""Largest accepted error of a bias, in output steps; a larger one is refused."""
_COMPARED = (256, 512, 1024)
"""Sizes whose programs were compared with the compiler's, byte by byte."""


@dataclass(frozen=True, eq=False)
class DenseProgramPlan:
    """The Dense program of a graph."""

    program: DenseProgram
    layout: ParameterLayout
    """The parameters, with the graph's weights."""
    input: TensorSpec
    """The input of the graph."""
    output: TensorSpec
    bias_columns: int
    """Number of inputs that hold the bias."""
    input_padding: bytes
    """Bytes that are sent to these inputs."""
    bias_error: float
    """Largest rounding error of the bias, in output steps."""
    evidence: str
    """The compiler's programs with which this one was compared."""

    @property
    def rows(self) -> int:
        """Number of outputs of the graph."""
        return self.layout.layers[0].layout.shape[0]

    @property
    def columns(self) -> int:
        """Number of inputs of the graph."""
        return self.layout.layers[0].layout.shape[1]

    @property
    def remark(self) -> str:
        """What a user should know about the program before it runs on a stick."""
        size, notes = self.program.size, []
        if (self.rows, self.columns) != (size, size):
            notes.append(f"{self.rows} x {self.columns} padded to {size} x {size}")
        if self.bias_columns:
            error = f"rounded by up to {self.bias_error:.2g} output steps" if self.bias_error else "exactly"
            held = _held_text(self.input_padding)
            inputs = "1 unused input" if self.bias_columns == 1 else f"{self.bias_columns} unused inputs"
            notes.append(f"the bias is stored in {inputs}{held}, {error}")
        elif self.bias_error:
            notes.append(f"the bias, of at most {self.bias_error:.2g} output steps, is left out")
        return "; ".join([*notes, self.evidence, "never run on a stick"])


def _held_text(padding: bytes) -> str:
    """What the host sends to the inputs that hold a bias, for the remark."""
    if not any(padding):
        return ""
    return ", which the host keeps constant" if padding[0] else ", one of which the host keeps at one step"


_SHOWN = 8
"""Number of different zero points that a message lists."""


@dataclass(frozen=True, eq=False)
class _Layer:
    """The only layer with weights of a Dense graph. Its tensors are int8."""

    operator: Operator
    weights: NDArray[np.int8]
    scales: NDArray[np.float32]
    """Multipliers, [rows]."""
    bias: NDArray[np.int32]
    """Bias, [rows], in steps of input scale * weight scale."""
    source: TensorSpec
    result: TensorSpec
    activation: Activation


def plan_dense_program(model: Model) -> DenseProgramPlan:
    """Plan the program of a graph; ModelUnsupportedError, with the reason, if the graph is not Dense.

    A Dense graph is an int8 FULLY_CONNECTED, with or without RELU or RELU6, between a QUANTIZE from uint8 and
    a QUANTIZE to uint8; both are optional and keep the scale.
    """
    graph = model.subgraphs[0]
    layer = _layer(graph)
    name = graph.tensors[graph.inputs[0]].name
    if name == graph.tensors[graph.outputs[0]].name:
        raise ModelUnsupportedError(f"expected an input and an output of different names; got '{name}' twice")
    source = _unsigned(graph.tensors[graph.inputs[0]].spec, layer.source, "input")
    result = _unsigned(graph.tensors[graph.outputs[0]].spec, layer.result, "output")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        of_rows = multipliers(layer.source.scale, layer.scales, layer.result.scale)
        limits = clamps(layer.result.scale, result.zero_point, layer.activation)
    if not (np.isfinite(of_rows).all() and (of_rows > 0).all() and np.isfinite(limits).all()):
        raise ModelUnsupportedError(
            f"expected scales whose quotients float32 holds; got {layer.source.scale:g} of the input, "
            f"{layer.scales.min():g} to {layer.scales.max():g} of the weights and {layer.result.scale:g} of "
            "the output"
        )
    size, bias = _fitted(layer, source.zero_point, of_rows)
    layout = _layout(layer.weights.shape, size, bias.columns)
    requantisation = Requantisation(1.0, *limits, source.zero_point, 0, result.zero_point)
    from_uint8, to_uint8 = (
        graph.tensors[each[0]].dtype == np.uint8 for each in (graph.inputs, graph.outputs)
    )
    tensor = layer.operator.inputs[1]
    own_scales = np.unique(layer.scales).size > 1
    return DenseProgramPlan(
        DenseProgram(size, requantisation, converts_output=bool(to_uint8)),
        ParameterLayout((LayerWeights(layout, tensor, layer.weights, of_rows),)),
        graph.tensors[graph.inputs[0]].spec,
        graph.tensors[graph.outputs[0]].spec,
        bias.columns.shape[1],
        bias.inputs,
        bias.error,
        _evidence(size, usual=bool(from_uint8) and own_scales, converts_output=bool(to_uint8)),
    )


def _evidence(size: int, *, usual: bool, converts_output: bool) -> str:
    """The evidence that the program is right. usual: the input is uint8 and each row has a scale."""
    if usual and size in _COMPARED and converts_output:
        return "the program equals Google's for this size"
    if usual and size not in _COMPARED:
        lacking = ", which lack the last QUANTIZE" if converts_output else ""
        return f"the program equals Google's for this size in the bytes that are published{lacking}"
    return "the program follows Google's; none for this form of graph was there to compare with"


def _layer(graph: Subgraph) -> _Layer:
    operator = _dense_operator(graph)
    source, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    _check_activations(source, result)
    weights = _dense_weights(graph, operator)
    rows, columns = weights.shape
    if source.shape != (1, columns) or result.shape != (1, rows):
        raise ModelUnsupportedError(
            f"expected an input {[1, columns]} and an output {[1, rows]}; got {list(source.shape)} and "
            f"{list(result.shape)}"
        )
    bias = constant_bias(graph, operator, rows)
    return _Layer(
        operator,
        np.frombuffer(weights.data, np.int8).reshape(weights.shape),
        np.broadcast_to(weights.quantization.scales, rows),
        np.zeros(rows, np.int32) if bias is None else bias,
        source.spec,
        result.spec,
        ACTIVATIONS[operator.activation],
    )


def _dense_operator(graph: Subgraph) -> Operator:
    """The only FULLY_CONNECTED operator; raises ModelUnsupportedError for graphs with other operators."""
    names = [operator.name for operator in graph.operators]
    core = [operator for operator in graph.operators if operator.name == "FULLY_CONNECTED"]
    around = [name for name in names if name != "FULLY_CONNECTED"]
    if len(core) != 1 or set(around) - {"QUANTIZE"} or len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise ModelUnsupportedError(
            "without edgetpu_compiler, expected one FULLY_CONNECTED layer between QUANTIZE operators; "
            f"got {', '.join(names) or 'no operator'}"
        )
    (operator,) = core
    _check_chain(graph, operator)
    if operator.activation not in ACTIVATIONS:
        raise ModelUnsupportedError(f"expected no activation, RELU or RELU6; got {operator.activation}")
    return operator


def _dense_weights(graph: Subgraph, operator: Operator) -> Tensor:
    """The weights of the operator, int8[rows, columns]; raises ModelUnsupportedError for other weights."""
    weights = graph.tensors[operator.inputs[1]] if len(operator.inputs) > 1 else None
    if weights is None or weights.dtype != np.int8 or not weights.data or len(weights.shape) != 2:
        got = "none" if weights is None else weights.spec if weights.data else f"{weights.spec}, not constant"
        raise ModelUnsupportedError(f"expected constant int8 weights [rows, columns]; got {got}")
    rows = weights.shape[0]
    scales, zero_points = weights.quantization.scales, weights.quantization.zero_points
    if scales.size not in (1, rows) or np.any(zero_points):
        raise ModelUnsupportedError(
            f"expected weights of zero point 0 with a scale, or one for each of {rows} rows; got "
            f"{scales.size} scales and zero points {np.unique(zero_points)[:_SHOWN].tolist()}"
        )
    if scales.size > 1 and weights.quantization.axis != 0:
        raise ModelUnsupportedError(
            f"expected weight scales along the rows, dimension 0; got dimension {weights.quantization.axis}"
        )
    return weights


def _check_chain(graph: Subgraph, core: Operator) -> None:
    """Raise ModelUnsupportedError unless these are QUANTIZE, the layer and QUANTIZE, in that order."""
    position = graph.operators.index(core)
    tensor = graph.inputs[0]
    for operator in graph.operators:
        if operator.inputs[:1] != (tensor,) or len(operator.outputs) != 1:
            raise ModelUnsupportedError(
                f"expected operators that follow each other; {operator.name} does not take "
                f"{graph.tensors[tensor].spec} first"
            )
        tensor = operator.outputs[0]
    if position > 1 or len(graph.operators) - position > 2 or tensor != graph.outputs[0]:
        names = ", ".join(operator.name for operator in graph.operators)
        raise ModelUnsupportedError(
            f"expected at most one QUANTIZE before the layer, and one after it; got {names}"
        )


def _check_activations(*tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype != np.int8 or tensor.quantization.scales.size != 1 or not tensor.spec.scale > 0:
            raise ModelUnsupportedError(f"expected quantised int8 around the layer; got {tensor.spec}")


def _unsigned(outer: TensorSpec, inner: TensorSpec, kind: str) -> TensorSpec:
    """The int8 tensor next to the layer as uint8; ModelUnsupportedError unless the graph's end equals it."""
    unsigned = replace(inner, dtype=np.dtype(np.uint8), zero_point=inner.zero_point + _TO_UNSIGNED)
    shift = 0 if outer.dtype == np.uint8 else _TO_UNSIGNED
    same_scale = abs(outer.scale - inner.scale) <= _SAME_SCALE * inner.scale
    if outer.dtype not in (np.uint8, np.int8):
        raise ModelUnsupportedError(f"expected uint8 or int8 as the {kind}; got {outer}")
    if not same_scale:
        raise ModelUnsupportedError(
            f"expected an {kind} of the layer's scale, {inner.scale:g}; got {outer.with_quantisation}"
        )
    if outer.zero_point + shift != unsigned.zero_point:
        raise ModelUnsupportedError(
            f"expected an {kind} of the layer's zero point, {unsigned.zero_point} as uint8; got "
            f"{outer.with_quantisation}"
        )
    return unsigned


@dataclass(frozen=True, eq=False)
class _BiasColumns:
    """A bias as weights of unused inputs."""

    columns: NDArray[np.int8]
    """Weights of these inputs, [rows, inputs]."""
    inputs: bytes
    """Bytes that are sent to these inputs."""
    error: float
    """Largest rounding error, in output steps."""


def _fitted(layer: _Layer, zero_point: int, of_rows: NDArray[np.float32]) -> tuple[int, _BiasColumns]:
    """The size of the program, and the bias."""
    rows, columns = layer.weights.shape
    largest = SIZES[-1]
    if max(rows, columns) > largest:
        raise ModelUnsupportedError(
            f"expected a matrix of up to {largest} x {largest}; got {rows} x {columns}. "
            f"MatMul cuts larger ones into tiles of dense_{largest}"
        )
    bias = _bias_columns(layer.bias, zero_point, of_rows, columns)
    return _size_of(rows, columns + bias.columns.shape[1]), bias


def _size_of(rows: int, columns: int) -> int:
    """Size of the smallest program that holds a matrix."""
    return next(size for size in SIZES if size >= max(rows, columns))


def _bias_columns(
    bias: NDArray[np.int32], zero_point: int, of_rows: NDArray[np.float32], columns: int
) -> _BiasColumns:
    """The bias as weights of inputs held at 0 or 255, and of one input held a step from its zero point.

    The latter corrects rounding. It is left out if it needs a larger program and the rounding is acceptable.
    """
    if not bias.any():
        return _BiasColumns(np.zeros((len(bias), 0), np.int8), b"", 0.0)
    held = 0 if 2 * zero_point > _LARGEST_BYTE else _LARGEST_BYTE
    worth = held - zero_point
    steps = np.rint(bias.astype(np.float64) / worth).astype(np.int64)
    width = -(-int(np.abs(steps).max()) // INT8_MAX)
    largest, used = SIZES[-1], columns + width
    if used > largest:
        raise ModelUnsupportedError(
            f"{columns} inputs leave none for the bias, which needs {width} of {largest}; add it on the host"
        )
    # Column i holds the steps that remain after i columns of the largest weight.
    left = np.abs(steps)[:, np.newaxis] - INT8_MAX * np.arange(width)
    coarse = np.sign(steps)[:, np.newaxis] * np.clip(left, 0, INT8_MAX)
    rest = bias - worth * steps
    error = float(np.max(np.abs(rest) * of_rows.astype(np.float64)))
    fits = used < _size_of(len(bias), used) or (error > _WORST_BIAS_ERROR and used < largest)
    if error and fits:
        step = 1 if zero_point < _LARGEST_BYTE else -1
        finer = np.column_stack([coarse, step * rest]).astype(np.int8)
        return _BiasColumns(finer, bytes([*[held] * width, zero_point + step]), 0.0)
    if error > _WORST_BIAS_ERROR:
        raise ModelUnsupportedError(
            f"a bias on unused inputs would be off by {error:.2g} output steps; add it on the host"
        )
    return _BiasColumns(coarse.astype(np.int8), bytes([held] * width), error)


def _layout(shape: tuple[int, ...], size: int, bias: NDArray[np.int8]) -> DenseLayout:
    if shape == (size, size):
        return DenseLayout(size)
    return PaddedDenseLayout(shape[0], shape[1], size, bias)
