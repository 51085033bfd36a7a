"""Boxes that a detector gives as corners, in an output of their own, as YOLO-NAS does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_vision import Detector
from edgetpu_vision.detection.yolo_grids import Grids
from testdata.pictures.fixed_outputs import FixedOutputs

SIZE = 160
GRIDS = Grids(SIZE, SIZE, (8, 16, 32))
IMAGE = np.zeros((SIZE, SIZE, 3), np.uint8)
BOX = [20.0, 40.0, 60.0, 120.0]
"""x_min, y_min, x_max, y_max, px."""

Array = NDArray[np.float32]


def boxes() -> Array:
    """Around the centre of each cell a box of its size, [cells, 4]; BOX for cell 7."""
    strides = GRIDS.cell_strides()[:, None]
    corners = GRIDS.corners() * strides
    found = np.concatenate((corners, corners + strides), axis=1)
    found[7] = BOX
    return found


def as_centres(corners: Array) -> Array:
    sizes = corners[:, 2:] - corners[:, :2]
    return np.concatenate((corners[:, :2] + sizes / 2, sizes), axis=1)


def found(values: Any) -> list[float]:
    scores = np.zeros((1, GRIDS.cells, 3), np.float32)
    scores[0, 7, 1] = 0.9
    detector = Detector(FixedOutputs(SIZE, SIZE, {"boxes": values, "scores": scores}))
    (each,) = detector.update(IMAGE).detections
    return [each.x_min, each.y_min, each.x_max, each.y_max]


@pytest.mark.parametrize("transposed", [False, True], ids=["[1,n,4]", "[1,4,n]"])
@pytest.mark.parametrize("scale", [1, 1 / SIZE], ids=["px", "normalised"])
@pytest.mark.parametrize("corners", [True, False], ids=["corners", "centre and size"])
def test_corners_are_recognised_by_the_boxes_of_all_cells(
    corners: bool, scale: float, transposed: bool
) -> None:
    values = (boxes() if corners else as_centres(boxes())) * np.float32(scale)
    assert found((values.T if transposed else values)[None].copy()) == pytest.approx(BOX, abs=1e-3)


def test_corners_in_8_bits_are_recognised() -> None:
    """Small boxes may lose their width."""
    steps = np.rint(boxes() / 10 - 128).astype(np.int8)[None]
    assert (steps[0, :, 0] == steps[0, :, 2]).any()
    assert found((steps, 10.0, -128)) == BOX


def test_boxes_without_extent_are_centres() -> None:
    values = np.zeros((1, GRIDS.cells, 4), np.float32)
    values[0, 7] = 40, 80, 40, 80
    assert found(values) == BOX
