"""Distinguishes the output with the boxes from that with the classes if both have four channels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.detection.anchor_values import Table
from edgetpu_vision.model_description.description import NO_DESCRIPTION, ModelDescription
from edgetpu_vision.output_values import always_probabilities, is_symmetric, like_logistic, real_range

BOX = 4
"""Number of coordinates of a box."""
_LOGITS_BELOW = -0.5
"""An output of classes alone whose range begins below this holds logits; for probabilities the range usually
begins at 0 or one step below."""
LARGEST_NORMALISED = 2.0
"""Coordinates above this are px: boxes as parts of the image hardly exceed 1."""
_NEGATIVE_SHARE = 1 / 8
"""Least negative part of the range of encoded boxes, relative to the positive part: offsets from anchors are
on both sides of 0, whereas coordinates are below 0 only where a box exceeds the image."""

_BOX_WORDS = {"box", "boxes", "bbox", "bboxes", "xywh", "xyxy", "loc", "location", "locations", "encodings"}
_CLASS_WORDS = {
    *("cls", "class", "classes", "score", "scores", "conf", "confidence", "prob", "probs", "probabilities"),
    *("logit", "logits", "category"),
}

_Role = Literal["boxes", "classes"]


@dataclass(frozen=True)
class OutputRoles:
    """Facts about a detector's outputs other than shapes and quantisation."""

    boxes: str = ""
    """Name of the output with the boxes; "" if the user did not name it."""
    description: ModelDescription = NO_DESCRIPTION
    """What the model's files say."""

    def ordered(self, first: Table, second: Table, encoded: bool) -> tuple[Table, Table]:
        """The two tables in the order boxes, classes; at least one of them has four channels.

        encoded: whether boxes are relative to anchors, so that they may be negative. Raises
        ModelUnsupportedError if both have four channels and cannot be distinguished.
        """
        pairs = ((first, second), (second, first))
        named = [(boxes, classes) for boxes, classes in pairs if boxes.spec.name == self.boxes]
        possible = [pair for pair in named or pairs if pair[0].channels == BOX]
        if len(possible) == 1:
            return possible[0]
        for role in (self._by_operator, self._by_encodings if encoded else self._by_range, self._by_name):
            for boxes, classes in possible:
                roles = role(boxes.spec), role(classes.spec)
                if roles[0] != roles[1] and (roles[0] == "boxes" or roles[1] == "classes"):
                    return boxes, classes
        raise ModelUnsupportedError(
            f"expected boxes and classes that can be distinguished; got {first.spec} and {second.spec}: "
            "name the output with the boxes (boxes_output)"
        )

    def are_logits(self, spec: TensorSpec) -> bool:
        """Whether the range of an output of classes is that of logits."""
        tensor = self.description.quantised(spec)
        if is_symmetric(tensor):
            return always_probabilities(tensor) is False
        limits = self.range_of(spec)
        return limits is not None and limits[0] < _LOGITS_BELOW

    def looks_encoded(self, spec: TensorSpec) -> bool | None:
        """Whether the range of boxes is that of offsets from anchors; None if it does not tell."""
        limits = self.range_of(spec)
        return None if limits is None else limits[0] < -_NEGATIVE_SHARE * limits[1]

    def range_of(self, spec: TensorSpec) -> tuple[float, float] | None:
        """The range of an output; None if it does not tell the sign of the values."""
        return real_range(self.description.quantised(spec))

    def _by_operator(self, spec: TensorSpec) -> _Role | None:
        computed = spec.name in self.description.probabilities
        return "classes" if computed or like_logistic(self.description.quantised(spec)) else None

    def _by_name(self, spec: TensorSpec) -> _Role | None:
        words = set(
            re.findall(r"[a-z]+", f"{spec.name} {self.description.output_names.get(spec.name, '')}".lower())
        )
        if bool(words & _BOX_WORDS) == bool(words & _CLASS_WORDS):
            return None
        return "boxes" if words & _BOX_WORDS else "classes"

    def _by_range(self, spec: TensorSpec) -> _Role | None:
        """The role of an output by its range: logits may be negative, and coordinates in px are large."""
        limits = self.range_of(spec)
        if limits is None:
            return None
        if self.are_logits(spec):
            return "classes"
        return "boxes" if limits[1] > LARGEST_NORMALISED else None

    def _by_encodings(self, spec: TensorSpec) -> _Role | None:
        """The role of an output by its range if boxes are encoded: these may be negative, as may logits."""
        return "classes" if always_probabilities(self.description.quantised(spec)) else None
