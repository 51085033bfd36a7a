"""YOLO outputs as the last convolutions give them: logits, and boxes relative to the cells of grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs, output
from edgetpu_vision.detection.anchor_values import Table, least_value, logit, reaching, scores_of
from edgetpu_vision.detection.head import Head
from edgetpu_vision.detection.non_maximum_suppression import NONE, Candidates, joined
from edgetpu_vision.detection.yolo_grids import Grids
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.output_values import always_probabilities, real_values, sigmoid, within_0_and_1

_OBJECTNESS = 4
"""Channel of the objectness, after the four of the box."""

YOLOV5_ANCHORS = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
"""Width and height of the anchors of each grid, px, in the published models for 640x640 px."""
PUBLISHED_ANCHORS = {
    ("yolov3", 2): (((10, 14), (23, 27), (37, 58)), ((81, 82), (135, 169), (344, 319))),
    ("yolov3", 3): YOLOV5_ANCHORS,
    ("yolov4", 2): (((23, 27), (37, 58), (81, 82)), ((81, 82), (135, 169), (344, 319))),
    ("yolov4", 3): (
        ((12, 16), (19, 36), (40, 28)),
        ((36, 75), (76, 55), (72, 146)),
        ((142, 110), (192, 243), (459, 401)),
    ),
    ("yolov5", 3): YOLOV5_ANCHORS,
}
"""The same by family and number of grids; two are those of tiny models, with strides of 16 and 32 px. The
authors of YOLOv3 and v4 have them in yolov3.cfg, yolov3-tiny.cfg, yolov4.cfg and yolov4-tiny.cfg."""
CENTRE_RANGES = {("yolov4", 2): (1.05, 1.05), ("yolov4", 3): (1.2, 1.1, 1.05)}
"""Range of the centre of a box around its cell, cells, for each grid: scale_x_y in the same files."""


class DistributionHead(Head):
    """Boxes as distributions of the distances from a cell to the box's four edges, and logits of classes.

    These are the outputs of YOLOv8 and later without their last step. The distances are in cells, from the
    centre of the cell.
    """

    def __init__(
        self,
        boxes: Sequence[Table],
        scores: Sequence[Table],
        grids: Grids,
        first: int,
        classes: int,
        bins: int,
    ) -> None:
        """Prepare for outputs of these layouts.

        boxes, scores: a table for all grids, or one for each. first: channel of the first class in `scores`.
        bins: number of bins in the distribution of a distance; 1: the value is the distance itself.
        """
        self._boxes = boxes
        self._scores = scores
        self._first = first
        self.classes = classes
        self._bins = bins
        self._centres = grids.corners() + np.float32(0.5)
        self._strides = grids.cell_strides()

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes whose best class has at least this score."""
        parts, start = [], 0
        for boxes, scores in zip(self._boxes, self._scores, strict=True):
            parts.append(self._of_part(outputs, boxes, scores, start, min_score))
            start += scores.anchors
        return joined(parts)

    def _of_part(
        self, outputs: Outputs, boxes: Table, scores: Table, start: int, min_score: float
    ) -> Candidates:
        """The boxes of an output whose first cell is `start`."""
        values = scores.of(outputs)[:, self._first : self._first + (self.classes or 0)]
        probabilities = always_probabilities(scores.spec)
        if probabilities is None:
            probabilities = within_0_and_1(values, scores.spec)
        found, _ = reaching(values, scores.least(min_score if probabilities else logit(min_score)))
        anchors = np.unique(found)
        if not anchors.size:
            return NONE
        real = scores.real(values[anchors])
        classes = real.argmax(axis=1)
        best = np.take_along_axis(real, classes[:, None], axis=1)[:, 0]
        distances = self._distances(boxes.real(boxes.of(outputs)[anchors, : 4 * self._bins]))
        cells = anchors + start
        centres, strides = self._centres[cells], self._strides[cells, None]
        corners = np.concatenate((centres - distances[:, :2], centres + distances[:, 2:]), axis=1) * strides
        return Candidates(corners, classes, scores_of(best, probabilities))

    def _distances(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Distances to the left, upper, right and lower edge, cells, [n, 4]: means of the distributions."""
        if self._bins == 1:
            return values
        bins = values.reshape(-1, 4, self._bins)
        weights = np.exp(bins - bins.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        means: NDArray[np.float32] = weights @ np.arange(self._bins, dtype=np.float32)
        return means


@dataclass(frozen=True)
class AnchorMap:
    """An output that holds channels for anchors and the cells of one grid."""

    spec: TensorSpec
    cells: int
    anchors: int
    """Number of anchors of each cell."""
    channels: int
    order: tuple[int, int, int]
    """Axes of the cells, anchors and channels, with rows and columns merged into one axis."""

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """The values as the model gives them, a view [cells, anchors, channels].

        Raises OutputsError if the output is missing or has another number of values.
        """
        values = output(outputs, self.spec.name)
        extents = self.cells, self.anchors, self.channels
        if values.size != prod(extents):
            raise OutputsError(f"expected {self.spec}; got {values.dtype.name}{list(values.shape)}")
        shape = [0, 0, 0]
        for axis, extent in zip(self.order, extents, strict=True):
            shape[axis] = extent
        return values.reshape(shape).transpose(self.order)


class AnchorMapsHead(Head):
    """A map for each grid with logits of x, y, width, height, objectness and classes for each of its anchors.

    These are the outputs of YOLOv3, v4 or v5 without its last step.
    """

    def __init__(
        self,
        maps: Sequence[AnchorMap],
        grids: Grids,
        anchors: NDArray[np.float32],
        centre_ranges: Sequence[float],
        exponential: bool,
    ) -> None:
        """Prepare for outputs of these layouts.

        anchors: float32[grids, anchors of a cell, 2], width and height in px of the input. centre_ranges:
        for each grid, the range of the centre of a box around its cell, cells; with 1 it stays inside.
        exponential: whether sizes are exponentials, as in YOLOv3 and v4, rather than squares.
        """
        self._maps = maps
        self.classes = maps[0].channels - _OBJECTNESS - 1
        self._grids = grids
        self._anchors = anchors
        self._centre_ranges = centre_ranges
        self._exponential = exponential

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes whose best class has at least this score."""
        return joined([self._of_grid(outputs, number, min_score) for number in range(len(self._maps))])

    def _of_grid(self, outputs: Outputs, number: int, min_score: float) -> Candidates:
        values = self._maps[number].of(outputs)
        spec = self._maps[number].spec
        least = least_value(spec, logit(min_score))
        cells, shapes = np.nonzero(values[:, :, _OBJECTNESS] >= least)  # no score exceeds the objectness
        real = real_values(values[cells, shapes], spec)
        rows = sigmoid(real)
        classes = rows[:, _OBJECTNESS + 1 :].argmax(axis=1)
        scores = rows[:, _OBJECTNESS] * rows[np.arange(len(rows)), _OBJECTNESS + 1 + classes]
        kept = np.flatnonzero(scores >= min_score)
        y, x = np.divmod(cells[kept], self._grids.sizes[number][1])
        corners = np.stack((x, y), axis=1).astype(np.float32)
        half = np.float32(0.5)
        in_cell = (rows[kept, :2] - half) * np.float32(self._centre_ranges[number]) + half
        factors = np.exp(real[kept, 2:4]) if self._exponential else (rows[kept, 2:4] * 2) ** 2
        centres = (in_cell + corners) * self._grids.strides[number]
        halves = factors * self._anchors[number, shapes[kept]] / 2
        boxes = np.concatenate((centres - halves, centres + halves), axis=1)
        return Candidates(boxes, classes[kept], scores[kept])
