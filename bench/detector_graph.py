"""A graph with the form of an SSD for 300x300 px, as costly for the stick and the node as a Coral detector.

Its weights are random; in every image it finds one object of class 1 that fills most of the image. 6 MB of
the weights are in layers with few multiplications, so that a virtual stick runs it at the rate of a camera.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec

NAME = "ssd_300x300"
_CLASSES, _BOX = 91, 4
_FIRST_ANCHORS, _ANCHORS = 3, 6
"""Number of anchors of each cell, in the first feature map and in the others."""
_BACKBONE = (8, 16, 32)
_MAPS = (128, 384, 512, 512, 128, 128)
"""Numbers of channels of the feature maps, which have 19, 10, 5, 3, 2 and 1 cells a side."""
_SCALE, _WEIGHT_SCALE = 0.05, 1e-4
_LOWEST, _HIGH = -128, 100
"""Quantised scores of absent and of present objects."""


def ssd_graph() -> bytes:
    """The graph: an image uint8 [1, 300, 300, 3] to boxes [1, 1917, 4] and scores [1, 1917, 91], int8."""
    builder = GraphBuilder(NAME)
    random = np.random.default_rng(0)

    def convolved(
        value: TensorSpec, channels: int, size: int, stride: int = 1, bias: NDArray[np.int32] | None = None
    ) -> TensorSpec:
        kernels = random.integers(-127, 128, (channels, size, size, value.shape[3]))
        return builder.conv_2d(
            value, kernels, _WEIGHT_SCALE, scale=_SCALE, zero_point=0, stride=stride, bias=bias
        )

    image = builder.input("image", (1, 300, 300, 3), np.uint8, scale=1 / 128, zero_point=128)
    value = builder.quantize(image, np.int8, scale=_SCALE, zero_point=0)
    for channels in _BACKBONE:
        value = convolved(value, channels, 3, stride=2)
    boxes, scores = [], []
    for number, channels in enumerate(_MAPS):
        value = convolved(value, channels, 3, stride=2)
        anchors = _ANCHORS if number else _FIRST_ANCHORS
        cells = value.shape[1] * value.shape[2]
        box = convolved(value, anchors * _BOX, 1)
        bias = np.full((anchors, _CLASSES), _LOWEST / _WEIGHT_SCALE, np.int32)
        if number == len(_MAPS) - 1:
            bias[0, 1] = _HIGH / _WEIGHT_SCALE
        score = convolved(value, anchors * _CLASSES, 1, bias=bias.ravel())
        boxes.append(builder.reshape(box, (1, cells * anchors, _BOX)))
        scores.append(builder.reshape(score, (1, cells * anchors, _CLASSES)))
    builder.output(builder.concatenation(boxes, 1, name="boxes"))
    builder.output(builder.concatenation(scores, 1, name="scores"))
    return builder.build()
