"""Which operators of a graph pad the borders of their input, and on how many sides."""

from __future__ import annotations

import numpy as np

from edgetpu_driver.tflite.model_reader import ABSENT, Subgraph
from edgetpu_driver.tflite.operator_options import Options
from edgetpu_driver.tflite.weighted_operators import WEIGHTED

RESIZING = "RESIZE_BILINEAR"

_SAME = 0
"""The value of padding SAME in the TFLite schema."""
_ALL_SIDES = 4
"""Number of sides of an image: left, right, top and bottom."""
_IMAGE_AXES = (1, 2)
"""Indices of rows and columns in [1, y, x, channel]."""
_RANK = 4
"""Rank of an image, [1, y, x, channel]."""


def border_sides(graph: Subgraph, options: Options, index: int) -> int:
    """The number of sides, 0 to 4, on which an operator of a graph pads its input.

    options: the options of that operator. A resize pads all sides, except that a resize to the same size
    needs no operation. Padded channels do not count. More than 4 if other axes are padded, or if the file
    does not tell the shape or the padding.
    """
    operator = graph.operators[index]
    if operator.name == RESIZING:
        same = graph.tensors[operator.inputs[0]].shape == graph.tensors[operator.outputs[0]].shape
        return 0 if same else _ALL_SIDES
    if operator.name == "PAD":
        return _sides_of_pad(graph, operator.inputs[1])
    if "padding" not in options or options["padding"] != _SAME:
        return 0
    source, result = (graph.tensors[each].shape for each in (operator.inputs[0], operator.outputs[0]))
    if len(result) != _RANK:  # the converter did not know it
        return _ALL_SIDES + 1
    if operator.name in WEIGHTED:
        kernel = graph.tensors[operator.inputs[1]].shape[1:3]
    else:
        kernel = int(options["filter_h"]), int(options["filter_w"])
    strides = options["stride_h"], options["stride_w"]
    dilations = options.get("dilation_h", 1), options.get("dilation_w", 1)
    sides = 0
    for count, stride, size, dilation, extent in zip(
        result[1:3], strides, kernel, dilations, source[1:3], strict=True
    ):
        total = (count - 1) * stride + (size - 1) * dilation + 1 - extent
        sides += min(max(int(total), 0), 2)
    return sides


def padding_operator(graph: Subgraph, options: tuple[Options, ...], index: int) -> int | None:
    """The operator that determines values beyond a layer's borders: the layer, a PAD before it, or None."""
    if border_sides(graph, options[index], index):
        return index
    source = graph.operators[index].inputs[0]
    for other, operator in enumerate(graph.operators):
        if operator.name == "PAD" and source in operator.outputs:
            return other
    return None


def _sides_of_pad(graph: Subgraph, index: int) -> int:
    tensor = graph.tensors[index] if index != ABSENT else None
    known = tensor is not None and tensor.data and tensor.dtype in (np.int32, np.int64)
    if tensor is None or not known or tensor.shape[1:] != (2,):
        return _ALL_SIDES + 1
    pads = np.frombuffer(tensor.data, tensor.dtype).reshape(-1, 2)
    if len(pads) == _RANK and pads[-1].any() and not pads[:-1].any():
        return 0  # channels without weights, which are filled by requantisation
    others = [axis for axis in range(len(pads)) if axis not in _IMAGE_AXES]
    if pads[others].any():
        return _ALL_SIDES + 1
    return int(np.count_nonzero(pads))
