"""The pose estimator as a node: subscribes image, publishes ~/poses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from std_msgs.msg import Header

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.base_node import QOS_RESULTS
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_msgs.msg import Keypoint, PersonPose, PersonPoses
from edgetpu_vision.algorithm import VisionAlgorithm
from edgetpu_vision.debug_images.result_pictures import poses_picture
from edgetpu_vision.nodes.result_rows import poses_row
from edgetpu_vision.nodes.vision_node import VisionNode
from edgetpu_vision.nodes.vision_parameters import max_results, vision_settings
from edgetpu_vision.pose_estimation.pose_estimator import PoseEstimator
from edgetpu_vision.pose_estimation.poses import Poses


class PoseEstimatorNode(VisionNode):
    """Publishes the people in the image as named keypoints."""

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
    rebuilt_by = ("fit", "feedback", "max_results")
    has_labels = False

    def __init__(self, **options: Any) -> None:
        super().__init__("pose_estimator", **options)
        with self.destroyed_on_error():
            self._poses = self.create_publisher(PersonPoses, "~/poses", QOS_RESULTS)
        self.start_vision()

    def make_algorithm(self, values: Mapping[str, Any], **common: Any) -> VisionAlgorithm[Any]:
        """Make the pose estimator for these values of the parameters."""
        return PoseEstimator(max_poses=values["max_results"], **common)

    def publish(self, header: Header, result: Poses) -> None:
        """Publish the poses on ~/poses."""
        self._poses.publish(
            PersonPoses(
                header=header,
                valid=result.valid,
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

    def draw(self, image: Pixels, result: Poses) -> Pixels:
        """Draw the skeletons."""
        return poses_picture(image, result)
