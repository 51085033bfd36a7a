"""Graphs with the inputs and outputs of exported models, whose results do not depend on the image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_writer import OperatorRecord
from edgetpu_driver.tflite.tensor import TensorSpec

_WEIGHT_SCALE = 1 / 255
POST_PROCESS = "TFLite_Detection_PostProcess"


class Values(NamedTuple):
    """The values of an int8 output."""

    real: NDArray[Any]
    scale: float
    zero_point: int = -128


class _Graph(GraphBuilder):
    """A graph whose outputs are constants, but formally depend on the image."""

    def __init__(self, height: int, width: int, dtype: DTypeLike) -> None:
        super().__init__("exported")
        zero_point = -128 if dtype == np.int8 else 0
        image = self.input("image", (1, height, width, 3), dtype, scale=1 / 255, zero_point=zero_point)
        grey = image if dtype == np.int8 else self.quantize(image, np.int8, scale=1 / 255, zero_point=-128)
        self._mean = self.reshape(self.average_pool_2d(grey, (height, width)), (1, 3))

    def fixed(self, name: str, values: Values) -> TensorSpec:
        """An int8 tensor with these values, rounded to its steps."""
        steps = (
            np.clip(np.rint(values.real / values.scale) + values.zero_point, -128, 127) - values.zero_point
        )
        flat = self.fully_connected(
            self._mean,
            np.zeros((steps.size, 3), np.int8),
            weight_scale=_WEIGHT_SCALE,
            bias=np.rint(steps.ravel() * values.scale / (_WEIGHT_SCALE * self._mean.scale)).astype(np.int64),
            scale=values.scale,
            zero_point=values.zero_point,
        )
        return self.reshape(flat, values.real.shape, name=name)

    def dequantized(self, x: TensorSpec) -> TensorSpec:
        """Add a DEQUANTIZE operator."""
        result = self._activation(TensorSpec(f"{x.name} in float", x.shape, np.dtype(np.float32), 0.0, 0))
        operands = (self._position(result.name, x),), (self._index[result.name],)
        self._operators.append(OperatorRecord("DEQUANTIZE", 2, *operands))
        return result

    def floats(self, name: str, values: NDArray[np.float32]) -> TensorSpec:
        """Add a float32 constant."""
        return self._constant(name, np.ascontiguousarray(values, np.float32))


def exported_graph(
    height: int, width: int, outputs: Mapping[str, Values], dequantized: bool = False
) -> bytes:
    """A graph from int8 "image" [1, height, width, 3] to these int8 outputs, or to the same in float."""
    graph = _Graph(height, width, np.int8)
    for name, values in outputs.items():
        fixed = graph.fixed(name, values)
        graph.output(graph.dequantized(fixed) if dequantized else fixed)
    return graph.build()


def post_processed_graph(
    height: int,
    width: int,
    encodings: Values,
    scores: Values,
    anchors: NDArray[np.float32],
    **options: float,
) -> bytes:
    """A graph from uint8 "image" to the outputs of TFLite_Detection_PostProcess with these anchors."""
    graph = _Graph(height, width, np.uint8)
    inputs = [graph.dequantized(graph.fixed(*each)) for each in (("boxes", encodings), ("scores", scores))]
    most = int(options["max_detections"])
    shapes = (1, most, 4), (1, most), (1, most), (1,)
    names = (f"StatefulPartitionedCall:{number}" for number in (3, 2, 1, 0))
    results = [
        TensorSpec(name, shape, np.dtype(np.float32), 0.0, 0)
        for name, shape in zip(names, shapes, strict=True)
    ]
    found = graph.custom(
        POST_PROCESS, [*inputs, graph.floats("anchors", anchors)], results, flexbuffer.encode(options)
    )
    for result in found[::-1]:
        graph.output(result)
    return graph.build()
