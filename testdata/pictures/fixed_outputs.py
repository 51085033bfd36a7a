"""A model with given outputs, for tests of decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec

IMAGE = np.zeros((16, 24, 3), np.uint8)
"""An image, which may be any, since outputs do not depend on it."""


class FixedOutputs:
    """An engine that answers every image with the same arrays.

    Float arrays are outputs without a scale; quantised outputs are given as (array, scale, zero point).
    """

    def __init__(self, height: int, width: int, outputs: Mapping[str, Any]) -> None:
        self.inputs = (TensorSpec("image", (1, height, width, 3), np.dtype(np.uint8), 1 / 128, 128),)
        quantised = {
            name: each if isinstance(each, tuple) else (each, 0.0, 0) for name, each in outputs.items()
        }
        self._arrays = {name: array for name, (array, _, _) in quantised.items()}
        self.outputs = tuple(
            TensorSpec(name, array.shape, array.dtype, scale, zero_point)
            for name, (array, scale, zero_point) in quantised.items()
        )

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the arrays, whatever the image is."""
        assert set(inputs) == {"image"}
        return dict(self._arrays)


def spec(
    name: str, shape: Sequence[int], dtype: Any = np.float32, scale: float = 0.0, zero_point: int = 0
) -> TensorSpec:
    """A tensor's specification, by default float32."""
    return TensorSpec(name, tuple(shape), np.dtype(dtype), scale, zero_point)


def fixed(outputs: Mapping[TensorSpec, NDArray[Any]], size: tuple[int, int] = (8, 8)) -> FixedOutputs:
    """An engine that answers with these arrays; size: height and width of its input."""
    arrays = {each.name: (array, each.scale, each.zero_point) for each, array in outputs.items()}
    return FixedOutputs(*size, arrays)
