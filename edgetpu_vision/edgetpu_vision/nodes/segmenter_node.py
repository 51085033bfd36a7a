"""The segmenter as a node: subscribes image, publishes ~/segmentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.images.image_messages import message_from_labels
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_vision.debug_images import segmentation_picture
from edgetpu_vision.nodes.result_rows import segmentation_row
from edgetpu_vision.nodes.vision_node import VisionNode
from edgetpu_vision.nodes.vision_parameters import LABELS, OUTPUT, vision_settings
from edgetpu_vision.segmentation.segmentation import Segmentation
from edgetpu_vision.segmentation.segmenter import Segmenter


class SegmenterNode(VisionNode):
    """Publishes the class of each pixel of an image."""

    settings = vision_settings("deeplabv3_mnv2_pascal_quant", 0.0, LABELS, OUTPUT)
    results = ResultTopic(
        "segmentation",
        Image,
        (ResultValue("classes", "number of classes in view"), ResultValue("largest", "its number")),
        row=segmentation_row,
    )
    rebuilt_by = (*VisionNode.rebuilt_by, "labels", "output")

    def __init__(self, **options: Any) -> None:
        super().__init__("segmenter", **options)
        with self.destroyed_on_error():
            self._segmentation = self.create_publisher(Image, "~/segmentation", QOS_RESULTS)
        self.start_vision()

    def make_algorithms(self, values: Mapping[str, Any], **common: Any) -> tuple[Segmenter]:
        """Make the segmenter for these values of the parameters."""
        return (Segmenter(labels=values["labels"] or None, output=values["output"], **common),)

    def publish(self, header: Header, result: Segmentation) -> None:
        """Publish the labels of all pixels on ~/segmentation."""
        self._segmentation.publish(message_from_labels(header, result.labels))

    def draw(self, image: Pixels, result: Segmentation) -> Pixels:
        """Colour the pixels by their class."""
        return segmentation_picture(image, result)
