"""Log messages about missing images: none arrived, none arrive any more, or some were lost on the way."""

from __future__ import annotations

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy

from edgetpu_driver.node_kit.silent_topic import SilentTopic

LOST_SHARE = 0.05
"""Share of lost images from which a message is logged: one in _WINDOW."""

_WINDOW = 20
"""Images over which that share is taken: less than a second of a camera of 30 Hz."""


class MissingImages:
    """Reports when the images on a topic stop, resume or are lost; `step` is called about once a second."""

    def __init__(self, node: Node, topic: str, *, compressed: bool, reliable: bool) -> None:
        self._node, self._topic = node, topic
        self._compressed, self._reliable = compressed, reliable
        self._silence = SilentTopic(node, topic, "images", self._reason)
        self._window = 0, 0
        """Images received and lost at the beginning of the window."""
        self._loss_reported = False

    def step(self, received: int, lost: int) -> None:
        """Take the numbers of images received and lost since the start of the node, and report changes."""
        self._silence.received = received
        self._silence.check()
        self._check_loss(received, lost)

    def _check_loss(self, received: int, lost: int) -> None:
        came, missed = received - self._window[0], lost - self._window[1]
        if came + missed < _WINDOW:
            return
        self._window = received, lost
        # Each publisher numbers its images separately.
        if self._loss_reported or missed < LOST_SHARE * (came + missed) or self._publishers(self._topic) > 1:
            return
        self._loss_reported = True
        self._node.get_logger().warning(
            f"{missed} of {came + missed} images on {self._topic} were lost between camera and node; "
            f"{self._cure()}"
        )

    def _cure(self) -> str:
        if self._reliable:
            return "the camera's queue is too short: increase the depth of its publisher"
        return (
            f"start the camera with FASTRTPS_DEFAULT_PROFILES_FILE={_profile()} (Fast DDS), as the launch "
            "file does for these nodes, or set qos_reliability to reliable"
        )

    def _reason(self) -> str:
        """Return a hint if images are published in a way that this node does not subscribe to."""
        if self._publishers(self._topic):
            if self._reliable and self._are_best_effort():
                return "; they are published best effort: set qos_reliability to best_effort"
            return ""
        if self._compressed:
            other, transport = self._topic.removesuffix("/compressed"), "raw"
        else:
            other, transport = f"{self._topic}/compressed", "compressed"
        if not self._publishers(other):
            return "; it has no publisher"
        return f"; there is {other}: set image_transport to {transport}"

    def _are_best_effort(self) -> bool:
        publishers = self._node.get_publishers_info_by_topic(self._topic)
        return all(each.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT for each in publishers)

    def _publishers(self, topic: str) -> int:
        return int(self._node.count_publishers(topic))


def _profile() -> str:
    try:
        return f"{get_package_share_directory('edgetpu_ros')}/config/fastdds.xml"
    except PackageNotFoundError:
        return "config/fastdds.xml"
