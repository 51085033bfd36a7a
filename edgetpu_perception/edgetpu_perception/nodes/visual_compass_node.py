"""The visual compass as a node: subscribes image and camera_info, publishes ~/heading and ~/twist."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TwistWithCovarianceStamped, Vector3
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.messages.message_fields import scalar_fields
from edgetpu_driver.node_kit.messages.message_stamps import seconds_of
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_msgs.msg import Heading
from edgetpu_perception.debug_images import heading_picture
from edgetpu_perception.nodes.perception_node import PerceptionNode
from edgetpu_perception.nodes.perception_parameters import model_size, perception_settings
from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass

UNKNOWN_VARIANCE = 1e6
"""Variance of the linear velocity, m^2/s^2, which is not measured: large enough for a filter to ignore it."""


class VisualCompassNode(PerceptionNode):
    """Publishes the yaw of the camera since the last reset, and its angular velocity.

    Both need the camera's intrinsics; without them the results are not valid. ~/twist has no `valid` flag, so
    it is published for valid results only; it is in the optical frame of the image.
    """

    settings = perception_settings(
        model_size("64; 96 or 128, which measure turns more exactly unless near objects are in view."),
        Setting(
            "tilt",
            0.0,
            "Angle by which the camera looks down when the robot is level, rad. 0: horizontal.",
            -math.pi / 2,
            math.pi / 2,
        ),
        Setting(
            "looks_ahead",
            False,
            "Whether the camera looks in the direction of motion, except for its tilt, as on most wheeled "
            "robots. The growth of the picture then distinguishes driving from turning.",
        ),
    )
    needs_stamps = True
    results = ResultTopic(
        "heading",
        Heading,
        (
            ResultValue("yaw", "heading, left positive", "rad", "yaw_sigma"),
            ResultValue("yaw_rate", "turning, left positive", "rad/s", "yaw_rate_sigma"),
        ),
        picture=heading_picture,
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("visual_compass", **options)
        # The message's own stamp: as seconds in floating point it would lose its last digits.
        self._reference_stamp = Time()
        self._heading = self.create_publisher(Heading, "~/heading", QOS_RESULTS)
        self._twist = self.create_publisher(TwistWithCovarianceStamped, "~/twist", QOS_RESULTS)
        self.create_service(Trigger, "~/reset_heading", self._reset)
        tilt = self.values["tilt"]
        up = (0.0, -math.cos(tilt), -math.sin(tilt))
        self._compass = VisualCompass(up=up, size=self.values["size"], looks_ahead=self.values["looks_ahead"])
        self.start(self._compass)

    def measuring_problems(self) -> list[str]:
        """Return a problem if there is no camera calibration, or if stamps stand still."""
        problems = super().measuring_problems()
        if self._compass.camera is None:
            missing = "no usable camera_info, which the heading needs"
            problems.append(f"{missing}; set horizontal_fov if the camera has none")
        return problems

    def publish(self, header: Header, result: HeadingResult) -> None:
        """Publish the result on ~/heading and, if it is valid and there are subscribers, on ~/twist."""
        if result.reference_stamp == seconds_of(header):
            self._reference_stamp = header.stamp
        self._heading.publish(
            Heading(
                header=header,
                reference_stamp=Time() if math.isnan(result.reference_stamp) else self._reference_stamp,
                **scalar_fields(Heading, result),
            )
        )
        if result.valid and self._twist.get_subscription_count():
            self._twist.publish(_twist(header, result))

    def draw(self, image: Pixels, result: HeadingResult) -> Pixels:
        """Draw a dial with the yaw, and the numbers."""
        return heading_picture(image, result)

    def _reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:  # noqa: ARG002
        self._compass.reset()
        response.success, response.message = True, "yaw is 0 at the next image"
        return response


def _twist(header: Header, result: HeadingResult) -> TwistWithCovarianceStamped:
    x, y, z = map(float, result.angular_velocity)
    covariance = np.zeros((6, 6))
    covariance[:3, :3] = np.eye(3) * UNKNOWN_VARIANCE
    covariance[3:, 3:] = np.reshape(result.angular_velocity_covariance, (3, 3))
    message = TwistWithCovarianceStamped(header=header)
    message.twist.twist.angular = Vector3(x=x, y=y, z=z)
    message.twist.covariance = covariance.ravel()
    return message
