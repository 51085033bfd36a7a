"""Subscribes to pictures while a browser shows them. For the executor's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import Image

from edgetpu_dashboard.live.picture_encoding import CAMERA_VIEW, Pixels
from edgetpu_dashboard.live.pictures_with_results import MOST_UNMATCHED, ImageTap, OverlayTap
from edgetpu_driver.errors import InputError
from edgetpu_driver.images.encodings import ImageError
from edgetpu_driver.node_kit.images.image_messages import image_from_message
from edgetpu_driver.node_kit.images.serialized_image import read_image

_NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)

Tap = ImageTap | OverlayTap
Draw = Callable[[Pixels, Any], Pixels]


class PictureSubscriptions:
    """The pictures of all nodes and of the camera, by view: the name of a node, or CAMERA_VIEW.

    A node whose results can be drawn here, on the camera's image, does not draw them itself. If its results
    belong to another camera's images, or can only be drawn by the node, its debug images are shown.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._taps: dict[str, Tap] = {}
        self._lookers: dict[str, int] = {}
        self._subscriptions: dict[str, Any] = {}
        """By topic, as `_topic_of` names them."""

    def look(self, view: str, draw: Draw | None = None) -> Tap:
        """Start to receive the pictures of a view; draw: draws a result here instead of in the node."""
        self._lookers[view] = self._lookers.get(view, 0) + 1
        if view not in self._taps:
            self._taps[view] = ImageTap(_decoded) if draw is None else OverlayTap(_decoded, draw)
            self._subscribe()
        return self._taps[view]

    def look_away(self, view: str) -> None:
        """Undo `look`."""
        self._lookers[view] -= 1
        if not self._lookers[view]:
            del self._lookers[view], self._taps[view]
            self._subscribe()

    def tap(self, view: str) -> Tap | None:
        """The pictures of a view that a browser shows; None for others."""
        return self._taps.get(view)

    def on_result(self, view: str, message: Any) -> None:
        """Store a result of a node."""
        tap = self._taps.get(view)
        if isinstance(tap, OverlayTap):
            tap.put_result((message.header.stamp.sec, message.header.stamp.nanosec), message)
            if tap.unmatched > MOST_UNMATCHED:
                self._taps[view] = ImageTap(_decoded)
                self._subscribe()

    def _subscribe(self) -> None:
        """Subscribe to the topics of the views that are shown, and to no others."""
        wanted = {_topic_of(view, tap) for view, tap in self._taps.items()}
        for topic in self._subscriptions.keys() - wanted:
            self._node.destroy_subscription(self._subscriptions.pop(topic))
        for topic in wanted - self._subscriptions.keys():
            qos = qos_profile_sensor_data if topic == "image" else _NEWEST
            self._subscriptions[topic] = self._node.create_subscription(
                Image, topic, lambda message, topic=topic: self._on_image(topic, message), qos, raw=True
            )

    def _on_image(self, topic: str, message: bytes) -> None:
        try:
            image = read_image(message)
        except ImageError:
            return  # the nodes that get it say so
        stamp = image.header.stamp.sec, image.header.stamp.nanosec
        for view, tap in self._taps.items():
            if _topic_of(view, tap) != topic:
                continue
            if isinstance(tap, OverlayTap):
                tap.put_image(stamp, image, len(message))
            else:
                tap.put(image)


def _topic_of(view: str, tap: Tap) -> str:
    return "image" if view == CAMERA_VIEW or isinstance(tap, OverlayTap) else f"{view}/debug_image"


def _decoded(image: Any) -> Pixels:
    try:
        return image_from_message(image)
    except ImageError as error:
        raise InputError(str(error)) from None
