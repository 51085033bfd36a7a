"""The detector: boxes, classes and scores of the objects in an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.real_arrays import real_array
from edgetpu_vision.algorithm import Frame, ModelLike, Outputs, VisionAlgorithm
from edgetpu_vision.class_selection import check_max_results, check_share, selected_classes
from edgetpu_vision.detection.detections import Detection, Detections
from edgetpu_vision.detection.head_recognition import check_head_name, recognise_head
from edgetpu_vision.detection.non_maximum_suppression import Candidates
from edgetpu_vision.detection.oriented_boxes import oriented_boxes
from edgetpu_vision.preprocessing.image_fit import Fit


class Detector(VisionAlgorithm[Detections]):
    """Detects objects with an SSD or a YOLO; see `recognise_head` for the supported outputs."""

    default_fit: ClassVar[Fit] = "letterbox"

    max_results: int
    """Largest number of objects in a result."""
    iou_threshold: float | None
    """Intersection over union of two boxes of a class above which the one with the lower score is dropped;
    None for what the model says, otherwise 0.5."""

    def __init__(
        self,
        model: ModelLike | None = None,
        *,
        min_confidence: float = 0.4,
        max_results: int = 100,
        classes: Sequence[str | int] = (),
        iou_threshold: float | None = None,
        head: str = "",
        boxes_output: str = "",
        anchors: ArrayLike | None = None,
        **options: Any,
    ) -> None:
        """Prepare for a model; see VisionAlgorithm for the other options and what is raised.

        classes: labels or numbers of the classes to find, all by default. head: the kind of the outputs, see
        HeadName; "" to recognise it. boxes_output: name of the output with the boxes, if another one looks
        like it; "" to recognise it. anchors: those of an SSD, float32[n, 4]: y, x, height and width as parts
        of the image; or of a YOLOv3, v4 or v5, float32[grids, anchors of a cell, 2]: width and height in px
        of the input; None for those in the files, or else those of the published models. Raises InputError
        for an unknown head, and unless max_results is 1 or more, iou_threshold from 0 to 1 and anchors are
        finite.
        """
        check_max_results(max_results)
        if iou_threshold is not None:
            check_share("iou_threshold", iou_threshold)
        self.max_results = max_results
        self.iou_threshold = iou_threshold
        self._wanted = classes
        self._head_name = check_head_name(head)
        self._boxes_output = boxes_output
        self._anchors = None if anchors is None else _finite(anchors)
        super().__init__(model, min_confidence=min_confidence, **options)

    def _recognise(self, image: TensorSpec, outputs: Sequence[TensorSpec]) -> None:
        self._head = head = recognise_head(
            outputs,
            (image.shape[1], image.shape[2]),
            self.description,
            name=self._head_name,
            boxes_output=self._boxes_output,
            anchors=self._anchors,
            labels=self._label_table.count,
        )
        self.use_labels(head.classes)
        if self.labels is not None:  # objects are never background
            self.labels = self.labels.without_background()
        self._chosen = head.wanted = selected_classes(self._wanted, self.labels, head.classes)

    def postprocess(self, frame: Frame, outputs: Outputs) -> Detections:
        """The objects, the highest score first.

        Raises OutputsError if the outputs have other names or shapes, LabelsError for a class without label.
        """
        head = self._head
        with np.errstate(invalid="ignore", over="ignore"):
            found = head.candidates(outputs, self.min_confidence).usable()
        if self._chosen is not None:
            found = found.take(np.flatnonzero(np.isin(found.classes, self._chosen)))
        limit = self.max_results if head.most is None else min(self.max_results, head.most)
        if not head.suppressed:
            threshold = head.iou_threshold if self.iou_threshold is None else self.iou_threshold
            found = found.suppressed(threshold, head.per_class, limit)
        found = found.highest(limit)
        numbered = self._in_image(found, frame)
        detections, instances = tuple(numbered.values()), None
        if head.prototypes is not None:
            weights = found.take(np.array([*numbered], np.intp)).mask_weights
            with np.errstate(invalid="ignore", over="ignore"):
                instances = head.prototypes.instances(outputs, weights, detections, frame)
        return Detections(frame.stamp, frame.image_width, frame.image_height, detections, instances)

    def _in_image(self, found: Candidates, frame: Frame) -> dict[int, Detection]:
        """The boxes in px of the image, by their index in `found`; upright ones are clipped to the region."""
        region, labels = frame.placement.region, self.labels
        left, top = region.x_offset, region.y_offset
        oriented, around = oriented_boxes(found, frame.placement)
        x = np.clip(around[:, 0::2], left, left + region.width).tolist()
        y = np.clip(around[:, 1::2], top, top + region.height).tolist()
        detections = {}
        for number, (class_id, score, (x_min, x_max), (y_min, y_max), box) in enumerate(
            zip(found.classes.tolist(), found.scores.tolist(), x, y, oriented, strict=True)
        ):
            if x_max > x_min and y_max > y_min:
                label = labels.name(class_id) if labels is not None else ""
                detections[number] = Detection(class_id, label, score, x_min, y_min, x_max, y_max, box)
        return detections


def _finite(anchors: ArrayLike) -> NDArray[np.float32]:
    """Anchors as float32; InputError unless they are finite numbers."""
    found: NDArray[np.float32] = real_array(anchors, "anchors").astype(np.float32)
    if not np.isfinite(found).all():
        raise InputError("expected anchors of finite numbers; got NaN or infinity")
    return found
