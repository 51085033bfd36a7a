"""The outputs of TFLite_Detection_PostProcess: boxes, classes, scores and their count, in any order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs, output
from edgetpu_vision.detection.anchor_values import checked_scores, class_numbers
from edgetpu_vision.detection.head import Head
from edgetpu_vision.detection.non_maximum_suppression import Candidates
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.output_values import always_probabilities, real_values, scaled

_OPERATOR_OUTPUT = re.compile(r"TFLite_Detection_PostProcess(?::([0-3]))?")
_BOXES, _CLASSES, _SCORES, _COUNT = range(4)
"""Indices of the operator's outputs (TFLite_Detection_PostProcess)."""
_FARTHEST = 8.0
"""Greatest coordinate of a box as part of the image. Uncritical: such coordinates hardly exceed 1, while
coordinates in px are far above."""
_METADATA_NAMES = {
    "location": _BOXES,
    "category": _CLASSES,
    "score": _SCORES,
    "number of detections": _COUNT,
}
"""Names of these outputs in TFLite metadata."""


class PostProcessHead(Head):
    """Boxes [1, n, 4], classes [1, n], scores [1, n] and, unless all n are detections, their count [1]."""

    suppressed = True

    def __init__(
        self,
        outputs: Sequence[TensorSpec],
        roles: Mapping[int, str],
        classes: int | None,
        size: tuple[int, int],
        entries: int = 1,
        x_first: bool = False,
    ) -> None:
        """Prepare for outputs; if a role is unknown, `outputs` are those of the post-processing only.

        roles: names of the outputs by role, as far as known. size: input height and width, px. entries: see
        PostProcess. x_first: whether the corners of boxes are x and y instead of y and x.
        """
        self._specs = {spec.name: spec for spec in outputs}
        self._roles = dict(roles)
        self.classes = classes
        self._entries = entries
        self._corners = [0, 1, 2, 3] if x_first else [1, 0, 3, 2]
        height, width = size
        self._size = np.array((width, height, width, height), np.float32)

    @classmethod
    def of(
        cls, outputs: Sequence[TensorSpec], description: ModelDescription, size: tuple[int, int]
    ) -> PostProcessHead | None:
        """The head for these outputs; None if they are not those of a post-processing.

        The classes and the count of detections may be integers without a scale.
        """
        names = {spec.name for spec in outputs}
        known_values = {spec.name for spec in scaled(outputs)}
        options = description.post_process
        classes, entries = (options.classes or None, options.entries) if options is not None else (None, 1)
        of_graph = dict(enumerate(options.outputs)) if options is not None else {}
        of_names = {role: name for name in names if (role := _role_of_name(name)) is not None}
        by_meaning = {meaning: name for name, meaning in description.output_names.items()}
        of_metadata = {
            role: by_meaning[meaning] for meaning, role in _METADATA_NAMES.items() if meaning in by_meaning
        }
        for known in (of_graph, of_names, of_metadata):
            roles = {role: name for role, name in known.items() if name in names}
            complete = {_BOXES, _CLASSES, _SCORES} <= roles.keys()
            if complete and {roles[_BOXES], roles[_SCORES]} <= known_values:
                return cls(outputs, roles, classes, size, entries)
        parts = _Parts.among(outputs)
        if parts is None:
            return None
        # The exporter of YOLOv5 adds a suppression (--nms) without turning its boxes to TensorFlow's order.
        of_yolo = options is None and description.by_yolo_exporter
        return cls(parts.all, parts.roles(), classes, size, entries, x_first=of_yolo)

    def candidates(self, outputs: Outputs, min_score: float) -> Candidates:
        """See Head.candidates; OutputsError also if boxes, classes and scores differ in number."""
        boxes = self._values(outputs, self._roles[_BOXES]).reshape(-1, 4)
        classes, scores = self._classes_and_scores(outputs)
        if not len(boxes) == len(classes) == len(scores):
            raise OutputsError(
                f"expected as many boxes as classes and scores; got {len(boxes)}, {len(classes)} and "
                f"{len(scores)}"
            )
        count = len(scores)
        if _COUNT in self._roles:
            told = self._values(outputs, self._roles[_COUNT]).reshape(-1)
            if told.size and np.isfinite(told[0]):
                count = min(max(round(float(told[0]) * self._entries), 0), count)
        chosen = np.flatnonzero(scores[:count] >= min_score)
        self._check_boxes(boxes[chosen])
        found = boxes[chosen][:, self._corners] * self._size
        likely = checked_scores(scores[chosen], self._roles.get(_SCORES, "scores"))
        return Candidates(found, class_numbers(classes[chosen]), likely)

    def _check_boxes(self, boxes: NDArray[np.float32]) -> None:
        """Raise OutputsError if boxes [n, 4] seem to be in px, because all are far outside the image."""
        farthest = np.abs(boxes).max(axis=1, initial=0.0)
        if farthest.size and farthest.min() > _FARTHEST and np.isfinite(farthest).all():
            raise OutputsError(
                f"expected boxes as parts of the image in '{self._roles[_BOXES]}', as a post-processing "
                f"gives them; got coordinates up to {farthest.max():.3g}: export the model with such boxes, "
                "or without its post-processing"
            )

    def _values(self, outputs: Outputs, name: str) -> NDArray[np.float32]:
        return real_values(output(outputs, name), self._specs[name])

    def _classes_and_scores(self, outputs: Outputs) -> list[NDArray[np.float32]]:
        """Classes and scores [n], distinguished by their values if neither graph nor metadata tell."""
        names = [self._roles.get(role) for role in (_CLASSES, _SCORES)]
        if None in names:
            names = [name for name in self._specs if name not in self._roles.values()]
        classes, scores = (self._values(outputs, str(name)).reshape(-1) for name in names)
        if _SCORES in self._roles:
            return [classes, scores]
        looks = _like_scores(classes), _like_scores(scores)
        if looks[0] > looks[1]:
            names.reverse()
            classes, scores = scores, classes
        if looks[0] != looks[1]:  # remembered for the next frames
            self._roles |= {_CLASSES: str(names[0]), _SCORES: str(names[1])}
        return [classes, scores]


def _like_scores(values: NDArray[np.float32]) -> tuple[bool, bool, bool]:
    """How much values look like scores rather than like classes, for comparison; NaN is ignored."""
    values = values[np.isfinite(values)]
    within = bool(np.all((values >= 0) & (values <= 1)))
    broken = bool(np.any(values != np.rint(values)))
    descending = bool(np.all(np.diff(values.reshape(-1)) <= 0))
    return within, broken, descending


def _role_of_name(name: str) -> int | None:
    match = _OPERATOR_OUTPUT.fullmatch(name)
    return int(match[1] or 0) if match else None


@dataclass(frozen=True)
class _Parts:
    """The outputs of a post-processing, distinguished by their shapes; there may be axes of extent 1."""

    boxes: TensorSpec
    lists: tuple[TensorSpec, TensorSpec]
    """Classes and scores, in any order."""
    count: TensorSpec | None
    """The number of detections; None if every entry of the lists is one."""

    @classmethod
    def among(cls, outputs: Sequence[TensorSpec]) -> _Parts | None:
        """The parts among these outputs; None if they are not those of a post-processing."""
        found = [cls._of(spec, outputs) for spec in scaled(outputs) if _is_boxes(spec.shape)]
        complete = [parts for parts in found if parts is not None]
        return complete[0] if len(complete) == 1 else None

    @classmethod
    def _of(cls, boxes: TensorSpec, outputs: Sequence[TensorSpec]) -> _Parts | None:
        """The parts that go with these boxes; None if some are missing or ambiguous."""
        detections = prod(boxes.shape[:-1])
        lists, counts = [], []
        for spec in outputs:
            # With a single detection the count is as long: the lists have one axis fewer than the boxes.
            as_long = prod(spec.shape) == detections
            if as_long and (detections > 1 or len(spec.shape) == len(boxes.shape) - 1):
                lists.append(spec)
            elif prod(spec.shape) == 1:
                counts.append(spec)
        if len(lists) != 2 or len(counts) > 1 or not scaled(lists):
            return None
        return cls(boxes, (lists[0], lists[1]), counts[0] if counts else None)

    @property
    def all(self) -> tuple[TensorSpec, ...]:
        """All outputs of the post-processing."""
        return self.boxes, *self.lists, *([self.count] if self.count else [])

    def roles(self) -> dict[int, str]:
        """The names by role; classes and scores only if their quantisation tells them apart."""
        roles = {_BOXES: self.boxes.name}
        if self.count is not None:
            roles[_COUNT] = self.count.name
        for classes, scores in (self.lists, self.lists[::-1]):
            plain = not scaled([classes])
            apart = always_probabilities(scores) and always_probabilities(classes) is False
            if scaled([scores]) and (plain or apart):
                return roles | {_CLASSES: classes.name, _SCORES: scores.name}
        return roles


def _is_boxes(shape: tuple[int, ...]) -> bool:
    """Whether a shape is that of a list of boxes, [n, 4], apart from axes of extent 1."""
    return len(shape) in (2, 3, 4) and shape[-1] == 4 and prod(shape[:-1]) == max(shape[:-1])
