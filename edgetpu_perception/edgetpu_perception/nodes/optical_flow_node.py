"""Optical flow as a node: subscribes image, publishes ~/flow."""

from __future__ import annotations

import math
from typing import Any

from builtin_interfaces.msg import Time
from std_msgs.msg import Header

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.messages.message_fields import scalar_fields
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_msgs.msg import Flow
from edgetpu_perception.debug_images import flow_picture
from edgetpu_perception.nodes.perception_node import PerceptionNode
from edgetpu_perception.nodes.perception_parameters import model_size, perception_settings
from edgetpu_perception.optical_flow.optical_flow import FlowResult, OpticalFlow


class OpticalFlowNode(PerceptionNode):
    """Publishes how the content of the image has moved since the previous image."""

    settings = perception_settings(model_size("64; 96 or 128, which see smaller texture."))
    results = ResultTopic(
        "flow",
        Flow,
        (
            ResultValue("dx", "motion of the content, right positive", "px", "dx_sigma"),
            ResultValue("dy", "motion of the content, down positive", "px", "dy_sigma"),
        ),
        picture=flow_picture,
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("optical_flow", **options)
        # The message's own stamp: as seconds in floating point it would lose its last digits.
        self._previous_stamp = Time()
        self._flow_publisher = self.create_publisher(Flow, "~/flow", QOS_RESULTS)
        self._flow = OpticalFlow(size=self.values["size"])
        self.start(self._flow)

    def publish(self, header: Header, result: FlowResult) -> None:
        """Publish the result on ~/flow."""
        self._flow_publisher.publish(
            Flow(
                header=header,
                previous_stamp=Time() if math.isnan(result.previous_stamp) else self._previous_stamp,
                **scalar_fields(Flow, result),
            )
        )
        self._previous_stamp = header.stamp

    def draw(self, image: Pixels, result: FlowResult) -> Pixels:
        """Draw the motion as an arrow, and the score of each candidate shift."""
        return flow_picture(image, result, self._flow.surface)
