"""The object detector as a node: subscribes image, publishes ~/detections, and masks of instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sensor_msgs.msg import Image
from std_msgs.msg import Header
from vision_msgs.msg import Detection2D, Detection2DArray

from edgetpu_driver.errors import DependencyMissingError
from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.images.image_messages import message_from_labels
from edgetpu_driver.node_kit.messages.detection_messages import detection_message
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_vision.debug_images import detections_picture
from edgetpu_vision.detection.detections import Detection, Detections, OrientedBox
from edgetpu_vision.detection.detector import Detector
from edgetpu_vision.detection.head_recognition import HEAD_NAMES
from edgetpu_vision.nodes.result_rows import detections_row
from edgetpu_vision.nodes.vision_node import VisionNode
from edgetpu_vision.nodes.vision_parameters import CLASSES, LABELS, max_results, vision_settings
from edgetpu_vision.tracking.object_tracker import START_CONFIDENCE, ObjectTracker


class ObjectDetectorNode(VisionNode):
    """Publishes the objects in each image."""

    settings = vision_settings(
        "ssd_mobilenet_v2_coco_quant_postprocess",
        0.5,
        LABELS,
        CLASSES,
        max_results(100, "detections in a message"),
        Setting(
            "nms_threshold",
            0.0,
            "Intersection over union above which the lower scored of two boxes of a class is left out. "
            "0: what the model says, otherwise 0.5.",
            0.0,
            1.0,
            read_only=False,
        ),
        Setting(
            "head",
            "",
            "Kind of the model's outputs where they are ambiguous. Empty: it is recognised.",
            choices=HEAD_NAMES,
            read_only=False,
        ),
        Setting(
            "boxes_output",
            "",
            "Name of the model's output with the boxes, if another looks like it. Empty: it is recognised.",
            read_only=False,
        ),
        Setting(
            "track",
            False,
            "Give each object an id that lasts from image to image. Needs the package edgefirst-tracker.",
            read_only=False,
        ),
    )
    results = ResultTopic(
        "detections",
        Detection2DArray,
        (
            ResultValue("count", "number of objects"),
            ResultValue("x", "centre of the best box, right positive", "px"),
            ResultValue("y", "centre of the best box, down positive", "px"),
        ),
        row=detections_row,
    )
    rebuilt_by = (
        *VisionNode.rebuilt_by,
        *("labels", "classes", "max_results", "nms_threshold", "head", "boxes_output"),
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("object_detector", **options)
        self._tracker: ObjectTracker | None = None
        self._ids: tuple[str, ...] = ()
        with self.destroyed_on_error():
            self._detections = self.create_publisher(Detection2DArray, "~/detections", QOS_RESULTS)
            self._instances = self.create_publisher(Image, "~/instances", QOS_RESULTS)
            try:
                self._track(self.values["track"])
            except DependencyMissingError as error:
                raise FatalError(f"parameter 'track': {error}") from None
        self.start_vision()

    def make_algorithms(self, values: Mapping[str, Any], **common: Any) -> tuple[Detector]:
        """Make the detector for these values of the parameters."""
        return (
            Detector(
                labels=values["labels"] or None,
                classes=values["classes"],
                max_results=values["max_results"],
                iou_threshold=values["nms_threshold"] or None,
                head=values["head"],
                boxes_output=values["boxes_output"],
                **common,
            ),
        )

    def refuse_parameter(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Return why a value is refused: the tracker is not installed, or as in VisionNode."""
        if name == "track" and values["track"]:
            try:
                ObjectTracker()
            except DependencyMissingError as error:
                return str(error)
        return super().refuse_parameter(name, values)

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply the new value of a parameter."""
        super().on_parameter(name, value)
        if name == "track":
            self._track(value)
        elif name in ("model", "min_confidence"):
            self._track(self.values["track"])

    def publish(self, header: Header, result: Detections) -> None:
        """Publish the result on ~/detections, and masks on ~/instances while there is a subscriber."""
        if result.instances is not None and self._instances.get_subscription_count():
            self._instances.publish(message_from_labels(header, result.instances))
        no_ids = ("",) * len(result.detections)
        self._ids = self._tracker.update(result) if self._tracker is not None else no_ids
        self._detections.publish(
            Detection2DArray(
                header=header,
                detections=[
                    _message(header, each, identifier)
                    for each, identifier in zip(result.detections, self._ids, strict=True)
                ],
            )
        )

    def draw(self, image: Pixels, result: Detections) -> Pixels:
        """Draw the boxes with label, score and id, and masks."""
        return detections_picture(image, result, self._ids)

    def _track(self, wanted: bool) -> None:
        """Turn tracking on, with an empty tracker, or off."""
        start = max(START_CONFIDENCE, self.values["min_confidence"])
        self._tracker = ObjectTracker(start) if wanted else None


def _message(header: Header, detection: Detection, identifier: str) -> Detection2D:
    box = detection.oriented or _upright(detection)
    center, size = (box.x, box.y), (box.width, box.height)
    name = str(detection.class_id)
    return detection_message(
        header, name, detection.score, center, size, angle=box.angle, identifier=identifier
    )


def _upright(detection: Detection) -> OrientedBox:
    return OrientedBox(*detection.center, detection.width, detection.height, 0.0)
