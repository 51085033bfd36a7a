"""Finds the head that decodes a detector's outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.detection.head import Head, Table
from edgetpu_vision.detection.post_process_head import PostProcessHead
from edgetpu_vision.detection.ssd_anchors import ssd_anchor_count, ssd_anchors
from edgetpu_vision.detection.ssd_head import SsdHead
from edgetpu_vision.detection.yolo_recognition import YoloHints, yolo_head
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.model_description.graph_facts import PostProcess
from edgetpu_vision.output_values import always_probabilities

HeadName = Literal["", "ssd", "yolov5", "yolov8"]
"""Kind of a detector's outputs: an SSD, post-processed or raw; a YOLO with anchors and objectness, as YOLOv5;
one without, as YOLOv8 and later; "": to be recognised."""
HEAD_NAMES: tuple[HeadName, ...] = get_args(HeadName)

_SCALES = (10.0, 10.0, 5.0, 5.0)
"""Of SSD models whose files do not tell."""
_IOU_THRESHOLD = 0.6
_ANCHORS_UNKNOWN = (
    "; boxes and scores as those of an SSD need its anchors, which this file does not have: take a model "
    "that ends with TFLite_Detection_PostProcess, or give Detector(anchors=..)"
)


def check_head_name(name: str) -> HeadName:
    """Return `name` if it is one of HEAD_NAMES; else raise InputError."""
    for known in HEAD_NAMES:
        if name == known:
            return known
    raise InputError(f"expected a head of {', '.join(HEAD_NAMES[1:])}, or none; got '{name}'")


def recognise_head(
    outputs: Sequence[TensorSpec],
    size: tuple[int, int],
    description: ModelDescription,
    *,
    name: HeadName = "",
    anchors: NDArray[np.float32] | None = None,
    classes: int | None = None,
    labels: int | None = None,
) -> Head:
    """The head for a detector's outputs.

    size: height and width of its input, px. name: its kind if it is told. anchors: those of an SSD or a
    YOLOv5 if its files do not have them. classes: how many it has, if that is known. labels: how
    many the user gave, if any.

    Raises ModelUnsupportedError if the outputs are not those of such a detector.
    """
    head: Head | None = None
    if name in ("", "ssd"):
        head = PostProcessHead.of(outputs, description, size)
        head = head or _ssd_head(outputs, size, description, anchors, named=name == "ssd")
    if head is None and name != "ssd":
        head = yolo_head(outputs, size, YoloHints(name, classes, labels, anchors))
    if head is None:
        came = ", ".join(map(str, outputs)) or "none"
        kind = f"a detector with the head '{name}'" if name else "a detector: an SSD or a YOLO"
        raise ModelUnsupportedError(
            f"expected the outputs of {kind}, for an input of {size[1]}x{size[0]} px; got {came}"
            + (_ANCHORS_UNKNOWN if any(_box_and_score_lists(outputs)) else "")
        )
    return head


def _ssd_head(
    outputs: Sequence[TensorSpec],
    size: tuple[int, int],
    description: ModelDescription,
    anchors: NDArray[np.float32] | None,
    named: bool,
) -> Head | None:
    """For encoded boxes [1, n, 4] and scores [1, n, classes], in any order."""
    options = description.post_process
    for encodings, scores in _box_and_score_lists(outputs):
        count = encodings.anchors
        if options is None or len(options.anchors) != count:
            if anchors is None and not named and count != ssd_anchor_count(*size):
                continue
            chosen = ssd_anchors(*size, count) if anchors is None else np.asarray(anchors, np.float32)
            if chosen.shape != (count, 4):
                raise ModelUnsupportedError(f"expected anchors [{count}, 4]; got {list(chosen.shape)}")
            options = _default_options(chosen, scores.channels - 1)
        return SsdHead(encodings, scores, options, *size)
    return None


def _box_and_score_lists(outputs: Sequence[TensorSpec]) -> Iterator[tuple[Table, Table]]:
    """Outputs [1, n, 4] and [1, n, classes] for the same n; boxes are rather not within 0..1."""
    lists = []
    for spec in outputs:
        extents = [extent for extent in spec.shape[1:] if extent > 1]
        if len(spec.shape) in (3, 4) and spec.shape[0] == 1 and len(extents) == 2:
            lists.append(Table(spec, extents[0], extents[1]))
    lists.sort(key=lambda table: always_probabilities(table.spec) is True)
    for encodings in lists:
        others = [each for each in lists if each is not encodings and each.anchors == encodings.anchors]
        if encodings.channels == 4 and len(others) == 1:
            yield encodings, others[0]


def _default_options(anchors: NDArray[np.float32], classes: int) -> PostProcess:
    return PostProcess(
        anchors=anchors,
        scales=_SCALES,
        classes=classes,
        max_detections=0,
        score_threshold=0.0,
        iou_threshold=_IOU_THRESHOLD,
        per_class=True,
        classes_per_box=1,
        detections_per_class=0,
        outputs=(),
    )
