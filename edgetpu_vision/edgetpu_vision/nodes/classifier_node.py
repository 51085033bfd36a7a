"""The classifier as a node: subscribes image, publishes ~/classification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from std_msgs.msg import Header
from vision_msgs.msg import Classification, ObjectHypothesis

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_vision.classification.classifications import Classifications
from edgetpu_vision.classification.classifier import Classifier
from edgetpu_vision.debug_images import classification_picture
from edgetpu_vision.nodes.result_rows import classification_row
from edgetpu_vision.nodes.vision_node import VisionNode
from edgetpu_vision.nodes.vision_parameters import CLASSES, LABELS, OUTPUT, max_results, vision_settings


class ClassifierNode(VisionNode):
    """Publishes the most probable classes of each image."""

    settings = vision_settings(
        "mobilenet_v2_1.0_224_quant", 0.1, LABELS, OUTPUT, CLASSES, max_results(5, "classes in a message")
    )
    results = ResultTopic(
        "classification",
        Classification,
        (ResultValue("class_id", "number of the most probable class"),),
        row=classification_row,
    )
    rebuilt_by = (*VisionNode.rebuilt_by, "labels", "output", "classes", "max_results")

    def __init__(self, **options: Any) -> None:
        super().__init__("classifier", **options)
        with self.destroyed_on_error():
            self._classification = self.create_publisher(Classification, "~/classification", QOS_RESULTS)
        self.start_vision()

    def make_algorithms(self, values: Mapping[str, Any], **common: Any) -> tuple[Classifier]:
        """Make the classifier for these values of the parameters."""
        return (
            Classifier(
                labels=values["labels"] or None,
                output=values["output"],
                classes=values["classes"],
                max_results=values["max_results"],
                **common,
            ),
        )

    def publish(self, header: Header, result: Classifications) -> None:
        """Publish the result on ~/classification."""
        self._classification.publish(
            Classification(
                header=header,
                results=[
                    ObjectHypothesis(class_id=str(each.class_id), score=float(each.score))
                    for each in result.classes
                ],
            )
        )

    def draw(self, image: Pixels, result: Classifications) -> Pixels:
        """Write the labels and their scores."""
        return classification_picture(image, result)
