"""Builds quantised graphs operator by operator and checks shapes and quantisation.

    graph = GraphBuilder("brightest spot of a 64 x 64 image")
    image = graph.input("image", (1, 64, 64, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    weight = graph.softmax(graph.reshape(grey, (1, 4096)))
    x = graph.fully_connected(weight, x_of_pixel, weight_scale=0.1, scale=0.12, zero_point=-43)
    y = graph.fully_connected(weight, y_of_pixel, weight_scale=0.1, scale=0.12, zero_point=-43)
    graph.output(graph.concatenation([x, y], axis=1, name="position"))
    pathlib.Path("spot.tflite").write_bytes(graph.build())

Images are NHWC with N = 1 and every shape is fixed. Operators compute on int8; uint8 occurs only at the ends
of a graph, next to `quantize`. Google's edgetpu_compiler 16 and LiteRT accept all operator versions and
operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from edgetpu_driver.errors import GraphError
from edgetpu_driver.tflite.graph_draft import Graph, int_array, require
from edgetpu_driver.tflite.model_reader import Quantization
from edgetpu_driver.tflite.schema import tflite_generated as schema
from edgetpu_driver.tflite.tensor import TensorSpec

Padding = Literal["SAME", "VALID"]
Activation = Literal["NONE", "RELU", "RELU6"]
Size = int | tuple[int, int]
"""Height and width, or one number for both."""

_INT8 = np.dtype(np.int8)


class GraphBuilder(Graph):
    """A graph under construction; each method adds an operator and returns its output tensor.

    `scale`, `zero_point` and `name` belong to the output; the name is by default the operator's name. Weights
    are int8 with zero point 0; `weight_scale` is one number or one per output channel. A bias is int32 in
    units of input scale * weight scale. Invalid arguments raise GraphError, which names the operator's
    output.
    """

    def quantize(
        self, x: TensorSpec, dtype: DTypeLike, *, scale: float, zero_point: int, name: str | None = None
    ) -> TensorSpec:
        """QUANTIZE: from one quantisation (uint8 or int8) to another."""
        result = TensorSpec(name or self._free_name("quantize"), x.shape, np.dtype(dtype), scale, zero_point)
        for spec in (x, result):
            require(spec.dtype in (np.uint8, np.int8), result.name, f"expected uint8 or int8, got {spec}")
        return self._apply("QUANTIZE", [x], result)

    def conv_2d(
        self,
        x: TensorSpec,
        weights: ArrayLike,
        weight_scale: ArrayLike,
        *,
        scale: float,
        zero_point: int,
        bias: ArrayLike | None = None,
        stride: Size = 1,
        padding: Padding = "SAME",
        activation: Activation = "NONE",
        name: str | None = None,
    ) -> TensorSpec:
        """CONV_2D with weights [out, kh, kw, in]."""
        name = name or self._free_name("conv_2d")
        kernel = int_array(name, weights, np.int8)
        require(kernel.ndim == 4, name, f"expected weights [out, kh, kw, in], got {list(kernel.shape)}")
        shape, options = _slide(name, x, kernel.shape[1:3], stride, padding)
        channels = f"expected weights for {x.shape[3]} input channels, got {list(kernel.shape)}"
        require(kernel.shape[3] == x.shape[3], name, channels)
        bias = _zeros_if_none(bias, kernel.shape[0])
        operands = self._operands(name, x, kernel, weight_scale, 0, bias)
        options |= {"DilationWFactor": 1, "DilationHFactor": 1} | _fused(name, activation)
        result = TensorSpec(name, (*shape, kernel.shape[0]), _INT8, scale, zero_point)
        return self._apply("CONV_2D", operands, result, options)

    def depthwise_conv_2d(
        self,
        x: TensorSpec,
        weights: ArrayLike,
        weight_scale: ArrayLike,
        *,
        scale: float,
        zero_point: int,
        bias: ArrayLike | None = None,
        stride: Size = 1,
        padding: Padding = "SAME",
        activation: Activation = "NONE",
        name: str | None = None,
    ) -> TensorSpec:
        """DEPTHWISE_CONV_2D with weights [1, kh, kw, in * multiplier]; output channels are input-major."""
        name = name or self._free_name("depthwise_conv_2d")
        kernel = int_array(name, weights, np.int8)
        four = kernel.ndim == 4 and kernel.shape[0] == 1
        require(four, name, f"expected weights [1, kh, kw, in * multiplier], got {list(kernel.shape)}")
        shape, options = _slide(name, x, kernel.shape[1:3], stride, padding)
        multiplier, rest = divmod(kernel.shape[3], x.shape[3])
        channels = f"expected weights for a multiple of {x.shape[3]} channels, got {list(kernel.shape)}"
        require(rest == 0, name, channels)
        bias = _zeros_if_none(bias, kernel.shape[3])
        operands = self._operands(name, x, kernel, weight_scale, 3, bias)
        options |= {"DepthMultiplier": multiplier, "DilationWFactor": 1, "DilationHFactor": 1}
        result = TensorSpec(name, (*shape, kernel.shape[3]), _INT8, scale, zero_point)
        return self._apply("DEPTHWISE_CONV_2D", operands, result, options | _fused(name, activation))

    def fully_connected(
        self,
        x: TensorSpec,
        weights: ArrayLike,
        weight_scale: ArrayLike,
        *,
        scale: float,
        zero_point: int,
        bias: ArrayLike | None = None,
        activation: Activation = "NONE",
        name: str | None = None,
    ) -> TensorSpec:
        """FULLY_CONNECTED: weights [out, in] times x [1, in]."""
        name = name or self._free_name("fully_connected")
        matrix = int_array(name, weights, np.int8)
        vector = len(x.shape) == 2 and x.shape[0] == 1
        require(vector, name, f"expected an input [1, n], got {list(x.shape)}")
        fits = matrix.ndim == 2 and matrix.shape[1] == x.shape[1]
        require(fits, name, f"expected weights [out, {x.shape[1]}], got {list(matrix.shape)}")
        operands = self._operands(name, x, matrix, weight_scale, 0, bias)
        result = TensorSpec(name, (1, matrix.shape[0]), _INT8, scale, zero_point)
        return self._apply("FULLY_CONNECTED", operands, result, _fused(name, activation))

    def max_pool_2d(
        self,
        x: TensorSpec,
        size: Size,
        *,
        stride: Size | None = None,
        padding: Padding = "VALID",
        activation: Activation = "NONE",
        name: str | None = None,
    ) -> TensorSpec:
        """MAX_POOL_2D over windows of `size`; the stride is `size` by default."""
        return self._pool("MAX_POOL_2D", x, size, stride, padding, activation, name)

    def average_pool_2d(
        self,
        x: TensorSpec,
        size: Size,
        *,
        stride: Size | None = None,
        padding: Padding = "VALID",
        activation: Activation = "NONE",
        name: str | None = None,
    ) -> TensorSpec:
        """AVERAGE_POOL_2D over windows of `size`; the stride is `size` by default."""
        return self._pool("AVERAGE_POOL_2D", x, size, stride, padding, activation, name)

    def add(
        self,
        a: TensorSpec,
        b: TensorSpec,
        *,
        scale: float,
        zero_point: int,
        activation: Activation = "NONE",
        name: str | None = None,
    ) -> TensorSpec:
        """ADD: a + b, broadcast."""
        return self._elementwise("ADD", a, b, scale, zero_point, activation, name)

    def sub(
        self,
        a: TensorSpec,
        b: TensorSpec,
        *,
        scale: float,
        zero_point: int,
        activation: Activation = "NONE",
        name: str | None = None,
    ) -> TensorSpec:
        """SUB: a - b, broadcast."""
        return self._elementwise("SUB", a, b, scale, zero_point, activation, name)

    def mul(
        self,
        a: TensorSpec,
        b: TensorSpec,
        *,
        scale: float,
        zero_point: int,
        activation: Activation = "NONE",
        name: str | None = None,
    ) -> TensorSpec:
        """MUL: a * b, broadcast."""
        return self._elementwise("MUL", a, b, scale, zero_point, activation, name)

    def reshape(self, x: TensorSpec, shape: Sequence[int], *, name: str | None = None) -> TensorSpec:
        """RESHAPE: the same values in another shape of the same size."""
        name = name or self._free_name("reshape")
        result = TensorSpec(name, tuple(shape), x.dtype, x.scale, x.zero_point)
        require(prod(result.shape) == prod(x.shape), name, f"cannot reshape {x} to {list(result.shape)}")
        target = self._constant(f"{name}/shape", np.array(result.shape, np.int32))
        return self._apply("RESHAPE", [x, target], result)

    def softmax(self, x: TensorSpec, *, beta: float = 1.0, name: str | None = None) -> TensorSpec:
        """SOFTMAX of beta * x over the last dimension; the output has scale 1/256 and zero point -128."""
        name = name or self._free_name("softmax")
        require(beta > 0, name, f"expected a positive beta, got {beta}")
        _require_int8(name, x)
        # The TFLite quantisation specification fixes the output's quantisation.
        result = TensorSpec(name, x.shape, _INT8, 1 / 256, -128)
        return self._apply("SOFTMAX", [x], result, {"Beta": beta})

    def concatenation(
        self, tensors: Sequence[TensorSpec], axis: int, *, name: str | None = None
    ) -> TensorSpec:
        """CONCATENATION along an axis; all tensors must have the same scale and zero point."""
        name = name or self._free_name("concatenation")
        require(len(tensors) > 0, name, "expected at least one tensor")
        first = tensors[0]
        require(0 <= axis < len(first.shape), name, f"no axis {axis} in {list(first.shape)}")
        shape = list(first.shape)
        shape[axis] = 0
        for tensor in tensors:
            _require_int8(name, tensor)
            alike = (tensor.scale, tensor.zero_point) == (first.scale, first.zero_point)
            require(alike, name, f"expected {tensor} to be quantised like {first}")
            others = [extent for dim, extent in enumerate(tensor.shape) if dim != axis]
            fits = len(tensor.shape) == len(shape) and others == shape[:axis] + shape[axis + 1 :]
            require(fits, name, f"cannot join {tensor} to {first} along axis {axis}")
            shape[axis] += tensor.shape[axis]
        result = TensorSpec(name, tuple(shape), _INT8, first.scale, first.zero_point)
        return self._apply("CONCATENATION", tensors, result, {"Axis": axis} | _fused(name, "NONE"))

    def _pool(
        self,
        operator: str,
        x: TensorSpec,
        size: Size,
        stride: Size | None,
        padding: Padding,
        activation: Activation,
        name: str | None,
    ) -> TensorSpec:
        name = name or self._free_name(operator.lower())
        _require_int8(name, x)
        height, width = _pair(size)
        shape, options = _slide(name, x, (height, width), size if stride is None else stride, padding)
        options |= {"FilterWidth": width, "FilterHeight": height} | _fused(name, activation)
        result = TensorSpec(name, (*shape, x.shape[3]), _INT8, x.scale, x.zero_point)
        return self._apply(operator, [x], result, options)

    def _elementwise(
        self,
        operator: str,
        a: TensorSpec,
        b: TensorSpec,
        scale: float,
        zero_point: int,
        activation: Activation,
        name: str | None,
    ) -> TensorSpec:
        name = name or self._free_name(operator.lower())
        _require_int8(name, a)
        _require_int8(name, b)
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            raise GraphError(f"{name}: the shapes of {a} and {b} do not broadcast") from None
        result = TensorSpec(name, shape, _INT8, scale, zero_point)
        return self._apply(operator, [a, b], result, _fused(name, activation))

    def _operands(
        self,
        name: str,
        x: TensorSpec,
        weights: NDArray[Any],
        weight_scale: ArrayLike,
        axis: int,
        bias: ArrayLike | None,
    ) -> list[TensorSpec | None]:
        """Input, weights and bias of a multiplying operator; the bias has the scale of the products."""
        _require_int8(name, x)
        channels = weights.shape[axis]
        scales = np.atleast_1d(np.asarray(weight_scale, np.float32))
        positive = bool(np.all((scales > 0) & np.isfinite(scales)))
        usable = positive and scales.shape in ((1,), (channels,))
        require(usable, name, f"expected one positive weight scale or {channels}, got {weight_scale!r}")
        zeros = np.zeros(scales.size, np.int64)
        kernel = self._constant(f"{name}/weights", weights, Quantization(scales, zeros, axis))
        if bias is None:
            return [x, kernel, None]
        values = int_array(name, bias, np.int32)
        require(values.shape == (channels,), name, f"expected bias [{channels}], got {list(values.shape)}")
        products = Quantization(np.float32(x.scale) * scales, zeros)
        return [x, kernel, self._constant(f"{name}/bias", values, products)]


def _slide(
    name: str, x: TensorSpec, window: Sequence[int], stride: Size, padding: Padding
) -> tuple[tuple[int, int, int], dict[str, float]]:
    """The output shape [1, height, width] of a window sliding over x, and the operator's options."""
    image = len(x.shape) == 4 and x.shape[0] == 1
    require(image, name, f"expected an input [1, height, width, channels], got {list(x.shape)}")
    require(padding in ("SAME", "VALID"), name, f"expected padding SAME or VALID, got {padding}")
    steps = _pair(stride)
    require(min(*window, *steps) > 0, name, f"expected a positive window and stride, got {window}, {steps}")
    covered = list(x.shape[1:3])
    if padding == "VALID":
        covered = [extent - size + 1 for extent, size in zip(covered, window, strict=True)]
        require(min(covered) > 0, name, f"the window {list(window)} is larger than {x}")
    height, width = (-(-extent // step) for extent, step in zip(covered, steps, strict=True))
    options = {"Padding": getattr(schema.Padding, padding), "StrideW": steps[1], "StrideH": steps[0]}
    return (1, height, width), options


def _pair(size: Size) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)


def _fused(name: str, activation: Activation) -> dict[str, float]:
    known = ("NONE", "RELU", "RELU6")
    require(activation in known, name, f"expected an activation of {', '.join(known)}, got {activation}")
    return {"FusedActivationFunction": getattr(schema.ActivationFunctionType, activation)}


def _zeros_if_none(bias: ArrayLike | None, channels: int) -> ArrayLike:
    # Converters always write a bias for a convolution; a missing one may be untested in compilers.
    return np.zeros(channels, np.int32) if bias is None else bias


def _require_int8(name: str, tensor: TensorSpec) -> None:
    require(tensor.dtype == _INT8, name, f"expected an int8 tensor, got {tensor}; quantize it first")
