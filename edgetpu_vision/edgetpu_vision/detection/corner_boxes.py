"""Boxes that the model decodes to corners, with scores of background and object, as UltraFace has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.detection.anchor_values import Table
from edgetpu_vision.detection.box_output import BOX, OutputRoles
from edgetpu_vision.detection.head import Head
from edgetpu_vision.detection.non_maximum_suppression import Candidates
from edgetpu_vision.detection.yolo_decoded import are_corners
from edgetpu_vision.errors import OutputsError

_BACKGROUND_AND_OBJECT = 2
"""Scores of each box."""
_LEAST, _GREATEST = -1.0, 2.0
"""Limits of the range of corners as parts of the image. Chosen: the largest anchors of UltraFace are as large
as the image, so that half of those at its edges is outside."""
_CENTRE = (0.3, 0.7)
"""Limits of the centre of that range. Chosen: that of the image is 0.5, that of encoded boxes about 0."""
_SUM_SLACK = 0.02
"""How far the sum of two probabilities may differ from 1: two steps of 8 bits, and rounding."""
_LEAST_QUOTIENT = 2.0
"""Least quotient of the ways that x and y cover from box to box, row by row. Chosen: x crosses the image with
every row of boxes, y once for each map; what the boxes are off their anchors adds to both."""


def corner_boxes_head(first: Table, second: Table, size: tuple[int, int], roles: OutputRoles) -> Head | None:
    """The head for corners [1, n, 4] and scores [1, n, 2], in any order; None if the range is another.

    size: height and width of the input, px. Boxes without a quantised range may be anything.
    """
    boxes, scores = roles.ordered(first, second, encoded=True)
    limits = roles.range_of(boxes.spec)
    if boxes.channels != BOX or scores.channels != _BACKGROUND_AND_OBJECT or limits is None:
        return None
    centred = _CENTRE[0] <= (limits[0] + limits[1]) / 2 <= _CENTRE[1]
    if not centred or limits[0] < _LEAST or limits[1] > _GREATEST or roles.are_logits(scores.spec):
        return None
    return CornerBoxesHead(boxes, scores, size)


class CornerBoxesHead(Head):
    """Corners as parts of the image, x or y first, and the probabilities of the background and of an object.

    The boxes of the first image tell whether x is first, since boxes follow each other along the rows.
    """

    classes = 1

    def __init__(self, boxes: Table, scores: Table, size: tuple[int, int]) -> None:
        """size: input height and width, px."""
        self._boxes, self._scores = boxes, scores
        self._size = np.array((size[1], size[0], size[1], size[0]), np.float32)
        self._order: list[int] | None = None
        """Channels of x_min, y_min, x_max, y_max; None: not known yet."""

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes with at least this score; OutputsError if the values are no corners and probabilities."""
        rows, scores = self._boxes.of(outputs), self._scores.of(outputs)
        if self._order is None:
            self._order = self._order_of(rows, scores)
        kept = np.flatnonzero(scores[:, 1] >= self._scores.least(min_score))
        boxes = self._boxes.real(rows[kept])[:, self._order] * self._size
        found = np.minimum(self._scores.real(scores[kept, 1]), np.float32(1))
        return Candidates(boxes, np.zeros(kept.size, np.intp), found)

    def _order_of(self, rows: NDArray[Any], scores: NDArray[Any]) -> list[int]:
        sums = self._scores.real(scores).sum(axis=1)
        worst = float(sums[np.abs(sums - 1).argmax()])
        if not abs(worst - 1) <= _SUM_SLACK:  # NaN is worse
            raise self._error(f"two scores whose sum is 1 in {self._scores.spec}", f"{worst:.3g}")
        if not are_corners(rows):
            raise self._error(f"corners in {self._boxes.spec}", "a second corner left of or above the first")
        real = self._boxes.real(rows)
        x, y = np.abs(np.diff(real[:, :2] + real[:, 2:], axis=0)).sum(axis=0).tolist()
        if max(x, y) < _LEAST_QUOTIENT * min(x, y):
            raise self._error(f"boxes along the rows of the image in {self._boxes.spec}", "another order")
        return [0, 1, 2, 3] if x > y else [1, 0, 3, 2]

    def _error(self, expected: str, came: str) -> OutputsError:
        return OutputsError(
            f"expected {expected}; got {came}: if the boxes are encoded, the model needs its anchors"
        )
