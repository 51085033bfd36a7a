"""Candidates from models that give two softmax coordinates of a response ("pattern" of LibrEdgeTPU)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.graphs.pattern_correlation import quantise
from edgetpu_perception.pattern_tracker.correlation_locator import MOST_CANDIDATES, Candidate, WindowScores
from edgetpu_perception.spot_tracker.coordinate_decoder import TEMPERATURE, Y_OFFSET

MARGIN = 1
"""Cells around the coordinates that are looked at: their steps are a third of a cell, their sum is not 1."""


WEIGHT_SCALE = 1 / 127
"""Of these models' filters, whose weights lie between -1 and 1."""


class CoordinateLocator:
    """Looks where the two coordinates say.

    They tell of the highest response, which is not normalised: where the image has more contrast than the
    template that is often another place. Exact scores of the cells around tell whether it is.
    """

    def __init__(
        self,
        template: NDArray[np.float32],
        mask: NDArray[np.bool_],
        outputs: Sequence[TensorSpec],
        search: tuple[int, int],
    ) -> None:
        """`template`: grey levels, [h, w]; `search`: height and width of the model's image."""
        # The responses' scale is inside the model and fits all templates: weights use all of int8.
        self.weights, self.weight_scale = quantise(template, mask), WEIGHT_SCALE
        self._windows = WindowScores(template, mask)
        self._outputs = tuple(outputs)
        self._last = search[1] - template.shape[1], search[0] - template.shape[0]

    def find(self, cells: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]]) -> list[Candidate]:
        """See pattern_correlation.Locator."""
        codes = np.concatenate([outputs[spec.name].ravel() for spec in self._outputs])
        values = np.concatenate([spec.dequantise(outputs[spec.name]).ravel() for spec in self._outputs])
        limits = np.iinfo(codes.dtype)
        x, y = float(values[0]) * TEMPERATURE, (float(values[1]) - Y_OFFSET) * TEMPERATURE
        columns = _cells(x, codes[0] == limits.min, codes[0] == limits.max, self._last[0])
        rows = _cells(y, codes[1] == limits.min, codes[1] == limits.max, self._last[1])
        places = [(column, row) for column in columns for row in rows]
        return self._windows.at(self._windows.centered(cells), places)[:MOST_CANDIDATES]


def _cells(coordinate: float, lowest: bool, highest: bool, last: int) -> range:
    """Cells around a coordinate of -1..1; all beyond it when it is at an end of what the model can say."""
    cell = (coordinate + 1) / 2 * last
    first = 0 if lowest else max(min(math.floor(cell) - MARGIN, last), 0)
    return range(first, last + 1 if highest else max(min(math.ceil(cell) + MARGIN, last), 0) + 1)
