"""Masks of objects, from the prototypes of a YOLO instance segmentation model.

The mask of an object is the part of its box in which a weighted sum of 32 prototypes is above 0; each object
has its own weights: "YOLACT: Real-time Instance Segmentation" (Bolya et al., 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Frame, Outputs, whole_output
from edgetpu_vision.detection.detections import Detection, InstanceMap
from edgetpu_vision.detection.yolo_channels import MASKS
from edgetpu_vision.output_values import real_values
from edgetpu_vision.preprocessing.image_fit import Placement

_MOST_IN_8_BITS = 255
"""Largest number of instances in a uint8 map, where 0 is the background; with more the map is uint16."""


@dataclass(frozen=True)
class Prototypes:
    """The output with the prototypes."""

    spec: TensorSpec
    """[1, rows, columns, 32] or [1, 32, rows, columns]; they cover the whole input."""

    @classmethod
    def among(cls, outputs: Sequence[TensorSpec]) -> Prototypes | None:
        """The first output with the shape of prototypes; None if there is none."""
        for spec in outputs:
            if len(spec.shape) == 4 and spec.shape[0] == 1 and MASKS in (spec.shape[1], spec.shape[3]):
                return cls(spec)
        return None

    def instances(
        self,
        outputs: Outputs,
        weights: NDArray[np.float32] | None,
        detections: Sequence[Detection],
        frame: Frame,
    ) -> InstanceMap:
        """The map of instances, see Detections.instances.

        weights: float32[n, 32], a row for each detection; None: the map is empty. Raises OutputsError if the
        output is missing or has another number of values.
        """
        values = whole_output(outputs, self.spec).reshape(self.spec.shape)[0]
        values = values if self.spec.shape[3] == MASKS else values.transpose(1, 2, 0)
        size = frame.image_height, frame.image_width
        few = len(detections) <= _MOST_IN_8_BITS
        result: InstanceMap = np.zeros(size, np.uint8) if few else np.zeros(size, np.uint16)
        if weights is None:
            return result
        grid = _Grid.of(frame.placement, *values.shape[:2])
        for index in reversed(range(len(detections))):  # the highest score is written last, over all others
            each = detections[index]
            columns = _pixels(each.x_min, each.x_max, frame.image_width)
            rows = _pixels(each.y_min, each.y_max, frame.image_height)
            if columns.start == columns.stop or rows.start == rows.stop:
                continue
            window = grid.window(rows, columns)
            real = real_values(values[window.rows, window.columns], self.spec)
            mask = window.sampled(real @ weights[index], rows, columns) > 0
            np.putmask(result[rows, columns], mask, np.array(index + 1, result.dtype))
        return result


@dataclass(frozen=True)
class _Window:
    """A part of the prototypes, and the positions of the image's pixels in it."""

    rows: slice
    columns: slice
    to_window: NDArray[np.float64]
    """Affine matrix [2, 3] from pixels of a part of the image to cells of the window."""

    def sampled(self, field: NDArray[np.float32], rows: slice, columns: slice) -> NDArray[np.float32]:
        """The values of this part, [rows, columns], at the pixels, interpolated linearly."""
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        size = columns.stop - columns.start, rows.stop - rows.start
        found: NDArray[np.float32] = cv2.warpAffine(
            field, self.to_window, size, flags=flags, borderMode=cv2.BORDER_REPLICATE
        )
        return found


@dataclass(frozen=True)
class _Grid:
    """Maps the centres of an image's pixels to cells of the prototypes."""

    height: int
    width: int
    x_step: float
    """Cells per pixel."""
    y_step: float
    x_start: float
    """Position of pixel 0, cells."""
    y_start: float

    @classmethod
    def of(cls, placement: Placement, height: int, width: int) -> _Grid:
        """The grid of prototypes with this many rows and columns."""
        region = placement.region
        x_cell, y_cell = width / placement.input_width, height / placement.input_height
        x_step = placement.width / region.width * x_cell
        y_step = placement.height / region.height * y_cell
        x_start = (0.5 - region.x_offset) * x_step + placement.left * x_cell - 0.5
        y_start = (0.5 - region.y_offset) * y_step + placement.top * y_cell - 0.5
        return cls(height, width, x_step, y_step, x_start, y_start)

    def window(self, rows: slice, columns: slice) -> _Window:
        """The cells that are needed for some pixels of the image."""
        x, y = self.x_start + self.x_step * columns.start, self.y_start + self.y_step * rows.start
        right = self.x_start + self.x_step * (columns.stop - 1)
        lower = self.y_start + self.y_step * (rows.stop - 1)
        cell_columns, cell_rows = _cells(x, right, self.width), _cells(y, lower, self.height)
        start = x - cell_columns.start, y - cell_rows.start
        return _Window(
            cell_rows, cell_columns, np.array([[self.x_step, 0, start[0]], [0, self.y_step, start[1]]])
        )


def _cells(first: float, last: float, count: int) -> slice:
    """The cells of a row that are needed to interpolate between two positions."""
    begin = min(max(int(np.floor(first)), 0), count - 1)
    return slice(begin, min(max(int(np.ceil(last)), begin) + 1, count))


def _pixels(low: float, high: float, count: int) -> slice:
    """The pixels of a row whose centres lie between two positions."""
    begin = min(max(int(np.ceil(low - 0.5)), 0), count)
    return slice(begin, max(min(int(np.ceil(high - 0.5)), count), begin))
