"""YOLO outputs decoded step by step in float64, from the published definitions of the heads.

A reference for the suite's decoders, with which it shares no code. It is not optimised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]

STRIDES = (8, 16, 32)
"""Side of a cell of each grid, px of the input, in the published models."""
V5_ANCHORS = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
"""Width and height of the anchors of each grid in the published YOLOv5 models, px."""
BINS = 16
"""Number of bins in the distribution of each of a box's four distances, in YOLOv8 and later."""


@dataclass(frozen=True)
class PlainBox:
    """A box that may be an object."""

    class_id: int
    score: float
    corners: tuple[float, ...]
    """Corners x_min, y_min, x_max and y_max, px of the input."""


def grid_sizes(height: int, width: int) -> list[tuple[int, int]]:
    """Rows and columns of each grid for an input of this size, px."""
    return [(ceil(height / stride), ceil(width / stride)) for stride in STRIDES]


def sigmoid(value: Real) -> Real:
    """The logistic function."""
    result: Real = 1 / (1 + np.exp(-value))
    return result


def _box(row: Real, probabilities: Real, objectness: float, unit: tuple[float, float]) -> PlainBox:
    class_id = int(np.argmax(probabilities))
    x, y = row[0] * unit[0], row[1] * unit[1]
    width, height = row[2] * unit[0], row[3] * unit[1]
    corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return PlainBox(class_id, float(objectness * probabilities[class_id]), tuple(map(float, corners)))


def rows_with_objectness(rows: Real, unit: tuple[float, float]) -> Iterator[PlainBox]:
    """YOLOv5: rows [n, 5 + classes] of centre, size, objectness, and class probabilities given an object.

    unit: width and height of the input, px, if the coordinates are shares of the input; otherwise ones.
    """
    return (_box(row[:4], row[5:], float(row[4]), unit) for row in rows)


def rows_without_objectness(rows: Real, unit: tuple[float, float]) -> Iterator[PlainBox]:
    """YOLOv8 and 11: rows [n, 4 + classes] of centre, size, and probability of each class."""
    return (_box(row[:4], row[4:], 1.0, unit) for row in rows)


def anchor_maps(maps: Sequence[Real]) -> Iterator[PlainBox]:
    """YOLOv5 before its last step: logits of each grid, [rows, columns, anchors, 5 + classes]."""
    for values, stride, shapes in zip(maps, STRIDES, V5_ANCHORS, strict=True):
        for row, column, anchor in np.ndindex(values.shape[:3]):
            part = sigmoid(values[row, column, anchor])
            centre = (2 * part[:2] - 0.5 + (column, row)) * stride
            size = (2 * part[2:4]) ** 2 * shapes[anchor]
            yield _box(np.concatenate((centre, size)), part[5:], float(part[4]), (1.0, 1.0))


def distribution_maps(boxes: Sequence[Real], logits: Sequence[Real]) -> Iterator[PlainBox]:
    """YOLOv8 and 11 before their last step.

    boxes: for each grid, [rows, columns, 64], logits of the distances to the left, upper, right and lower
    edge. logits: for each grid, [rows, columns, classes], logits of the classes.
    """
    for box_map, class_map, stride in zip(boxes, logits, STRIDES, strict=True):
        for row, column in np.ndindex(box_map.shape[:2]):
            weights = np.exp(box_map[row, column].reshape(4, BINS))
            left, up, right, down = (weights * np.arange(BINS)).sum(axis=1) / weights.sum(axis=1)
            x, y = column + 0.5, row + 0.5
            corners = np.array([x - left, y - up, x + right, y + down]) * stride
            probabilities = sigmoid(class_map[row, column])
            class_id = int(np.argmax(probabilities))
            yield PlainBox(class_id, float(probabilities[class_id]), tuple(map(float, corners)))


def objects(
    boxes: Iterator[PlainBox], least: float, overlap: float, most: int, height: int, width: int
) -> list[PlainBox]:
    """The boxes that remain after non-maximum suppression in each class, clipped to the input, best first.

    least: lowest score, 0..1. overlap: largest intersection over union, 0..1. most: largest number of boxes.
    """
    found = sorted((box for box in boxes if box.score >= least), key=lambda box: -box.score)
    kept: list[PlainBox] = []
    for box in found:
        rivals = [each for each in kept if each.class_id == box.class_id]
        if all(intersection_over_union(box, each) <= overlap for each in rivals):
            kept.append(box)
    cut = []
    for box in kept[:most]:
        x_min, y_min, x_max, y_max = box.corners
        edges = max(x_min, 0.0), max(y_min, 0.0), min(x_max, float(width)), min(y_max, float(height))
        if edges[2] > edges[0] and edges[3] > edges[1]:
            cut.append(PlainBox(box.class_id, box.score, edges))
    return cut


def intersection_over_union(first: PlainBox, second: PlainBox) -> float:
    """Intersection over union of two boxes, 0..1."""
    a, b = first.corners, second.corners
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)
