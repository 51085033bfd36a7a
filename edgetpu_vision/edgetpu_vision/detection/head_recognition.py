"""Finds the head that decodes a detector's outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.detection.anchor_values import Table
from edgetpu_vision.detection.box_output import BOX, OutputRoles
from edgetpu_vision.detection.corner_boxes import corner_boxes_head
from edgetpu_vision.detection.head import Head
from edgetpu_vision.detection.post_process_head import PostProcessHead
from edgetpu_vision.detection.ssd_anchors import published_anchors, ssd_anchors
from edgetpu_vision.detection.ssd_head import SsdHead
from edgetpu_vision.detection.yolo_channels import YoloHints, keypoint_channels
from edgetpu_vision.detection.yolo_recognition import yolo_head
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.model_description.graph_facts import PostProcess
from edgetpu_vision.output_values import scaled, unscaled_hint

HeadName = Literal["", "ssd", "yolov3", "yolov4", "yolov5", "yolov8", "yolov8_obb", "yolov8_pose"]
"""Kind of a detector's outputs. "ssd": an SSD, post-processed or raw; "yolov3", "yolov4": a YOLO with anchors
whose sizes are multiplied by exponentials, also tiny; "yolov5": one with anchors as YOLOv5 and v7; "yolov8":
one without, as YOLOv8 and later; "yolov8_obb", "yolov8_pose": the same with oriented boxes or poses; "": to
be recognised."""
HEAD_NAMES: tuple[HeadName, ...] = get_args(HeadName)

_SCALES = (10.0, 10.0, 5.0, 5.0)
"""Scales of encoded boxes for SSD models whose files do not contain them."""
_IOU_THRESHOLD = 0.6
"""Overlap for suppression in the same models: the threshold of the published SSD configurations."""
_ANCHORS_UNKNOWN = (
    "; boxes and scores as those of an SSD need its anchors, which this file does not have: take a model "
    "that ends with TFLite_Detection_PostProcess, or give Detector(anchors=..); boxes that the model decodes "
    "to corners have to be quantised, as parts of the image, beside probabilities of background and object"
)
_OF_YOLOV3 = ": if these are the outputs of a YOLOv3 or v4, name the head yolov3 or yolov4"


def check_head_name(name: str) -> HeadName:
    """Return `name` if it is one of HEAD_NAMES; otherwise raise InputError."""
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
    boxes_output: str = "",
    anchors: NDArray[np.float32] | None = None,
    labels: int | None = None,
) -> Head:
    """The head for a detector's outputs.

    size: height and width of the model's input, px. name: kind of the outputs, if given. boxes_output: name
    of the output with the boxes, if given. anchors: those of an SSD, YOLOv3, v4 or v5 if its files do not
    have them. labels: number of labels that the user gave, if any.

    Raises ModelUnsupportedError if the outputs are not those of such a detector.
    """
    if boxes_output and boxes_output not in {spec.name for spec in outputs}:
        came = ", ".join(map(str, outputs)) or "none"
        raise ModelUnsupportedError(f"expected an output '{boxes_output}' with the boxes; got {came}")
    roles = OutputRoles(boxes_output, description)
    all_outputs, outputs = outputs, scaled(outputs)
    head: Head | None = None
    if name in ("", "ssd"):
        head = PostProcessHead.of(all_outputs, description, size)
        head = head or _ssd_head(outputs, size, description, anchors, roles, named=name == "ssd")
    if head is None and name != "ssd":
        head = yolo_head(outputs, size, _yolo_hints(name, description, labels, anchors), roles)
    if head is None and not name:
        found = (corner_boxes_head(*pair, size, roles) for pair in _box_and_score_lists(outputs))
        head = next((each for each in found if each is not None), None)
    if head is None:
        came = ", ".join(map(str, all_outputs)) or "none"
        hints = _yolo_hints("yolov3", description, labels, anchors)
        if not name and yolo_head(outputs, size, hints, roles) is not None:
            came += _OF_YOLOV3
        kind = f"a detector with the head '{name}'" if name else "a detector: an SSD or a YOLO"
        raise ModelUnsupportedError(
            f"expected the outputs of {kind}, for an input of {size[1]}x{size[0]} px; got {came}"
            + (_ANCHORS_UNKNOWN if any(_box_and_score_lists(outputs)) else unscaled_hint(all_outputs))
        )
    return head


def _yolo_hints(
    name: HeadName, description: ModelDescription, labels: int | None, anchors: NDArray[np.float32] | None
) -> YoloHints:
    exporter = description.exporter
    family, _, task = name.partition("_")
    names = exporter.get("names")
    return YoloHints(
        family,
        task or str(exporter.get("task", "")),
        len(names) if isinstance(names, dict | list) else None,
        labels,
        keypoint_channels(exporter.get("kpt_shape")),
        anchors,
    )


def _ssd_head(
    outputs: Sequence[TensorSpec],
    size: tuple[int, int],
    description: ModelDescription,
    anchors: NDArray[np.float32] | None,
    roles: OutputRoles,
    named: bool,
) -> Head | None:
    """The head for encoded boxes [1, n, 4] and scores [1, n, classes], in any order."""
    options = description.post_process
    for pair in _box_and_score_lists(outputs):
        count = pair[0].anchors
        if options is None or len(options.anchors) != count:
            chosen = published_anchors(*size, count) if anchors is None else np.asarray(anchors, np.float32)
            if chosen is None and named:
                chosen = ssd_anchors(*size, count)  # which reports what is missing
            if chosen is None:
                continue
            if chosen.shape != (count, 4):
                raise ModelUnsupportedError(f"expected anchors [{count}, 4]; got {list(chosen.shape)}")
            encodings, scores = roles.ordered(pair[0], pair[1], encoded=True)
            if not named and anchors is None and roles.looks_encoded(encodings.spec) is False:
                continue  # a YOLO with an input of 160x128 px, for example, has as many cells
            options = _default_options(chosen)
        else:
            encodings, scores = roles.ordered(pair[0], pair[1], encoded=True)
        return SsdHead(encodings, scores, options, *size)
    return None


def _box_and_score_lists(outputs: Sequence[TensorSpec]) -> Iterator[tuple[Table, Table]]:
    """Pairs of outputs [1, n, 4] and [1, n, classes], in any order; axes of extent 1 are ignored."""
    lists = []
    for spec in outputs:
        extents = [extent for extent in spec.shape[1:] if extent > 1]
        if len(extents) == 1 and spec.shape[-1] == 1:
            extents.append(1)
        if len(spec.shape) in (3, 4) and spec.shape[0] == 1 and len(extents) == 2:
            lists.append(Table(spec, extents[0], extents[1]))
    for number, first in enumerate(lists):
        others = [each for each in lists[number + 1 :] if each.anchors == first.anchors]
        alike = sum(each.anchors == first.anchors for each in lists)
        if alike == 2 and others and BOX in (first.channels, others[0].channels):
            yield first, others[0]


def _default_options(anchors: NDArray[np.float32]) -> PostProcess:
    return PostProcess(
        anchors=anchors,
        scales=_SCALES,
        classes=0,
        max_detections=0,
        score_threshold=0.0,
        iou_threshold=_IOU_THRESHOLD,
        per_class=True,
        outputs=(),
    )
