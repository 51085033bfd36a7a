"""Recognises the outputs of YOLO models by their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.detection.anchor_values import Table
from edgetpu_vision.detection.box_output import BOX, OutputRoles
from edgetpu_vision.detection.head import Head
from edgetpu_vision.detection.instance_masks import Prototypes
from edgetpu_vision.detection.yolo_channels import (
    KEYPOINT_CHANNELS,
    MASKS,
    YoloHints,
    check_not_yolox,
    check_steps,
    class_channels,
    has_masks,
)
from edgetpu_vision.detection.yolo_decoded import DecodedHead, EndToEndHead
from edgetpu_vision.detection.yolo_grids import Grids, possible_grids
from edgetpu_vision.detection.yolo_raw import (
    CENTRE_RANGES,
    PUBLISHED_ANCHORS,
    AnchorMap,
    AnchorMapsHead,
    DistributionHead,
)
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.output_values import always_probabilities, real_range

_BINS = 16
"""Number of bins of a distance's distribution in YOLOv8 and later."""
_DISTRIBUTIONS = BOX * _BINS
_ANCHORS = 3
"""Number of anchors of a cell in YOLOv3, v4 and v5."""
_COCO = 80
"""Number of classes of the published models."""
MOST_END_TO_END = 1000
"""Largest number of boxes, or people, that an end-to-end model gives; exporters use 300."""
_END_TO_END = BOX + 2
"""Number of channels for box, score and class."""
_ANGLE = 1
"""Number of channels for the angle of oriented boxes."""
_FURTHER = (0, _ANGLE, MASKS, KEYPOINT_CHANNELS)
"""Numbers of further channels of end-to-end models: none, an angle, weights of masks or keypoints."""


def yolo_head(
    outputs: Sequence[TensorSpec], size: tuple[int, int], hints: YoloHints, roles: OutputRoles
) -> Head | None:
    """The head for these outputs; None if they are not those of a YOLO model.

    size: height and width of the input, px. Raises ModelUnsupportedError if the outputs are ambiguous.
    """
    with_anchors = hints.family in ("yolov3", "yolov4", "yolov5")
    for grids in possible_grids(*size):
        head: Head | None = None
        if not with_anchors:
            head = _distribution_maps(outputs, grids, hints) or _separate_lists(outputs, grids, roles)
        if head is None and hints.family != "yolov8":
            head = (
                _anchor_maps(outputs, grids, hints)
                or _lists_of_anchors(outputs, grids, roles, named=with_anchors)
                or _list_with_objectness(outputs, grids, hints, roles.description)
            )
        if head is None and not with_anchors:
            head = _list_without_objectness(outputs, grids, hints, roles.description)
        if head is not None:
            return head
    return _end_to_end(outputs, size, hints, roles.description)


def _lists(outputs: Sequence[TensorSpec], count: int) -> Iterator[Table]:
    """The outputs [1, count, channels] or [1, channels, count]; there may be axes of extent 1 in between."""
    for spec in outputs:
        extents = [extent for extent in spec.shape[1:] if extent > 1] or [0]
        if len(spec.shape) > 3 and len(extents) > 2:
            continue
        if len(spec.shape) == 3:
            extents = list(spec.shape[1:])
        if spec.shape[:1] == (1,) and len(extents) == 2 and count in extents:
            channels_first = extents[0] != count
            yield Table(spec, count, extents[0 if channels_first else 1], channels_first)


def _list_with_objectness(
    outputs: Sequence[TensorSpec], grids: Grids, hints: YoloHints, description: ModelDescription
) -> Head | None:
    """Boxes, objectness, probabilities and any mask weights in one output."""
    tables = list(_lists(outputs, _ANCHORS * grids.cells))
    for table in tables if len(tables) == 1 else ():  # of several, none has all of them
        if table.channels > BOX + 1:
            check_steps(table.spec, description)
            found = class_channels(table.channels - BOX - 1, table.spec, outputs, hints, description)
            return DecodedHead(
                table,
                table,
                BOX + 1,
                found.classes,
                _size(grids),
                objectness=BOX,
                prototypes=_prototypes(outputs, table.channels - BOX - 1 - found.classes),
            )
    return None


def _list_without_objectness(
    outputs: Sequence[TensorSpec], grids: Grids, hints: YoloHints, description: ModelDescription
) -> Head | None:
    """Boxes, probabilities and any mask weights in one output; or distributions and logits."""
    for table in _lists(outputs, grids.cells):
        if not has_masks(outputs) and _is_raw(table, hints, description):
            classes = table.channels - _DISTRIBUTIONS
            return DistributionHead([table], [table], grids, _DISTRIBUTIONS, classes, _BINS)
        if table.channels <= BOX:
            continue
        check_steps(table.spec, description)
        if not has_masks(outputs):
            check_not_yolox(table.channels - BOX, table.spec, hints)
        found = class_channels(table.channels - BOX, table.spec, outputs, hints, description)
        if found.classes >= 1:
            angle = table.channels - 1 if found.angle else None
            prototypes = _prototypes(outputs, table.channels - BOX - found.classes)
            return DecodedHead(
                table, table, BOX, found.classes, _size(grids), angle=angle, prototypes=prototypes
            )
    return None


def _prototypes(outputs: Sequence[TensorSpec], further: int) -> Prototypes | None:
    """The output of mask prototypes, if this many channels after the classes are their weights."""
    return Prototypes.among(outputs) if further == MASKS else None


def _size(grids: Grids) -> tuple[int, int]:
    return grids.input_height, grids.input_width


def _is_raw(table: Table, hints: YoloHints, description: ModelDescription) -> bool:
    """Whether a list holds distributions and logits, rather than boxes and probabilities."""
    classes = table.channels - _DISTRIBUTIONS
    if classes < 1:
        return False
    if hints.classes is not None:
        return classes == hints.classes
    if hints.task in ("obb", "pose"):
        return False
    if hints.labels is not None and hints.labels in (classes, table.channels - BOX):
        return classes == hints.labels
    limits = real_range(description.quantised(table.spec))
    # Logits of absent classes are far below 0; boxes and probabilities are not.
    return classes == _COCO or (limits is not None and -limits[0] > limits[1] / 4)


def _separate_lists(outputs: Sequence[TensorSpec], grids: Grids, roles: OutputRoles) -> Head | None:
    """Boxes in one output, classes in another; boxes of 4 channels are decoded, those of 64 are not.

    Mask weights may be in a third output.
    """
    tables = list(_lists(outputs, grids.cells))
    prototypes, weights = Prototypes.among(outputs), None
    if len(tables) == 3 and prototypes is not None:
        weights = next((table for table in tables[::-1] if table.channels == MASKS), None)
        tables = [table for table in tables if table is not weights]
    if len(tables) != 2:
        return None
    for boxes, scores in (tables, tables[::-1]):
        if roles.boxes not in ("", boxes.spec.name):
            continue
        four_classes = scores.channels == BOX and not always_probabilities(
            roles.description.quantised(boxes.spec)
        )
        if boxes.channels == _DISTRIBUTIONS and (scores.channels != BOX or four_classes):
            return DistributionHead([boxes], [scores], grids, 0, scores.channels, _BINS)
    if BOX not in (tables[0].channels, tables[1].channels):
        return None
    boxes, scores = roles.ordered(tables[0], tables[1], encoded=False)
    return _decoded_lists(boxes, scores, grids, roles, None if weights is None else prototypes, weights)


def _lists_of_anchors(
    outputs: Sequence[TensorSpec], grids: Grids, roles: OutputRoles, named: bool
) -> Head | None:
    """Boxes in one output, classes times objectness in another, for three anchors a cell, as in YOLOv4.

    named: whether the user said that the model is a YOLO with anchors.
    """
    tables = list(_lists(outputs, _ANCHORS * grids.cells))
    if len(tables) != 2 or BOX not in (tables[0].channels, tables[1].channels):
        return None
    boxes, scores = roles.ordered(tables[0], tables[1], encoded=False)
    # An SSD may have three anchors a cell, too; its boxes mean nothing without them.
    # Only a range tells them from those of a YOLO.
    encoded = roles.looks_encoded(boxes.spec)
    of_ssd = not named if encoded is None else encoded
    return None if of_ssd else _decoded_lists(boxes, scores, grids, roles)


def _decoded_lists(
    boxes: Table,
    scores: Table,
    grids: Grids,
    roles: OutputRoles,
    prototypes: Prototypes | None = None,
    weights: Table | None = None,
) -> Head:
    return DecodedHead(
        boxes,
        scores,
        0,
        scores.channels,
        _size(grids),
        are_logits=roles.are_logits(scores.spec),
        prototypes=prototypes,
        weights=weights,
    )


def _distribution_maps(outputs: Sequence[TensorSpec], grids: Grids, hints: YoloHints) -> Head | None:
    """For each grid, one map with distributions and classes, or two maps."""
    maps = _maps(outputs, grids)
    count = len(maps[0])
    if any(len(tables) != count for tables in maps):
        return None
    if count == 1:
        tables = [tables[0] for tables in maps]
        classes = tables[0].channels - _DISTRIBUTIONS
        alike = {table.channels for table in tables} == {tables[0].channels}
        if not alike or classes < 1 or not (hints.family or classes in (hints.classes, hints.labels, _COCO)):
            return None
        return DistributionHead(tables, tables, grids, _DISTRIBUTIONS, classes, _BINS)
    if count == 2:
        # If both maps of a grid have 64 channels, the first has the boxes.
        pairs = [sorted(tables, key=lambda table: table.channels != _DISTRIBUTIONS) for tables in maps]
        boxes, scores = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        channels = {table.channels for table in scores}
        if {table.channels for table in boxes} == {_DISTRIBUTIONS} and len(channels) == 1:
            return DistributionHead(boxes, scores, grids, 0, channels.pop(), _BINS)
    return None


def _maps(outputs: Sequence[TensorSpec], grids: Grids) -> list[list[Table]]:
    """For each grid the outputs [1, rows, columns, channels], or if not all fit [1, channels, rows, columns].

    Rows and columns may be one axis.

    A map of as many classes as its grid has rows and columns fits both: the other maps decide.
    """
    last = [_maps_of_grid(outputs, *size, channels_first=False) for size in grids.sizes]
    first = [_maps_of_grid(outputs, *size, channels_first=True) for size in grids.sizes]
    return max(last, first, key=lambda maps: sum(map(len, maps)))


def _maps_of_grid(
    outputs: Sequence[TensorSpec], rows: int, columns: int, channels_first: bool
) -> list[Table]:
    tables = []
    for spec in outputs:
        if len(spec.shape) in (3, 4) and spec.shape[0] == 1:
            *extents, channels = spec.shape[1:]
            if channels_first:
                channels, *extents = spec.shape[1:]
            if extents in ([rows, columns], [rows * columns]):
                tables.append(Table(spec, rows * columns, channels, channels_first))
    return tables


def _anchor_maps(outputs: Sequence[TensorSpec], grids: Grids, hints: YoloHints) -> Head | None:
    """For each grid, a map with the channels of its anchors one after the other, or anchors as an axis."""
    exponential = hints.family in ("yolov3", "yolov4")
    kind = hints.family or "yolov5", len(grids.strides)
    given = PUBLISHED_ANCHORS.get(kind, ()) if hints.anchors is None else hints.anchors
    anchors = np.array(given, np.float32)
    if len(anchors) != len(grids.strides) or anchors.ndim != 3 or anchors.shape[2] != 2:
        return None
    maps = []
    for rows, columns in grids.sizes:
        found = [_anchor_map(spec, rows, columns, anchors.shape[1]) for spec in outputs]
        maps += [each for each in found if each is not None]
    if len(maps) != len(anchors) or len({each.channels for each in maps}) != 1:
        return None
    if maps[0].channels <= BOX + 1:
        return None
    ranges = CENTRE_RANGES.get(kind, (1.0 if exponential else 2.0,) * len(anchors))
    return AnchorMapsHead(maps, grids, anchors, ranges, exponential)


def _anchor_map(spec: TensorSpec, rows: int, columns: int, anchors: int) -> AnchorMap | None:
    shape, cells = spec.shape, rows * columns
    channels, rest = divmod(prod(shape), cells * anchors)
    orders = {
        (1, rows, columns, anchors * channels): (0, 1, 2),
        (1, rows, columns, anchors, channels): (0, 1, 2),
        (1, cells, anchors, channels): (0, 1, 2),
        (1, anchors, rows, columns, channels): (1, 0, 2),
        (1, anchors, cells, channels): (1, 0, 2),
        (1, anchors * channels, rows, columns): (2, 0, 1),
    }
    order = orders.get(shape)
    return AnchorMap(spec, cells, anchors, channels, order) if order is not None and not rest else None


def _end_to_end(
    outputs: Sequence[TensorSpec], size: tuple[int, int], hints: YoloHints, description: ModelDescription
) -> Head | None:
    for spec in outputs:
        if len(spec.shape) != 3 or spec.shape[0] != 1 or not 1 < spec.shape[1] <= MOST_END_TO_END:
            continue
        further = spec.shape[2] - _END_TO_END
        of_poses = hints.task == "pose" and further == hints.keypoint_channels
        if further in _FURTHER or of_poses:
            check_steps(spec, description)
            table = Table(spec, spec.shape[1], spec.shape[2])
            return EndToEndHead(table, size, further == _ANGLE, _prototypes(outputs, further))
    return None
