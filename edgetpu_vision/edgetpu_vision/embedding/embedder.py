"""The embedder: an image as a vector of unit length."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Frame, ModelLike, Outputs, VisionAlgorithm, whole_output
from edgetpu_vision.embedding.embedding import Embedding
from edgetpu_vision.output_maps import channels_last, with_channels_last
from edgetpu_vision.output_values import is_quantised, real_values, single_output

_FEWEST_VALUES = 2
"""A vector of one value has no direction."""
_FEWEST_CHANNELS = 8
"""Maps with fewer channels hold coordinates or classes. Uncritical: feature maps have 16 and more."""


class Embedder(VisionAlgorithm[Embedding]):
    """Computes the embedding of an image, by a model whose output is a feature vector or a feature map."""

    def __init__(self, model: ModelLike | None = None, *, output: str = "", **options: Any) -> None:
        """Prepare for a model; see VisionAlgorithm. output: name of the output, if the model has several."""
        self._output_name = output
        super().__init__(model, **options)

    @property
    def size(self) -> int:
        """Number of values of an embedding; ModelUnsupportedError before the first `bind`."""
        if self._preprocessor is None:
            raise ModelUnsupportedError("expected a model to be bound before its size is asked for; got none")
        return max(self._spec.shape) if _is_vector(self._spec) else self._spec.shape[-1]

    def _recognise(self, image: TensorSpec, outputs: Sequence[TensorSpec]) -> None:
        aspect = image.shape[1] / image.shape[2]
        self._output = single_output(
            outputs,
            self._output_name,
            lambda each: _has_features(channels_last(each, aspect)),
            "a feature vector",
        )
        self._spec = channels_last(self._output, aspect)

    def postprocess(self, frame: Frame, outputs: Outputs) -> Embedding:
        """The model's output as a unit vector, float32 [size]; a feature map is averaged over its cells.

        Raises OutputsError if the output is missing or of another size.
        """
        values = with_channels_last(whole_output(outputs, self._output), self._output, self._spec)
        values = real_values(values, self._spec)
        vector = values.reshape(-1, self.size).mean(axis=0, dtype=np.float64)
        length = float(np.linalg.norm(vector))
        if not (0 < length < np.inf):  # false for NaN
            return Embedding(frame.stamp, np.zeros(self.size, np.float32), valid=False)
        return Embedding(frame.stamp, (vector / length).astype(np.float32), valid=True)


def _has_features(spec: TensorSpec) -> bool:
    """Whether an output is a vector, or a map [1, rows, columns, n], of real values."""
    shape = spec.shape
    real = spec.dtype.kind == "f" or is_quantised(spec)
    if _is_vector(spec):
        return real and max(shape) >= _FEWEST_VALUES
    return real and len(shape) == 4 and shape[0] == 1 and shape[-1] >= _FEWEST_CHANNELS


def _is_vector(spec: TensorSpec) -> bool:
    return bool(spec.shape) and prod(spec.shape) == max(spec.shape)
