"""Candidates from models with two softmax coordinates of the response ("pattern" of LibrEdgeTPU)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.graphs.pattern_tracker_correlation import quantise
from edgetpu_perception.pattern_tracker.correlation_locator import MAX_CANDIDATES, Candidate, WindowScores
from edgetpu_perception.spot_tracker.coordinate_decoder import TEMPERATURE, Y_OFFSET

MARGIN_CELLS = 1
"""Cells around the coordinates that are scored.

Derived: their steps are a third of a cell, and the softmax does not add up to 1.
"""


WEIGHT_SCALE = 1 / 127
"""Value of a step of these models' filters. Given by the models: their weights lie between -1 and 1."""


class CoordinateLocator:
    """Scores the cells around the two coordinates.

    The coordinates are those of the highest response, which is not normalised: where the image has more
    contrast than the template, something else may respond more. Exact scores of the cells reveal that.
    """

    def __init__(
        self,
        template: NDArray[np.float32],
        mask: NDArray[np.bool_],
        outputs: Sequence[TensorSpec],
        search: tuple[int, int],
    ) -> None:
        """`template`: grey levels, [h, w]; `search`: height and width of the model's image."""
        # The scale of the responses is inside the model and fits all templates: weights use all of int8.
        self.weights, self.weight_scale = quantise(template, mask), WEIGHT_SCALE
        self._windows = WindowScores(template, mask)
        self._outputs = tuple(outputs)
        self._last = search[1] - template.shape[1], search[0] - template.shape[0]

    def find(self, cells: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]]) -> list[Candidate]:
        """See correlation_locator.Locator."""
        codes = np.concatenate([outputs[spec.name].ravel() for spec in self._outputs])
        values = np.concatenate([spec.dequantise(outputs[spec.name]).ravel() for spec in self._outputs])
        limits = np.iinfo(codes.dtype)
        x, y = float(values[0]) * TEMPERATURE, (float(values[1]) - Y_OFFSET) * TEMPERATURE
        columns = _cells(x, codes[0] == limits.min, codes[0] == limits.max, self._last[0])
        rows = _cells(y, codes[1] == limits.min, codes[1] == limits.max, self._last[1])
        positions = [(column, row) for column in columns for row in rows]
        return self._windows.at(self._windows.centered(cells), positions)[:MAX_CANDIDATES]


def _cells(coordinate: float, lowest: bool, highest: bool, last: int) -> range:
    """Cells around a coordinate of -1..1, and all beyond it if it is at an end of the output's range."""
    cell = (coordinate + 1) / 2 * last
    first = 0 if lowest else max(min(math.floor(cell) - MARGIN_CELLS, last), 0)
    return range(first, last + 1 if highest else max(min(math.ceil(cell) + MARGIN_CELLS, last), 0) + 1)
