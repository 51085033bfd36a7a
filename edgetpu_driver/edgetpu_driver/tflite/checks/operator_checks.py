"""Checks of single operators: their operands, options and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NoReturn

import numpy as np

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.files.flatbuffer import Fields, Table, table_fields
from edgetpu_driver.tflite.checks.option_types import OPTION_TYPES
from edgetpu_driver.tflite.file_tables import ACTIVATIONS, option_table
from edgetpu_driver.tflite.model_reader import ABSENT, Operator, Subgraph

Shape = tuple[int, ...]

# The minimum and maximum number of inputs of operators with one output.
_ONE, _TWO = (1, 1), (2, 2)
_INPUTS = {
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "PRELU"), _TWO),
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE", "SOFTMAX", "LOGISTIC", "TANH", "RELU", "RELU6"), _ONE),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D", "L2_NORMALIZATION", "ABS", "EXP"), _ONE),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "PAD", "TRANSPOSE", "ARG_MAX"), _TWO),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "EXPAND_DIMS", "GATHER"), _TWO),
    **dict.fromkeys(("SQUEEZE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "RSQRT", "SQRT", "HARD_SWISH"), _ONE),
    "CONV_2D": (2, 3),
    "DEPTHWISE_CONV_2D": (2, 3),
    "FULLY_CONNECTED": (2, 3),
    "TRANSPOSE_CONV": (3, 4),
    "RESHAPE": (1, 2),
    "CONCATENATION": (1, 1 << 16),
    "PACK": (1, 1 << 16),
    "SLICE": (3, 3),
    "STRIDED_SLICE": (4, 4),
}
_OPTIONAL = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
"""The first input that may be absent, by operator."""

_MOVING = (
    "RESHAPE",
    "SQUEEZE",
    "EXPAND_DIMS",
    "TRANSPOSE",
    "SLICE",
    "STRIDED_SLICE",
    "GATHER",
    "PACK",
    "PAD",
)
"""Operators that only move values, which need no scale."""

_SPLIT = table_fields("count")
_SEVERAL_OUTPUTS = {"SPLIT": 2, "SPLIT_V": 3, "UNPACK": 1}
"""The number of inputs; the options begin with the number of outputs."""
_LARGEST_STRIDE = 1 << 12
"""Largest stride or dilation, px. Uncritical: images are smaller, so that a single pixel would be left."""
_LARGEST_MULTIPLIER = 256.0
"""Largest factor from a sum to output steps: above it, any sum but 0 saturates."""
_SAME = 0
"""Padding SAME in the TFLite schema."""


class OperatorCheck:
    """The check of one operator of a graph."""

    def __init__(self, graph: Subgraph, operator: Operator, table: Table) -> None:
        """table: the operator in the file."""
        self._name = operator.name
        self._table = table
        self._operator = operator
        tensors = graph.tensors
        self._inputs = [tensors[index] if index != ABSENT else None for index in operator.inputs]
        self._outputs = [tensors[index] for index in operator.outputs]

    def check(self) -> None:
        """Raise ModelFormatError for anything that LiteRT's kernels do not expect."""
        given = self._table.scalar("builtin_options_type", np.uint8)
        expected = OPTION_TYPES.get(self._name, given)
        if given not in (0, expected):
            self._refuse("builtin_options", f"options of type {given}; expected {expected}")
        if self._name in _SEVERAL_OUTPUTS:
            self._check_split()
        if self._name == "FAKE_QUANT" and any(each.dtype != np.float32 for each in self._outputs):
            self._refuse("outputs", f"{self._outputs[0].spec}; expected float32")
        if self._name not in _INPUTS:
            return
        self._check_operands()
        fields = option_table(self._name)
        options = self._table.table("builtin_options", fields)
        if options is not None:
            self._check_options(options, fields)
        check = _SHAPE_CHECKS.get(self._name)
        if check is not None:
            check(self, options)

    # Operands and options.

    def _check_operands(self) -> None:
        least, most = _INPUTS[self._name]
        if not least <= len(self._inputs) <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            self._refuse("inputs", f"{len(self._inputs)} inputs; expected {expected}")
        if len(self._outputs) != 1:
            self._refuse("outputs", f"{len(self._outputs)} outputs; expected 1")
        for each in self._inputs[: _OPTIONAL.get(self._name, most)]:
            if each is None:
                self._refuse("inputs", "an operand is absent")
        if self._name in _MOVING:
            return
        for field, tensors in (("inputs", self._inputs[:1]), ("outputs", self._outputs)):
            for tensor in tensors:
                if tensor is not None and tensor.dtype.itemsize == 1 and not tensor.spec.scale > 0:
                    self._refuse(field, f"{tensor.spec} without a scale")

    def _check_split(self) -> None:
        """Check an operator with several outputs: its operands, and their number in the options."""
        count = _SEVERAL_OUTPUTS[self._name]
        if len(self._inputs) != count or any(each is None for each in self._inputs):
            self._refuse("inputs", f"{len(self._inputs)} inputs; expected {count}")
        options = self._table.table("builtin_options", _SPLIT)
        pieces = options.scalar("count", np.int32) if options is not None else 0
        if not 0 < pieces == len(self._outputs):
            self._refuse("builtin_options", f"{pieces} pieces and {len(self._outputs)} outputs")

    def _check_options(self, options: Table, fields: Fields) -> None:
        for field in fields:
            default = 1 if field.startswith("dilation") else 0
            if field.startswith(("stride", "filter", "dilation")):
                value = options.scalar(field, np.int32, default)
                if not 1 <= value <= _LARGEST_STRIDE:
                    self._refuse("builtin_options", f"{field} {value}; expected 1 to {_LARGEST_STRIDE}")
            elif field in ("padding", "activation"):
                value = options.scalar(field, np.int8)
                if not 0 <= value < (2 if field == "padding" else len(ACTIVATIONS)):
                    self._refuse("builtin_options", f"unknown {field} {value}")
            elif field == "beta":
                beta = options.scalar(field, np.float32)
                if not 0 < beta < 1e6:  # false for NaN
                    self._refuse("builtin_options", f"beta {beta:g}; expected a positive number")

    # Shapes.

    def _check_window(self, options: Table | None) -> None:
        """Check the window and output size of a pooling."""
        image = self._rank(0, 4)
        if options is None:
            self._refuse("builtin_options", "the options are missing")
        window = options.scalar("filter_h", np.int32), options.scalar("filter_w", np.int32)
        self._check_slide(image, window, image[3], options)

    def _check_convolution(self, options: Table | None) -> None:
        """Check a convolution with weights [out, kh, kw, in], or depthwise [1, kh, kw, out]."""
        image, kernel = self._rank(0, 4), self._rank(1, 4)
        if options is None:
            self._refuse("builtin_options", "the options are missing")
        if self._name == "CONV_2D":
            channels = kernel[0]
            fits = (
                kernel[3] > 0 and image[3] % kernel[3] == 0 and channels % (image[3] // kernel[3] or 1) == 0
            )
        else:
            channels = kernel[3]
            multiplier = options.scalar("multiplier", np.int32)
            fits = kernel[0] == 1 and image[3] > 0 and channels % image[3] == 0
            fits = fits and multiplier in (0, channels // image[3])
        if not fits:
            self._refuse("inputs", f"weights {list(kernel)} for an input {list(image)}")
        if self._quantised() and (len(self._inputs) < 3 or self._inputs[2] is None):
            self._refuse("inputs", "no bias")
        self._check_bias(channels)
        self._check_row_scales(channels, 0 if self._name == "CONV_2D" else 3)
        self._check_multiplier()
        dilations = [options.scalar(f"dilation_{side}", np.int32, 1) for side in ("h", "w")]
        window = [(size - 1) * dilation + 1 for size, dilation in zip(kernel[1:3], dilations, strict=True)]
        self._check_slide(image, window, channels, options)

    def _check_slide(self, image: Shape, window: Sequence[int], channels: int, options: Table) -> None:
        same = options.scalar("padding", np.int8) == _SAME
        expected = [image[0]]
        for extent, size, side in zip(image[1:3], window, ("h", "w"), strict=True):
            stride = options.scalar(f"stride_{side}", np.int32)
            steps = -(-extent // stride) if same else (extent - size) // stride + 1
            if size < 1 or steps < 1 or (same and size > 2 * extent + 1):
                self._refuse("inputs", f"a window of {size} for an input {list(image)}")
            expected.append(steps)
        self._check_output((*expected, channels))

    def _check_matrix(self, options: Table | None) -> None:  # noqa: ARG002
        """Check a fully connected layer with weights [rows, columns]."""
        rows, columns = self._rank(1, 2)
        count = prod(self._shape(0))
        if not (rows > 0 and columns > 0 and count % columns == 0):
            self._refuse("inputs", f"weights {[rows, columns]} for an input {list(self._shape(0))}")
        self._check_bias(rows)
        self._check_row_scales(rows, 0)
        self._check_multiplier()
        output = self._outputs[0].shape
        if output and prod(output) != count // columns * rows:
            self._refuse("outputs", f"an output {list(output)} of {count // columns} times {rows} values")

    def _quantised(self) -> bool:
        tensor = self._inputs[0]
        return tensor is not None and tensor.dtype.kind in "iu"

    def _check_bias(self, channels: int) -> None:
        bias = self._inputs[2] if len(self._inputs) > 2 else None
        if bias is not None and prod(bias.shape) != channels:
            self._refuse("inputs", f"a bias {list(bias.shape)} for {channels} channels")

    def _check_row_scales(self, channels: int, axis: int) -> None:
        weights = self._inputs[1]
        assert weights is not None
        scales = weights.quantization
        if scales.scales.size > 1 and (scales.axis != axis or scales.scales.size != channels):
            self._refuse("inputs", f"{scales.scales.size} scales along axis {scales.axis} of the weights")

    def _check_multiplier(self) -> None:
        """Check the factor from sums of products to 8-bit results; one above the limit only saturates."""
        source, weights, result = self._inputs[0], self._inputs[1], self._outputs[0]
        assert source is not None
        assert weights is not None
        if weights.dtype.itemsize != 1 or not result.spec.scale:
            return
        largest = float(weights.quantization.scales.max(initial=0))
        factor = source.spec.scale * largest / result.spec.scale
        if factor >= _LARGEST_MULTIPLIER:
            self._refuse("inputs", f"a multiplier of {factor:g}; expected less than {_LARGEST_MULTIPLIER:g}")

    def _check_elementwise(self, options: Table | None) -> None:  # noqa: ARG002
        shapes = [self._shape(index) for index in range(len(self._inputs))]
        try:
            expected = np.broadcast_shapes(*shapes)
        except ValueError:
            self._refuse("inputs", f"shapes {' and '.join(str(list(shape)) for shape in shapes)}")
        self._check_output(expected)

    def _check_reshape(self, options: Table | None) -> None:  # noqa: ARG002
        output = self._outputs[0].shape
        if output and prod(output) != prod(self._shape(0)):
            self._refuse("outputs", f"an output {list(output)} for an input {list(self._shape(0))}")

    def _check_concatenation(self, options: Table | None) -> None:
        axis = options.scalar("axis", np.int32) if options is not None else 0
        shapes = [self._shape(index) for index in range(len(self._inputs))]
        rank = len(shapes[0])
        if not -rank <= axis < rank:
            self._refuse("builtin_options", f"axis {axis} of {rank} dimensions")
        rests = {tuple(np.delete(shape, axis)) if len(shape) == rank else None for shape in shapes}
        if len(rests) > 1:
            self._refuse("inputs", f"shapes {' and '.join(str(list(shape)) for shape in shapes)}")
        expected = list(shapes[0])
        expected[axis] = sum(shape[axis] for shape in shapes)
        self._check_output(tuple(expected))

    def _check_output(self, expected: Shape) -> None:
        """Check the declared output shape; [] means that the converter did not know it."""
        output = self._outputs[0].shape
        if output and output != expected:
            self._refuse("outputs", f"an output {list(output)}; expected {list(expected)}")

    def _shape(self, position: int) -> Shape:
        tensor = self._inputs[position]
        assert tensor is not None  # _check_operands was called
        return tensor.shape

    def _rank(self, position: int, rank: int) -> Shape:
        shape = self._shape(position)
        if len(shape) != rank:
            self._refuse("inputs", f"operand {position} is {list(shape)}; expected {rank} dimensions")
        return shape

    def _refuse(self, field: str, what: str) -> NoReturn:
        raise ModelFormatError(f"{self._table.path}.{field}: {self._name} has {what}")


_SHAPE_CHECKS: dict[str, Callable[[OperatorCheck, Table | None], None]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), OperatorCheck._check_convolution),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), OperatorCheck._check_window),
    "FULLY_CONNECTED": OperatorCheck._check_matrix,
    "RESHAPE": OperatorCheck._check_reshape,
    "CONCATENATION": OperatorCheck._check_concatenation,
    **dict.fromkeys(
        ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"),
        OperatorCheck._check_elementwise,
    ),
    **dict.fromkeys(
        ("QUANTIZE", "DEQUANTIZE", "SOFTMAX", "LOGISTIC", "TANH", "RELU", "RELU6", "L2_NORMALIZATION"),
        OperatorCheck._check_elementwise,
    ),
}
