"""Publishes pictures of results on ~/debug_image, if there are subscribers, at a limited rate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from rclpy.node import Node
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.images.image_messages import message_from_rgb
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_DEBUG


class DebugImages:
    """The debug images of one node.

    The rate is limited in real time, not by stamps: the limit is for the processor's sake.
    """

    def __init__(self, node: Node, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: returns the time, s."""
        self._publisher = node.create_publisher(Image, "~/debug_image", QOS_DEBUG)
        self._clock = clock
        self._last = -math.inf
        """When the last picture was due, s."""

    def wanted(self, rate: float) -> bool:
        """Whether there is a subscriber and a picture is due, at most `rate` a second; 0: no limit."""
        now, period = self._clock(), 1 / rate if rate else 0.0
        if now < self._last + period:
            return False
        if not self._publisher.get_subscription_count():
            return False
        # A late picture does not delay the next one, so that the rate is kept on the whole.
        self._last = max(self._last + period, now - period)
        return True

    def publish(self, header: Header, picture: Pixels) -> None:
        """Publish a picture, uint8 [H, W, 3] RGB, under the header of its image."""
        self._publisher.publish(message_from_rgb(header, picture))
