"""Baseline decoders as in common examples: all values are converted to real numbers, then decoded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec

_IOU = 0.6


class Box(NamedTuple):
    """A detection: class, score, and the box in shares of the image."""

    class_id: int
    score: float
    y_min: float
    x_min: float
    y_max: float
    x_max: float


def classify(
    values: NDArray[Any], spec: TensorSpec, labels: list[str], count: int
) -> list[tuple[str, float]]:
    """The most probable classes with their labels."""
    scores = spec.scale * (values.reshape(-1).astype(np.int64) - spec.zero_point)
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [(labels[index], float(scores[index])) for index in order[:count]]


def detect(
    encodings: NDArray[Any],
    boxes_spec: TensorSpec,
    scores: NDArray[Any],
    scores_spec: TensorSpec,
    anchors: NDArray[np.float32],
    least: float,
) -> list[Box]:
    """Detections of an SSD: all boxes are decoded, then suppressed class by class."""
    real = boxes_spec.scale * (encodings[0].astype(np.float32) - boxes_spec.zero_point)
    probabilities = scores_spec.scale * (scores[0].astype(np.float32) - scores_spec.zero_point)
    y = real[:, 0] / 10 * anchors[:, 2] + anchors[:, 0]
    x = real[:, 1] / 10 * anchors[:, 3] + anchors[:, 1]
    height = np.exp(real[:, 2] / 5) * anchors[:, 2]
    width = np.exp(real[:, 3] / 5) * anchors[:, 3]
    boxes = np.stack((y - height / 2, x - width / 2, y + height / 2, x + width / 2), axis=1)
    found = []
    for class_id in range(probabilities.shape[1] - 1):
        column = probabilities[:, class_id + 1]
        chosen = np.where(column >= least)[0]
        kept = chosen[_suppressed(boxes[chosen], column[chosen])]
        found += [Box(class_id, float(column[index]), *map(float, boxes[index])) for index in kept]
    return sorted(found, key=lambda box: -box.score)


def _suppressed(boxes: NDArray[np.float32], scores: NDArray[np.float32]) -> list[int]:
    """Indices of the boxes that do not overlap with a better one, as in tutorials."""
    order = scores.argsort()[::-1]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    while order.size:
        best, others = order[0], order[1:]
        kept.append(int(best))
        height = np.minimum(boxes[best, 2], boxes[others, 2]) - np.maximum(boxes[best, 0], boxes[others, 0])
        width = np.minimum(boxes[best, 3], boxes[others, 3]) - np.maximum(boxes[best, 1], boxes[others, 1])
        overlap = np.maximum(height, 0) * np.maximum(width, 0)
        order = others[overlap / (areas[best] + areas[others] - overlap) <= _IOU]
    return kept
