"""Candidates for the place of a template, from the responses to it all over an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.graphs.pattern_correlation import quantise

MOST_CANDIDATES = 8

MOST_POOLED_CANDIDATES = 12
"""With pooling, where the place may be between two cells and the score of both low."""

LAST_STEP = 127
"""Where the range of a response ends, steps of the output from its zero point."""

MOST_TIED = 512
"""Responses that are too close to each other for eight bits, and so are computed again."""

LEAST_CONTRAST = 0.3
"""Places with less than this share of the template's contrast count as if they had it, and so score less."""


class Candidate(NamedTuple):
    """A place where the template may be, in cells of the model."""

    score: float
    """Normalised cross-correlation, -1..1."""
    column: int
    row: int
    """Of the template's first cell."""


class Locator(Protocol):
    """Finds candidates in the outputs of one model."""

    weights: NDArray[np.int8]
    """The template as steps of the model's weights, [h, w]."""
    weight_scale: float
    """Value of a step."""

    def find(self, cells: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]]) -> list[Candidate]:
        """Candidates in the outputs for the model's cells [H, W], those with the highest score first."""
        ...


class WindowScores:
    """Normalised cross-correlation of a template [h, w] with single windows of an image."""

    def __init__(self, template: NDArray[np.float32], mask: NDArray[np.bool_]) -> None:
        self.shape = template.shape
        self._rows, self._columns = np.nonzero(mask)
        values = template[mask].astype(np.float64)
        self._mean = float(values.mean())
        values -= self._mean
        self.norm = max(float(np.linalg.norm(values)), 1e-6)
        """Length of the template without its mean."""
        self._basis = np.stack([values / self.norm, np.ones_like(values)], axis=1).astype(np.float32)

    def centered(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Brightness of an image over the template's: small numbers, as float32 has only 24 bits."""
        brightness: NDArray[np.float32] = cv2.subtract(image, self._mean, dtype=cv2.CV_32F)
        return brightness

    def at(self, brightness: NDArray[np.float32], places: list[tuple[int, int]]) -> list[Candidate]:
        """Score windows of `centered`, whose first cells are at these (column, row); the highest first."""
        columns, rows = np.array(places).T
        scores = self.scores(brightness, rows, columns).tolist()
        found = [Candidate(score, *place) for score, place in zip(scores, places, strict=True)]
        return sorted(found, reverse=True)

    def scores(
        self, brightness: NDArray[np.float32], rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> NDArray[np.float32]:
        """The same for arrays of first cells, in their order."""
        width = brightness.shape[1]
        cells = (rows * width + columns)[:, np.newaxis] + (self._rows * width + self._columns)
        windows = brightness.ravel()[cells]
        products, sums = (windows @ self._basis).T
        power = np.einsum("ij,ij->i", windows, windows) - sums * sums / np.float32(len(self._rows))
        lengths = np.sqrt(np.maximum(power, np.float32((LEAST_CONTRAST * self.norm) ** 2)))
        scores: NDArray[np.float32] = products / lengths
        return scores


class CorrelationLocator:
    """Finds the highest peaks of a response map after normalising it with the contrast under each window.

    The responses have eight bits; what decides between the peaks are exact scores.
    """

    def __init__(
        self,
        template: NDArray[np.float32],
        mask: NDArray[np.bool_],
        output: TensorSpec,
        most: int,
    ) -> None:
        """`template`: grey levels of cells, [h, w]; `output`: the response map of the model.

        `most`: how many candidates to give.
        """
        self.weights, self.weight_scale = quantise(template, mask, LAST_STEP * output.scale), 1.0
        self._windows = WindowScores(template, mask)
        self._scale = output.scale
        self._score_per_step = output.scale / max(float(np.linalg.norm(self.weights.astype(float))), 1.0)
        self._name = output.name
        self._zero_point = output.zero_point
        self._shape = output.shape[1:3]
        self._mask = None if mask.all() else mask.astype(np.float32)
        self._count = int(np.count_nonzero(mask))
        self._floor = (LEAST_CONTRAST * self._windows.norm) ** 2
        self._most = most
        self._apart = 3 if min(template.shape) > 8 else 2

    def find(self, cells: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]]) -> list[Candidate]:
        """See Locator."""
        steps = np.subtract(outputs[self._name][0, :, :, 0], self._zero_point, dtype=np.float32)
        return self._peaks(cells, steps)

    def find_without_model(self, cells: NDArray[np.uint8]) -> list[Candidate]:
        """Candidates in an image that no model has seen."""
        response = cv2.matchTemplate(cells.astype(np.float32), self.weights.astype(np.float32), cv2.TM_CCORR)
        return self._peaks(cells, cv2.multiply(response, 1.0 / self._scale))

    def _peaks(self, cells: NDArray[np.uint8], steps: NDArray[np.float32]) -> list[Candidate]:
        brightness = self._windows.centered(cells)
        scores = cv2.divide(steps, self._lengths(brightness), scale=self._score_per_step)
        self._settle_ties(brightness, steps, scores)
        apart, places = self._apart, []
        for _ in range(self._most):
            _, highest, _, (column, row) = cv2.minMaxLoc(scores)
            if highest <= 0.0:
                break
            places.append((column, row))
            scores[max(row - apart, 0) : row + apart + 1, max(column - apart, 0) : column + apart + 1] = 0
        return self._windows.at(brightness, places) if places else []

    def _settle_ties(
        self, brightness: NDArray[np.float32], steps: NDArray[np.float32], scores: NDArray[np.float32]
    ) -> None:
        """Put exact scores where one step of the responses could hide the highest, or where they end."""
        _, highest, _, (column, row) = cv2.minMaxLoc(scores)
        if highest <= 0.0:
            return
        tied = scores >= highest * (1.0 - 1.0 / float(steps[row, column]))
        if cv2.minMaxLoc(steps)[1] >= LAST_STEP:
            tied |= steps >= LAST_STEP
        indices = np.flatnonzero(tied)
        if indices.size > MOST_TIED:
            indices = indices[np.argpartition(-scores.flat[indices], MOST_TIED)[:MOST_TIED]]
        if indices.size > 1:
            rows, columns = np.divmod(indices, scores.shape[1])
            scores.flat[indices] = self._windows.scores(brightness, rows, columns)

    def _lengths(self, brightness: NDArray[np.float32]) -> NDArray[np.float32]:
        """Length of every window without its mean, but at least that of little contrast."""
        height, width = self._shape
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
