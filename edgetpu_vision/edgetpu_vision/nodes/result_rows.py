"""The numbers of a result message that tools record and plot, by name; see ResultTopic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgetpu_vision.learning.taught_examples import UNKNOWN


def detections_row(message: Any) -> dict[str, float]:
    """The number of objects of a vision_msgs/Detection2DArray, and the position of the best one."""
    best = max(message.detections, key=lambda each: each.results[0].hypothesis.score, default=None)
    return {
        "valid": best is not None,
        "confidence": best.results[0].hypothesis.score if best is not None else 0.0,
        "count": float(len(message.detections)),
        "x": best.bbox.center.position.x if best is not None else math.nan,
        "y": best.bbox.center.position.y if best is not None else math.nan,
    }


def classification_row(message: Any) -> dict[str, float]:
    """The most probable class of a vision_msgs/Classification."""
    best = max(message.results, key=lambda each: each.score, default=None)
    return {
        "valid": best is not None,
        "confidence": best.score if best is not None else 0.0,
        "class_id": float(best.class_id) if best is not None else math.nan,
    }


def segmentation_row(message: Any) -> dict[str, float]:
    """The number of classes in a label image, and the class other than 0 that covers most of it."""
    dtype = np.uint8 if message.encoding == "mono8" else np.dtype("<u2")
    counts = np.bincount(np.frombuffer(message.data, dtype))
    present = np.flatnonzero(counts[1:]) + 1
    return {
        "valid": True,
        "confidence": 1.0,
        "classes": float(np.count_nonzero(counts)),
        "largest": float(present[counts[present].argmax()]) if present.size else 0.0,
    }


def poses_row(message: Any) -> dict[str, float]:
    """The number of people of an edgetpu_msgs/PersonPoses, and the position of the nose of the best pose."""
    nose = message.people[0].keypoints[0] if message.people else None
    return {
        "valid": message.valid,
        "confidence": message.confidence,
        "count": float(len(message.people)),
        "nose_x": nose.x if nose is not None else math.nan,
        "nose_y": nose.y if nose is not None else math.nan,
    }


def taught_row(message: Any) -> dict[str, float]:
    """Whether the most probable class of a learner's vision_msgs/Classification was taught."""
    best = max(message.results, key=lambda each: each.score, default=None)
    return {
        "valid": best is not None and best.class_id != UNKNOWN,
        "confidence": best.score if best is not None else 0.0,
    }
