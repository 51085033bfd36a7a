"""The channels of a YOLO's rows after the box: classes, and an angle, keypoints or mask weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.output_values import is_quantised, real_range

MASKS = 32
"""Number of mask prototypes of instance segmentation models."""
KEYPOINTS = 17
"""Number of keypoints of a person in COCO."""
KEYPOINT_CHANNELS = 3 * KEYPOINTS
"""Number of channels for a person's keypoints: x, y and visibility of each (COCO)."""
_YOLOX_CHANNELS = 1 + 80
"""Channels after the box of the published YOLOX models: objectness and the classes of COCO."""
_LARGEST_STEP = 1 / 32
"""Greatest step of quantised scores. Published 8-bit models have 1/256 to 1/100."""
_LEAST_LOWER_LIMIT = -0.3
"""Least lower limit of the range of a quantised output with scores, even if it also holds boxes."""


@dataclass(frozen=True)
class YoloHints:
    """Facts about a YOLO model other than its outputs."""

    family: str = ""
    """"yolov3", "yolov4" and "yolov5" with anchors and objectness, "yolov8" without; "" if unknown."""
    task: str = ""
    """Task in the exporters' terms: "detect", "segment", "pose", "obb" ..; "" if unknown."""
    classes: int | None = None
    """Number of classes; None if unknown."""
    labels: int | None = None
    """Number of labels that the user gave, whether they fit or not; None if none were given."""
    keypoint_channels: int = KEYPOINT_CHANNELS
    """Number of channels for keypoints, of a pose model."""
    anchors: NDArray[np.float32] | None = None
    """float32[grids, anchors of a cell, 2], width and height in px; None: those of the published models."""


def keypoint_channels(shape: Any) -> int:
    """Number of channels for keypoints of this shape, as exporters write it: [17, 3]."""
    usable = isinstance(shape, list | tuple) and all(isinstance(each, int) for each in shape)
    return prod(shape) if usable and shape else KEYPOINT_CHANNELS


@dataclass(frozen=True)
class ClassChannels:
    """The channels after the box, and after the objectness if there is one."""

    classes: int
    """Number of channels that are classes; they come first."""
    angle: bool = False
    """Whether the last one is the angle of the box."""


def class_channels(
    channels: int,
    spec: TensorSpec,
    outputs: Sequence[TensorSpec],
    hints: YoloHints,
    description: ModelDescription,
) -> ClassChannels:
    """The meaning of this many channels after the box. Raises ModelUnsupportedError if it is ambiguous.

    spec: the output with these channels. outputs: all outputs of the model.
    """
    if hints.task == "obb":
        return ClassChannels(channels - 1, angle=True)
    if hints.task == "pose":
        return ClassChannels(channels - hints.keypoint_channels)
    if hints.classes is not None:
        return ClassChannels(min(hints.classes, channels))
    further = channels - hints.labels if hints.labels is not None else None
    if further == KEYPOINT_CHANNELS or (further == MASKS and has_masks(outputs)):
        return ClassChannels(channels - further)
    if further == 1:
        raise ModelUnsupportedError(
            f"expected as many classes as labels, {hints.labels}; got {channels} channels after the box in "
            f"{spec}: a label is missing, unless the last channel is the angle of oriented boxes (name the "
            "head yolov8_obb) or the first one is an objectness (such a model is not supported)"
        )
    if further is None and channels > MASKS and has_masks(outputs):
        return ClassChannels(channels - MASKS)
    if further is None and channels == 1 + KEYPOINT_CHANNELS:
        return ClassChannels(1)
    limits = real_range(description.quantised(spec))
    if limits is not None and limits[0] < _LEAST_LOWER_LIMIT:
        raise ModelUnsupportedError(
            f"expected boxes and probabilities in {spec}; got a range from {limits[0]:.2f}: are there "
            "weights of masks, angles of oriented boxes or logits among the channels? Give the labels, whose "
            "number decides, or name the head: yolov8_obb, yolov8_pose"
        )
    return ClassChannels(channels)


def check_not_yolox(channels: int, spec: TensorSpec, hints: YoloHints) -> None:
    """Raise ModelUnsupportedError if this many channels after the box are probably those of a YOLOX."""
    known = hints.family or hints.task or hints.classes is not None or hints.labels is not None
    if channels == _YOLOX_CHANNELS and not known:
        raise ModelUnsupportedError(
            f"expected boxes and classes; got {channels} channels after the box in {spec}: if the first one "
            "is the objectness of a YOLOX, whose boxes are relative to cells, such a model is not supported; "
            "otherwise give the labels"
        )


def check_steps(spec: TensorSpec, description: ModelDescription) -> None:
    """Raise ModelUnsupportedError if the steps of an output with scores are too coarse for them.

    Those of a float output are the steps of the integers that it is dequantised from.
    """
    tensor = description.quantised(spec)
    if is_quantised(tensor) and tensor.scale > _LARGEST_STEP:
        raise ModelUnsupportedError(
            f"expected steps of at most 1/{1 / _LARGEST_STEP:.0f} in an output with scores; got steps of "
            f"{tensor.scale:.3g} in {spec}, where px, numbers of classes or weights of masks share "
            f"{8 * tensor.dtype.itemsize} bits with the scores: export the model with boxes as parts of the "
            "image and without nms=True, or with outputs that are not quantised"
        )


def has_masks(outputs: Sequence[TensorSpec]) -> bool:
    """Whether an output has the mask prototypes of instance segmentation, [1, h, w, 32] or [1, 32, h, w]."""
    return any(len(spec.shape) == 4 and MASKS in (spec.shape[1], spec.shape[3]) for spec in outputs)
