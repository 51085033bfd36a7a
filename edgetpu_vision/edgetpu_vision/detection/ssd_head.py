"""The raw outputs of an SSD: encoded boxes and scores of classes for anchors.

The arithmetic is that of TFLite_Detection_PostProcess in LiteRT, so that scores and boxes are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.detection.anchor_values import Table, logit, scores_of
from edgetpu_vision.detection.head import Head
from edgetpu_vision.detection.non_maximum_suppression import NONE, Candidates, highest_of
from edgetpu_vision.model_description.graph_facts import PostProcess
from edgetpu_vision.output_values import always_probabilities, within_0_and_1

_FAR = np.float32(1e3)
"""Largest coordinate, as a part of the image, that a box may have. Uncritical: it keeps products finite."""


class SsdHead(Head):
    """Encoded boxes [1, n, 4] and scores or logits [1, n, classes], with or without a background class."""

    def __init__(
        self, encodings: Table, scores: Table, options: PostProcess, input_height: int, input_width: int
    ) -> None:
        """options: if its `classes` is 0, the first of several scores is that of the background.

        Raises ModelUnsupportedError for more classes than scores.
        """
        self._encodings = encodings
        self._scores = scores
        self._anchors = options.anchors
        self._scales = np.array(options.scales, np.float32)
        self._size = np.array((input_width, input_height, input_width, input_height), np.float32)
        self.classes = options.classes or max(scores.channels - 1, 1)
        if self.classes > scores.channels:
            raise ModelUnsupportedError(f"expected scores of {self.classes} classes; got {scores.spec}")
        self.per_class = options.per_class
        self.iou_threshold = options.iou_threshold
        self.most = options.max_detections or None
        self._least = max(options.score_threshold, 0.0)
        self._first = scores.channels - self.classes
        self._are_probabilities = always_probabilities(scores.spec)

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """The boxes with at least this score, for the best class of each anchor or, `per_class`, for all.

        If `per_class`, at most MOST_CANDIDATES boxes, those with the highest scores.
        """
        scores, encodings = self._scores.of(outputs), self._encodings.of(outputs)
        probabilities = self._are_probabilities
        if probabilities is None:
            probabilities = within_0_and_1(scores, self._scores.spec)
        least = max(min_score, self._least)
        number = self._scores.least(least if probabilities else logit(least))
        anchors, classes = (self._all_classes if self.per_class else self._best_class)(scores, number)
        if not anchors.size:
            return NONE
        real = self._scores.real(scores[anchors, classes + self._first])
        return Candidates(
            self._boxes(self._encodings.real(encodings[anchors]), anchors),
            classes,
            scores_of(real, probabilities),
        )

    def _best_class(self, scores: NDArray[Any], least: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The anchors whose best class has at least this score, and that class."""
        classes = scores[:, self._first :]
        anchors = np.flatnonzero((classes >= least).any(axis=1))
        return anchors, classes[anchors].argmax(axis=1)

    def _all_classes(self, scores: NDArray[Any], least: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Anchors and classes of the highest scores of wanted classes that are at least `least`."""
        mask = scores >= least
        mask[:, : self._first] = False
        if self.wanted is not None:
            mask[:, ~np.isin(np.arange(-self._first, self.classes), self.wanted)] = False
        indices = np.flatnonzero(mask)
        anchors, channels = np.divmod(highest_of(indices, scores.reshape(-1)[indices]), scores.shape[1])
        return anchors, channels - self._first

    def _boxes(self, encodings: NDArray[np.float32], anchors: NDArray[np.intp]) -> NDArray[np.float32]:
        """Boxes in px of the input."""
        chosen = self._anchors[anchors]
        scaled = encodings / self._scales
        centres = scaled[:, :2] * chosen[:, 2:] + chosen[:, :2]
        with np.errstate(over="ignore"):
            halves = np.float32(0.5) * np.exp(scaled[:, 2:]) * chosen[:, 2:]
        boxes = np.concatenate((centres - halves, centres + halves), axis=1)[:, [1, 0, 3, 2]]
        in_px: NDArray[np.float32] = np.clip(boxes, -_FAR, _FAR) * self._size
        return in_px
