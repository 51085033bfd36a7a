"""YOLO outputs whose boxes and probabilities the graph has computed: one row, or column, for each anchor.

YOLOv5's rows are x, y, width, height, objectness, probability of each class; those of YOLOv8 and later have
no objectness. End-to-end models give the corners, score and class of a few hundred boxes. Models of oriented
boxes have the angle in the last channel, and always give centre and size instead of corners.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.detection.anchor_values import (
    LARGEST_PROBABILITY,
    Table,
    checked_scores,
    class_numbers,
    logit,
    reaching,
)
from edgetpu_vision.detection.box_output import LARGEST_NORMALISED
from edgetpu_vision.detection.head import Head
from edgetpu_vision.detection.instance_masks import Prototypes
from edgetpu_vision.detection.non_maximum_suppression import FAR, NONE, Candidates
from edgetpu_vision.detection.yolo_channels import MASKS
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.output_values import is_quantised, is_symmetric, sigmoid

_LARGEST_QUANTISED = 8.0
"""Like LARGEST_NORMALISED, for the range of a quantised output, which may also hold a few class numbers."""
_LEAST_APART = 0.5
"""Least share of boxes whose two corners differ. Uncritical: it only excludes an output of zeros."""

_LEAST_PROBABILITY = -0.1
"""Smaller values are not probabilities, but angles, weights of masks or logits."""


class DecodedHead(Head):
    """Boxes as centre and size, or corners, and the probabilities of their classes, in one output or two."""

    def __init__(
        self,
        boxes: Table,
        scores: Table,
        first: int,
        classes: int,
        size: tuple[int, int],
        objectness: int | None = None,
        are_logits: bool = False,
        angle: int | None = None,
        prototypes: Prototypes | None = None,
        weights: Table | None = None,
    ) -> None:
        """Prepare for outputs of these layouts.

        boxes: its first four channels are the boxes. scores: `classes` of its channels from `first` on are
        probabilities, and channel `objectness` their common factor. size: input height and width, px.
        are_logits: whether `scores` surely has logits instead. angle: channel of `boxes` with the angle.
        prototypes: those of masks. weights: its last channels are mask weights; None for those of `boxes`.
        """
        self._boxes = boxes
        self._scores = scores
        self._probabilities = slice(first, first + classes)
        """The channels of `scores` with the probabilities of classes."""
        self.classes = classes
        self._objectness = objectness
        self._are_logits = are_logits
        self._angle = angle
        self.prototypes = prototypes
        self._weights = weights or boxes
        self._are_corners: bool | None = None if scores is not boxes else False
        """Whether boxes are given as corners, as by YOLO-NAS in a separate output; None: not known yet."""
        self._checked = is_quantised(scores.spec) and not is_symmetric(scores.spec)
        self._size = np.array((size[1], size[0], size[1], size[0]), np.float32)

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes whose best class has at least this score."""
        table = self._scores.of(outputs)
        if not self._checked:  # a range that tells the sign of values was checked before
            self._check(table[:, self._probabilities])
        anchors = self._reaching(table, min_score)
        if not anchors.size:
            return NONE
        classes, scores = self._best_classes(self._scores.real(table[anchors]))
        kept = np.flatnonzero(scores >= min_score)
        anchors, classes, scores = anchors[kept], classes[kept], scores[kept]
        all_rows = self._boxes.of(outputs)
        if self._are_corners is None:  # the boxes of all cells decide, in the first image with an object
            self._are_corners = are_corners(all_rows)
        rows = self._boxes.real(all_rows[anchors])
        angles = None if self._angle is None else rows[:, self._angle]
        weights = None
        if self.prototypes is not None:
            weights = self._weights.real(self._weights.of(outputs)[anchors, -MASKS:])
        return Candidates(self._corners_in_px(rows[:, :4]), classes, scores, angles, weights)

    def _reaching(self, table: NDArray[Any], min_score: float) -> NDArray[np.intp]:
        """The anchors that may have a score of at least `min_score`."""
        least = self._scores.least(logit(min_score) if self._are_logits else min_score)
        if self._objectness is not None:  # no score exceeds the objectness
            return np.flatnonzero(table[:, self._objectness] >= least)
        found, _ = reaching(table[:, self._probabilities], least)
        return np.unique(found)

    def _best_classes(self, rows: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """The most probable class of each row, and its score, at most 1; OutputsError for a larger score."""
        if self._are_logits:
            rows = sigmoid(rows)
        probabilities = rows[:, self._probabilities]
        classes = probabilities.argmax(axis=1)
        scores = np.take_along_axis(probabilities, classes[:, None], axis=1)[:, 0]
        if self._objectness is not None:
            scores = scores * rows[:, self._objectness]
        if scores.max() > LARGEST_PROBABILITY:
            raise self._no_probability(float(scores.max()))
        return classes, np.minimum(scores, np.float32(1))

    def _corners_in_px(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._are_corners:
            return boxes * px_of(centres(boxes), self._boxes, self._size)
        return corners(boxes * px_of(boxes, self._boxes, self._size))

    def _check(self, probabilities: NDArray[Any]) -> None:
        """Take values that are too negative for probabilities in the first image as logits.

        Raises OutputsError if they may also be something else, because classes are not all of the output.
        """
        least = float(self._scores.real(np.fmin.reduce(probabilities, axis=None, initial=0)))
        if least < _LEAST_PROBABILITY and not self._are_logits:
            if self._scores is self._boxes:
                raise self._no_probability(least)
            self._are_logits = True
        self._checked = True

    def _no_probability(self, value: float) -> OutputsError:
        return OutputsError(
            f"expected probabilities in '{self._scores.spec.name}'; got {value:.3g}: give the model's "
            "labels, whose number decides its kind, or name the head"
        )


class EndToEndHead(Head):
    """Corners, score and class of boxes that need no suppression, [1, n, 6 or more].

    Oriented boxes have centre and size instead of corners, and an angle in the last channel.
    """

    suppressed = True

    def __init__(
        self,
        table: Table,
        size: tuple[int, int],
        oriented: bool = False,
        prototypes: Prototypes | None = None,
    ) -> None:
        """size: input height and width, px. prototypes: of masks, whose weights are the last channels."""
        self.prototypes = prototypes
        self._table = table
        self._oriented = oriented
        self._size = np.array((size[1], size[0], size[1], size[0]), np.float32)

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes with at least this score."""
        rows = self._table.real(self._table.of(outputs))
        rows = rows[rows[:, 4] >= min_score]
        boxes = rows[:, :4]
        boxes = boxes * px_of(boxes if self._oriented else centres(boxes), self._table, self._size)
        classes = class_numbers(rows[:, 5])
        scores = checked_scores(rows[:, 4], self._table.spec.name)
        if self._oriented:
            return Candidates(corners(boxes), classes, scores, rows[:, -1])
        weights = None if self.prototypes is None else rows[:, -MASKS:]
        return Candidates(boxes, classes, scores, mask_weights=weights)


def corners(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Boxes [n, 4] of centre and size as x_min, y_min, x_max, y_max."""
    centres, halves = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate((centres - halves, centres + halves), axis=1)


def centres(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """The centres [n, 2] of boxes [n, 4] of x_min, y_min, x_max, y_max."""
    half = np.float32(0.5)
    return half * boxes[:, :2] + half * boxes[:, 2:4]


def are_corners(boxes: NDArray[Any]) -> bool:
    """Whether boxes of all cells, [n, 4], are corners: the second one is never left of or above the first.

    If they were centres and sizes, many sizes would be less than the centres, which cover the whole image.
    The corners of small boxes may be equal in 8 bits.
    """
    ordered, apart = boxes[:, 2:] >= boxes[:, :2], boxes[:, 2:] > boxes[:, :2]
    return bool(ordered.all() and apart.all(axis=1).mean() > _LEAST_APART)


def px_of(positions: NDArray[np.float32], table: Table, size: NDArray[np.float32]) -> NDArray[np.float32]:
    """Factors, float32[4], that convert boxes to px of the input: 1, or the size of the input.

    positions: centres of the boxes, [n, 2 or more], x and y first; unlike edges of large boxes they are in
    the image. For a quantised output the range decides, otherwise the median position. size: of the input.
    """
    if is_quantised(table.spec):
        return np.ones_like(size) if table.spec.real_limits[1] > _LARGEST_QUANTISED else size
    distances = np.abs(positions[:, :2]).max(axis=1)
    distances = distances[distances < FAR]  # false for NaN
    if not distances.size:
        return size
    usual = np.partition(distances, distances.size // 2)[distances.size // 2]
    return np.ones_like(size) if usual > LARGEST_NORMALISED else size
