"""Candidate positions of a template, from a map of its responses all over an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.graphs.pattern_tracker_correlation import quantise

MAX_CANDIDATES = 5
"""Number of candidates without pooling. Rows: pattern, 64/8, any patch. Uncritical."""

MAX_POOLED_CANDIDATES = 12
"""Number of candidates with pooling; more, as a pattern between two cells scores low on both.

Rows: pattern, 128/32, any patch. Uncritical.
"""

MAX_RESPONSE_STEP = 127
"""Largest response, in steps of the int8 output from its zero point. Given by int8."""

MAX_EXACT_SCORES = 512
"""Largest number of responses, too close to tell apart in eight bits, that are scored exactly; limits the
time.

Rows: pattern, 128/16, any patch. Uncritical.
"""

MIN_CONTRAST_SHARE = 0.3
"""Windows with less than this share of the template's contrast are scored as if they had it.

Rows: pattern, accepted, changed, absent: not valid. Uncritical.
"""


class Candidate(NamedTuple):
    """A possible position of the template, in cells of the model."""

    score: float
    """Normalised cross-correlation, -1..1."""
    column: int
    row: int
    """Column and row of the template's first cell."""


class Locator(Protocol):
    """Finds candidates in the outputs of one kind of model."""

    weights: NDArray[np.int8]
    """The template as steps of the model's weights, [h, w]."""
    weight_scale: float
    """Value of one step."""

    def find(self, cells: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]]) -> list[Candidate]:
        """Candidates in the outputs for the cells [H, W] of an image, the highest score first."""
        ...


class WindowScores:
    """Normalised cross-correlation of a template [h, w] with single windows of an image."""

    def __init__(self, template: NDArray[np.float32], mask: NDArray[np.bool_]) -> None:
        self.shape = template.shape
        self._mask = None if mask.all() else mask
        values = template[mask].astype(np.float64)
        self._mean = float(values.mean())
        values -= self._mean
        self.norm = max(float(np.linalg.norm(values)), 1e-6)
        """Euclidean norm of the template without its mean, grey levels."""
        self._ones = np.ones(len(values), np.float32)
        self._basis = np.stack([values / self.norm, np.ones_like(values)], axis=1).astype(np.float32)

    def _windows_at(
        self, brightness: NDArray[np.float32], rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> NDArray[np.float32]:
        """The cells in the mask of windows, float32 [n, cells in the mask]; a copy."""
        height, width = self.shape
        down, right = brightness.strides
        count = brightness.shape[0] - height + 1, brightness.shape[1] - width + 1
        windows: NDArray[np.float32] = np.ndarray(  # sliding_window_view takes ten times as long
            (*count, height, width), np.float32, brightness, 0, (down, right, down, right)
        )[rows, columns]
        if self._mask is None:
            return windows.reshape(len(rows), -1)
        return windows[:, self._mask]

    def centered(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Brightness of an image [H, W] minus the template's mean: small numbers, as float32 has 24 bits."""
        brightness: NDArray[np.float32] = cv2.subtract(image, self._mean, dtype=cv2.CV_32F)
        return brightness

    def at(self, brightness: NDArray[np.float32], positions: list[tuple[int, int]]) -> list[Candidate]:
        """Score windows of a `centered` image by their first cells (column, row); the highest first."""
        columns, rows = np.array(positions).T
        scores = self.scores(brightness, rows, columns).tolist()
        found = [Candidate(score, *position) for score, position in zip(scores, positions, strict=True)]
        return sorted(found, reverse=True)

    def scores(
        self, brightness: NDArray[np.float32], rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> NDArray[np.float32]:
        """Score windows of a `centered` image by arrays [n] of their first cells: float32 [n]."""
        windows = self._windows_at(brightness, rows, columns)
        products, sums = (windows @ self._basis).T
        windows *= windows
        power = windows @ self._ones - sums * sums / np.float32(len(self._ones))
        lengths = np.sqrt(np.maximum(power, np.float32((MIN_CONTRAST_SHARE * self.norm) ** 2)))
        scores: NDArray[np.float32] = products / lengths
        return scores


class CorrelationLocator:
    """Finds the highest peaks of a response map, normalised with the contrast under each window.

    The responses have only eight bits, so the peaks are scored again exactly.
    """

    def __init__(
        self,
        template: NDArray[np.float32],
        mask: NDArray[np.bool_],
        output: TensorSpec,
        most: int,
    ) -> None:
        """`template`: grey levels of cells, [h, w]; `output`: the response map of the model.

        `most`: number of candidates.
        """
        self.weights, self.weight_scale = quantise(template, mask, MAX_RESPONSE_STEP * output.scale), 1.0
        self._windows = WindowScores(template, mask)
        self._scale = output.scale
        self._score_per_step = output.scale / max(float(np.linalg.norm(self.weights.astype(float))), 1.0)
        self._name = output.name
        self._zero_point = output.zero_point
        self._mask = None if mask.all() else mask.astype(np.float32)
        self._count = int(np.count_nonzero(mask))
        self._floor = (MIN_CONTRAST_SHARE * self._windows.norm) ** 2
        self._most = most
        self._apart = 3 if min(template.shape) > 8 else 2

    def find(self, cells: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]]) -> list[Candidate]:
        """See Locator."""
        steps = np.subtract(outputs[self._name][0, :, :, 0], self._zero_point, dtype=np.float32)
        return self._peaks(cells, steps)

    def find_without_model(self, cells: NDArray[np.uint8]) -> list[Candidate]:
        """Candidates in an image [H, W] of any size without an inference; the CPU correlates."""
        response = cv2.matchTemplate(cells.astype(np.float32), self.weights.astype(np.float32), cv2.TM_CCORR)
        return self._peaks(cells, cv2.multiply(response, 1.0 / self._scale))

    def _peaks(self, cells: NDArray[np.uint8], steps: NDArray[np.float32]) -> list[Candidate]:
        brightness = self._windows.centered(cells)
        scores = cv2.divide(steps, self._lengths(brightness, steps.shape), scale=self._score_per_step)
        self._score_ties_exactly(brightness, steps, scores)
        apart, positions = self._apart, []
        for _ in range(self._most):
            _, highest, _, (column, row) = cv2.minMaxLoc(scores)
            if highest <= 0.0:
                break
            positions.append((column, row))
            scores[max(row - apart, 0) : row + apart + 1, max(column - apart, 0) : column + apart + 1] = 0
        return self._windows.at(brightness, positions) if positions else []

    def _score_ties_exactly(
        self, brightness: NDArray[np.float32], steps: NDArray[np.float32], scores: NDArray[np.float32]
    ) -> None:
        """Replace scores by exact ones where rounding or clipping of the responses could hide the highest."""
        _, highest, _, (column, row) = cv2.minMaxLoc(scores)
        if highest <= 0.0:
            return
        tied = scores >= highest * (1.0 - 1.0 / float(steps[row, column]))
        if cv2.minMaxLoc(steps)[1] >= MAX_RESPONSE_STEP:
            tied |= steps >= MAX_RESPONSE_STEP
        indices = np.flatnonzero(tied)
        if indices.size > MAX_EXACT_SCORES:
            indices = indices[np.argpartition(-scores.flat[indices], MAX_EXACT_SCORES)[:MAX_EXACT_SCORES]]
        if indices.size > 1:
            rows, columns = np.divmod(indices, scores.shape[1])
            scores.flat[indices] = self._windows.scores(brightness, rows, columns)

    def _lengths(self, brightness: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Norm of every window [height, width] without its mean, at least that of MIN_CONTRAST_SHARE."""
        height, width = shape
        if self._mask is None:
            size = self._windows.shape[::-1]
            sums = cv2.boxFilter(brightness, -1, size, anchor=(0, 0), normalize=False)
            squares = cv2.sqrBoxFilter(brightness, cv2.CV_32F, size, anchor=(0, 0), normalize=False)
        else:
            sums = cv2.filter2D(brightness, -1, self._mask, anchor=(0, 0))
            squares = cv2.filter2D(cv2.multiply(brightness, brightness), -1, self._mask, anchor=(0, 0))
        sums, squares = sums[:height, :width], squares[:height, :width]
        power = cv2.add(squares, cv2.multiply(sums, sums, scale=-1.0 / self._count))
        lengths: NDArray[np.float32] = cv2.sqrt(cv2.max(power, self._floor))
        return lengths
