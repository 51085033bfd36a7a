"""Label maps from maps with a value for each class."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.output_values import is_quantised, within_0_and_1

LabelMap = NDArray[np.uint8] | NDArray[np.uint16]
"""Class numbers, [rows, columns]."""

_FINE = 2
"""Maps with at least 1/2 of the input's rows and columns are not interpolated. Uncritical: their labels are
off by a pixel or two of the input at most."""


def label_map_of_values(
    values: NDArray[Any], spec: TensorSpec, input_size: tuple[int, ...], are_probabilities: bool | None
) -> LabelMap:
    """The class with the greatest value at each pixel.

    values: [rows, columns, classes]; those of a single class are compared with a threshold. spec: of the
    output. input_size: rows and columns of the model's input. The values of a coarser map are interpolated
    linearly to that size first, as in models with this step in their graph. are_probabilities: rather than
    logits; None if the values decide.
    """
    rows, columns, classes = values.shape
    coarse = rows * _FINE < input_size[0] or columns * _FINE < input_size[1]
    if classes == 1:
        plane = _interpolated(values[:, :, 0], input_size) if coarse else values[:, :, 0]
        return (plane >= _threshold(spec, values, are_probabilities)).astype(np.uint8)
    dtype = np.uint8 if classes <= 256 else np.uint16
    if not coarse:
        greatest: LabelMap = values.argmax(axis=2).astype(dtype)
        return greatest
    best = _interpolated(values[:, :, 0], input_size)
    labels = np.zeros(best.shape, dtype)
    for number in range(1, classes):
        plane = _interpolated(values[:, :, number], input_size)
        np.putmask(labels, plane > best, dtype(number))
        np.maximum(best, plane, out=best)
    return labels


Part = tuple[float, float]
"""Start and extent of a part of a map's axis, in cells."""


def resized_labels(
    labels: LabelMap, height: int, width: int, rows: Part | None = None, columns: Part | None = None
) -> LabelMap:
    """A label map, or a part of it, in another size, as cv2.resize with INTER_NEAREST makes it.

    Copying whole rows of the map and of its transpose takes less time than copying by pixels, as OpenCV does.
    """
    vertical = _sources(labels.shape[0], height, *(rows or (0, labels.shape[0])))
    horizontal = _sources(labels.shape[1], width, *(columns or (0, labels.shape[1])))
    fewer = height < vertical[-1] + 1 - vertical[0]
    if fewer:  # these rows first
        labels = labels.take(vertical, axis=0)
    labels = labels[:, horizontal[0] : horizontal[-1] + 1]
    if width != labels.shape[1]:
        labels = cv2.transpose(cv2.transpose(labels).take(horizontal - horizontal[0], axis=0))
    if fewer:
        return labels
    whole = labels[vertical[0] : vertical[-1] + 1]
    return labels.take(vertical, axis=0) if height > whole.shape[0] else whole


@lru_cache(maxsize=16)
def _sources(extent: int, new_extent: int, start: float, part: float) -> NDArray[np.intp]:
    """For each new row the old one, as OpenCV rounds; ascending."""
    steps = np.arange(new_extent) * (1 / (new_extent / part))
    found: NDArray[np.intp] = np.floor(start + steps).astype(np.intp)
    np.minimum(found, extent - 1, out=found)
    return found


def _interpolated(plane: NDArray[Any], size: tuple[int, ...]) -> NDArray[np.float32]:
    resized: NDArray[np.float32] = cv2.resize(
        plane.astype(np.float32), (size[1], size[0]), interpolation=cv2.INTER_LINEAR
    )
    return resized


def _threshold(spec: TensorSpec, values: NDArray[Any], are_probabilities: bool | None) -> float:
    """The threshold between the two classes of a single value, in the output's own numbers."""
    if are_probabilities is None:
        are_probabilities = within_0_and_1(values, spec)
    real = 0.5 if are_probabilities else 0.0
    return real / spec.scale + spec.zero_point if is_quantised(spec) else real
