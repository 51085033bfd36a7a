"""The segmenter: a label for every pixel of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Frame, ModelLike, Outputs, VisionAlgorithm, whole_output
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.output_maps import channels_last, fits_aspect, with_channels_last, with_rows
from edgetpu_vision.output_values import is_quantised, single_output
from edgetpu_vision.segmentation.label_maps_from_scores import LabelMap, label_map_of_values, resized_labels
from edgetpu_vision.segmentation.segmentation import Segmentation

_MOST_UINT8 = 256
"""Number of classes whose numbers fit into uint8."""
_MOST_UINT16 = 2**16
"""Number of classes whose numbers fit into uint16; a model with more is refused."""


class Segmenter(VisionAlgorithm[Segmentation]):
    """Labels the pixels of an image, by a model with one output: a map of labels, or of values of each class.

    A map with a single value per pixel has two classes: 1 where a probability is at least 0.5 or a logit at
    least 0, and 0 elsewhere.
    """

    def __init__(self, model: ModelLike | None = None, *, output: str = "", **options: Any) -> None:
        """Prepare for a model; see VisionAlgorithm. output: name of the output, if the model has several."""
        self._output_name = output
        super().__init__(model, **options)

    def _recognise(self, image: TensorSpec, outputs: Sequence[TensorSpec]) -> None:
        rows, columns = image.shape[1:3]
        self._output = single_output(
            [with_rows(each, rows, columns) for each in outputs],
            self._output_name,
            lambda each: self._is_map(channels_last(each, rows / columns), rows / columns),
            f"a map of labels or of values of each class, for an input of {columns}x{rows} px",
        )
        spec = channels_last(self._output, rows / columns)
        self._has_labels = self._holds_labels(spec)
        if not self._has_labels and len(spec.shape) == 3:  # a single value, without an axis for it
            self._output = spec = replace(spec, shape=(*spec.shape, 1))
        count = self.description.class_counts.get(spec.name)
        if not self._has_labels:
            count = max(spec.shape[3], 2)
        if count is not None and count > _MOST_UINT16:
            raise ModelUnsupportedError(f"expected at most {_MOST_UINT16} classes; got {count}")
        self.use_labels(count)
        self._names = self.labels.names if self.labels else ()
        self._count = count
        self._spec = spec
        self._are_probabilities = self.description.are_probabilities(spec)
        self._input_size = image.shape[1:3]

    def postprocess(self, frame: Frame, outputs: Outputs) -> Segmentation:
        """The label of every pixel; OutputsError if the output is missing, misshapen, out of range or NaN."""
        values = with_channels_last(whole_output(outputs, self._output), self._output, self._spec)
        if self._has_labels:
            labels = self._narrow(self._integers(values.reshape(self._spec.shape[1:3])))
        else:
            if values.dtype.kind == "f" and np.isnan(values.max()):
                raise OutputsError(f"expected numbers in the output {self._spec}; got NaN")
            labels = label_map_of_values(values[0], self._spec, self._input_size, self._are_probabilities)
        return Segmentation(frame.stamp, _of_image(labels, frame), self._names)

    def _integers(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Labels as integers where the graph has quantised them like other numbers."""
        if not is_quantised(self._spec) or _are_integers(self._spec):
            return labels
        return np.rint(self._spec.dequantise(labels)).astype(np.int32)

    def _narrow(self, labels: NDArray[Any]) -> LabelMap:
        """The same labels in 8 bits if they fit, otherwise in 16."""
        if labels.dtype == np.uint8:
            return labels
        if self._count is not None:
            return _cast(labels, self._count)
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= _MOST_UINT16:
            raise OutputsError(
                f"expected labels from 0 to {_MOST_UINT16 - 1} in '{self._spec.name}'; got {low}..{high}"
            )
        return _cast(labels, high + 1)

    def _is_map(self, spec: TensorSpec, aspect: float) -> bool:
        """Whether an output may be a map of an image of this aspect ratio, rows to columns."""
        return (
            len(spec.shape) in (3, 4)
            and spec.shape[0] == 1
            and min(spec.shape[1:3]) > 1
            and fits_aspect(spec.shape[1], spec.shape[2], aspect)
        )

    def _holds_labels(self, spec: TensorSpec) -> bool:
        """Whether the values of an output are labels.

        They are if the graph takes the argmax of the classes, or if they are integers without a scale, or
        with a scale of 1 and a zero point of 0.
        """
        if len(spec.shape) != 3 and spec.shape[3:] != (1,):
            return False
        if spec.name in self.description.class_counts:
            return True
        return spec.dtype.kind in "iu" and (not is_quantised(spec) or _are_integers(spec))


def _are_integers(spec: TensorSpec) -> bool:
    """Whether the quantisation leaves integers as they are."""
    return (spec.scale, spec.zero_point) == (1.0, 0)


def _cast(labels: NDArray[Any], count: int) -> LabelMap:
    return labels.astype(np.uint8) if count <= _MOST_UINT8 else labels.astype(np.uint16)


def _of_image(labels: LabelMap, frame: Frame) -> LabelMap:
    """A map of the model's input resized to the image."""
    placement, size = frame.placement, (frame.image_width, frame.image_height)
    region = placement.region
    y, x = labels.shape[0] / placement.input_height, labels.shape[1] / placement.input_width
    rows, columns = (placement.top * y, placement.height * y), (placement.left * x, placement.width * x)
    resized = resized_labels(labels, region.height, region.width, rows, columns)
    if (region.width, region.height) == size:
        return resized
    whole = np.zeros((size[1], size[0]), labels.dtype)
    left, top = region.x_offset, region.y_offset
    whole[top : top + region.height, left : left + region.width] = resized
    return whole
