"""Values for anchors and channels in a detector's outputs: tables, scores and numbers of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs, output
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.labels.labels import MOST_CLASSES
from edgetpu_vision.output_values import is_quantised, real_values, sigmoid

LARGEST_PROBABILITY = 1.5
"""Largest value taken as a probability: a quantised output may exceed 1 if it also holds boxes."""


@dataclass(frozen=True)
class Table:
    """An output that holds values for anchors and channels, in either order."""

    spec: TensorSpec
    anchors: int
    channels: int
    channels_first: bool = False

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """The values as the model gives them, a view [anchors, channels].

        Raises OutputsError if the output is missing or has another number of values.
        """
        values = output(outputs, self.spec.name)
        if values.size != self.anchors * self.channels:
            raise OutputsError(f"expected {self.spec}; got {values.dtype.name}{list(values.shape)}")
        if self.channels_first:
            return values.reshape(self.channels, self.anchors).T
        return values.reshape(self.anchors, self.channels)

    def real(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Some of the values, of any shape, as real numbers."""
        return real_values(values, self.spec)

    def least(self, real: float) -> float:
        """Least quantised number of the output whose real value is at least this."""
        return least_value(self.spec, real)


def least_value(spec: TensorSpec, real: float) -> float:
    """The least output number with at least this real value; an integer for integer outputs."""
    if not is_quantised(spec):
        return real
    if spec.dtype.itemsize > 1:
        return int(np.clip(np.ceil(real / spec.scale + spec.zero_point), -(2**31), 2**31))
    limits = np.iinfo(spec.dtype)
    levels = np.arange(limits.min, limits.max + 1)
    return int(limits.min + np.searchsorted(spec.dequantise(levels), np.float32(real)))


def reaching(values: NDArray[Any], least: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of anchors and of channels where values [anchors, channels] are at least this large."""
    if values.strides[0] < values.strides[1]:  # a transposed view: search it in the order of memory
        channels, anchors = reaching(values.T, least)
        return anchors, channels
    found = np.flatnonzero(values >= least)
    anchors, channels = np.divmod(found, values.shape[1])
    return anchors, channels


def checked_scores(scores: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """Scores of any shape, at most 1; OutputsError if those of an output `name` are not probabilities."""
    greatest = float(np.fmax.reduce(scores, initial=0.0))
    if greatest > LARGEST_PROBABILITY:
        raise OutputsError(f"expected scores from 0 to 1 in '{name}'; got {greatest:.3g}")
    return np.minimum(scores, np.float32(1))


def scores_of(real: NDArray[np.float32], are_probabilities: bool) -> NDArray[np.float32]:
    """Scores, at most 1, from real values of any shape.

    real: probabilities, whose range may exceed 1 by one 8-bit step, or logits.
    """
    return np.minimum(real, np.float32(1)) if are_probabilities else sigmoid(real)


def class_numbers(values: NDArray[np.float32]) -> NDArray[np.intp]:
    """Numbers of classes from real values of any shape; -1 for NaN and numbers that no model has."""
    senseless = ~(np.abs(values) <= MOST_CLASSES - 1)  # conversion to integers depends on the processor
    numbers: NDArray[np.intp] = np.rint(np.where(senseless, -1, values)).astype(np.intp)
    return numbers


def logit(probability: float) -> float:
    """The argument that the sigmoid maps to a probability; infinite for 0 and 1."""
    with np.errstate(divide="ignore"):
        return float(np.log(probability) - np.log1p(-probability))
