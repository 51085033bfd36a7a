"""The pose estimator as a node: subscribes image, publishes ~/poses, and masks with BodyPix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.images.image_messages import message_from_labels
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_msgs.msg import Keypoint, PersonPose, PersonPoses
from edgetpu_vision.debug_images import poses_picture
from edgetpu_vision.nodes.result_rows import poses_row
from edgetpu_vision.nodes.vision_node import VisionNode
from edgetpu_vision.nodes.vision_parameters import max_results, vision_settings
from edgetpu_vision.pose_estimation.body_pix import BodyPix
from edgetpu_vision.pose_estimation.pose_estimator import PoseEstimator
from edgetpu_vision.pose_estimation.poses import PART_NAMES, BodySegmentation, Poses

SOMEBODY = 255
"""Value in ~/people of pixels of a person that belong to none of the poses."""


class PoseEstimatorNode(VisionNode):
    """Publishes the people in each image as named keypoints."""

    settings = vision_settings(
        "movenet_single_pose_lightning_ptq", 0.2, max_results(20, "people in a message")
    )
    results = ResultTopic(
        "poses",
        PersonPoses,
        (
            ResultValue("count", "number of people"),
            ResultValue("nose_x", "nose of the best pose, right positive", "px"),
            ResultValue("nose_y", "nose of the best pose, down positive", "px"),
        ),
        row=poses_row,
    )
    rebuilt_by = (*VisionNode.rebuilt_by, "max_results")

    def __init__(self, **options: Any) -> None:
        super().__init__("pose_estimator", **options)
        with self.destroyed_on_error():
            self._poses = self.create_publisher(PersonPoses, "~/poses", QOS_RESULTS)
            self._people = self.create_publisher(Image, "~/people", QOS_RESULTS)
            self._parts = self.create_publisher(Image, "~/parts", QOS_RESULTS)
        self.start_vision()

    def make_algorithms(self, values: Mapping[str, Any], **common: Any) -> tuple[BodyPix, PoseEstimator]:
        """Make the algorithms for these values of the parameters: one with masks, and one without."""
        common |= {"max_poses": values["max_results"]}
        return BodyPix(**common), PoseEstimator(**common)

    def class_names(self) -> Sequence[str]:
        """Return the names of the body parts, if the model distinguishes them."""
        return PART_NAMES if isinstance(self.algorithm, BodyPix) else ()

    def publish(self, header: Header, result: Poses | BodySegmentation) -> None:
        """Publish the poses on ~/poses, and the masks on ~/people and ~/parts while they have subscribers."""
        if isinstance(result, BodySegmentation):
            if self._people.get_subscription_count():
                unattributed = result.people & (result.instances == 0)
                people = np.where(unattributed, np.uint8(SOMEBODY), result.instances)
                self._people.publish(message_from_labels(header, people))
            if self._parts.get_subscription_count():
                self._parts.publish(message_from_labels(header, result.parts))
        self._poses.publish(
            PersonPoses(
                header=header,
                valid=bool(result.valid),
                confidence=float(result.confidence),
                people=[
                    PersonPose(
                        score=float(pose.score),
                        keypoints=[
                            Keypoint(
                                name=each.name, x=float(each.x), y=float(each.y), score=float(each.score)
                            )
                            for each in pose.keypoints
                        ],
                    )
                    for pose in result.poses
                ],
            )
        )

    def draw(self, image: Pixels, result: Poses | BodySegmentation) -> Pixels:
        """Draw the skeletons, on people tinted by their parts if the model outputs these."""
        return poses_picture(image, result)
