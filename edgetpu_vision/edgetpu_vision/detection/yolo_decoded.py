"""YOLO outputs whose boxes and probabilities the graph has computed: one row, or column, for each anchor.

YOLOv5's rows are x, y, width, height, objectness, probability of each class; those of YOLOv8 and later have
no objectness. End-to-end models give the corners, score and class of a few hundred boxes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.detection.candidates import NONE, Candidates
from edgetpu_vision.detection.head import Head, Table, logit, reaching
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.output_values import real_range, sigmoid

_LARGEST_NORMALISED = 2.0
"""Coordinates above are px: boxes as parts of the image end at 1, and hardly beyond."""

_LARGEST_PROBABILITY = 1.5
"""Greater values are no probabilities: the range of a quantised output may exceed 1, as boxes do."""


class DecodedHead(Head):
    """Centre and size of boxes with probabilities of classes, each in the same or in an output of its own."""

    def __init__(
        self,
        boxes: Table,
        scores: Table,
        first: int,
        classes: int,
        size: tuple[int, int],
        objectness: int | None = None,
        are_logits: bool = False,
    ) -> None:
        """Prepare for outputs of these layouts.

        boxes: its first four channels are the boxes. scores: `classes` of its channels from `first` on are
        probabilities, and channel `objectness` their common factor. size: input height and width, px.
        are_logits: whether those of `scores` are logits instead.
        """
        self._boxes = boxes
        self._scores = scores
        self._first = first
        self.classes = classes
        self._objectness = objectness
        self._are_logits = are_logits
        self._size = np.array((size[1], size[0], size[1], size[0]), np.float32)

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes whose best class has at least this score."""
        table, last = self._scores.of(outputs), self._first + (self.classes or 0)
        least = self._scores.least(logit(min_score) if self._are_logits else min_score)
        if self._objectness is not None:  # no score is above it
            anchors = np.flatnonzero(table[:, self._objectness] >= least)
        else:
            found, _ = reaching(table[:, self._first : last], least)
            anchors = np.unique(found)
        if not anchors.size:
            return NONE
        rows = self._scores.real(table[anchors])
        if self._are_logits:
            rows = sigmoid(rows)
        probabilities = rows[:, self._first : last]
        classes = probabilities.argmax(axis=1)
        scores = np.take_along_axis(probabilities, classes[:, None], axis=1)[:, 0]
        if self._objectness is not None:
            scores = scores * rows[:, self._objectness]
        if scores.max() > _LARGEST_PROBABILITY:
            raise OutputsError(
                f"expected probabilities in '{self._scores.spec.name}'; got {scores.max():.3g}: give the "
                "model's labels, whose number tells its kind"
            )
        scores = np.minimum(scores, np.float32(1))
        kept = np.flatnonzero(scores >= min_score)
        boxes = self._boxes.real(self._boxes.of(outputs)[anchors[kept], :4])
        return Candidates(self._corners(boxes), classes[kept], scores[kept])

    def _corners(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        boxes = in_px(boxes, self._boxes, self._size)
        centres, halves = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate((centres - halves, centres + halves), axis=1)


class EndToEndHead(Head):
    """Corners, score and class of boxes that compete no more, [1, n, 6]."""

    suppressed = True

    def __init__(self, table: Table, size: tuple[int, int]) -> None:
        """size: input height and width, px."""
        self._table = table
        self._size = np.array((size[1], size[0], size[1], size[0]), np.float32)

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes with at least this score."""
        rows = self._table.real(self._table.of(outputs))
        rows = rows[rows[:, 4] >= min_score]
        boxes = in_px(rows[:, :4], self._table, self._size)
        return Candidates(boxes, np.rint(rows[:, 5]).astype(np.intp), rows[:, 4])


def in_px(boxes: NDArray[np.float32], table: Table, size: NDArray[np.float32]) -> NDArray[np.float32]:
    """Coordinates [n, 4] in px of the input, whether they are that already or parts of it.

    A quantised output tells by its range, another one by the coordinates at hand.
    """
    limits = real_range(table.spec)
    largest = limits[1] if limits is not None else boxes.max(initial=0)
    return boxes if largest > _LARGEST_NORMALISED else boxes * size
