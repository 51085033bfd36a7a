"""Exported detectors whose outputs describe two objects, and checks of the objects found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_vision import Detection, Detector
from testdata.graphs.exported_graphs import Values, exported_graph

SIZE = 160
CELLS = 525
"""Number of cells: 20x20, 10x10 and 5x5."""
IMAGE = np.zeros((2 * SIZE, 2 * SIZE, 3), np.uint8)
STEP = 1 / 200
"""Quantisation step of the outputs; all values are multiples of it, so that results are exact."""
CAT = (3, 0.9, (0.25, 0.5, 0.2, 0.1))
DOG = (1, 0.6, (0.75, 0.25, 0.4, 0.3))
"""Class, score, and centre and size of the box in shares of the image."""


def detector(
    path: Path, outputs: Mapping[str, Values], size: int = SIZE, dequantized: bool = False, **options: Any
) -> Detector:
    """A detector with a model file at `path` that has these outputs, or the same in float."""
    file = path / "exported.tflite"
    file.write_bytes(exported_graph(size, size, outputs, dequantized))
    return Detector(file, **options)


def rows(
    count: int, channels: int, objects: Sequence[Any] = (CAT, DOG), first: int = 4
) -> NDArray[np.float64]:
    """Rows, [count, channels], with each object in one row, and with a lower score in the next row."""
    values = np.zeros((count, channels))
    for number, (class_id, score, box) in enumerate(objects):
        for row, factor in ((7 * number + 5, 1.0), (7 * number + 6, 0.5)):
            values[row, :4] = box
            values[row, first + class_id] = score * factor
    return values


def check(found: Sequence[Detection], objects: Sequence[Any] = (CAT, DOG)) -> None:
    """Check that exactly these objects were found, in px of IMAGE."""
    assert [each.class_id for each in found] == [class_id for class_id, _, _ in objects]
    for each, (_, score, box) in zip(found, objects, strict=True):
        assert each.score == pytest.approx(score, abs=1e-5)
        expected = np.array(box) * 2 * SIZE
        assert (*each.center, each.width, each.height) == pytest.approx(tuple(expected), abs=1e-3)


def corners_of(objects: Sequence[Any]) -> list[list[float]]:
    """Objects as rows of corners, score and class."""
    return [
        [x - width / 2, y - height / 2, x + width / 2, y + height / 2, score, class_id]
        for class_id, score, (x, y, width, height) in objects
    ]
