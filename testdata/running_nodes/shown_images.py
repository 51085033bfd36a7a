"""A camera that shows images to perception nodes, one after the other, and collects their results."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_msgs.msg import Flow, Heading, PatternMatch, TimeToContact

Pixels = NDArray[np.uint8]

RESULTS = {
    "looming": (TimeToContact, "time_to_contact"),
    "optical_flow": (Flow, "flow"),
    "pattern_tracker": (PatternMatch, "match"),
    "visual_compass": (Heading, "heading"),
}
"""Type and topic of the results of each node, by its name."""


def header(seconds: float) -> Header:
    """A header with this time, s."""
    nanoseconds = round(seconds * 1e9)
    stamp = Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
    return Header(stamp=stamp, frame_id="camera_optical_frame")


def image_message(seconds: float, image: Pixels) -> Image:
    """A grey image, uint8 [H, W], at this time, s."""
    height, width = image.shape
    data = array.array("B", image.tobytes())
    return Image(header=header(seconds), height=height, width=width, encoding="mono8", step=width, data=data)


class Camera:
    """Publishes images for nodes, and collects what they make of them."""

    def __init__(self, graph: Any, topic: str, nodes: dict[str, str]) -> None:
        """`nodes`, of one process: name of each node's results -> its fully qualified name."""
        self._graph = graph
        self._images = graph.node.create_publisher(Image, topic, 10)
        self.results = {
            kind: graph.collect(RESULTS[kind][0], f"{name}/{RESULTS[kind][1]}")
            for kind, name in nodes.items()
        }
        graph.spin_until(lambda: self._images.get_subscription_count() == 1)

    def warm_up(self) -> Camera:
        """Show black images until the last has all results: nodes join, and the driver begins, at leisure."""
        tenths = iter(range(1, 1000))

        def answered() -> bool:
            seconds = next(tenths) / 10
            self._images.publish(shown := image_message(seconds, np.zeros((32, 32), np.uint8)))

            def has_come() -> bool:
                return all(each and each[-1].header == shown.header for each in self.results.values())

            self._graph.spin_for(seconds, has_come)  # longer each time
            return has_come()

        self._graph.spin_until(answered)
        return self

    def show(self, seconds: float, image: Pixels) -> dict[str, Any]:
        """Publish one image and wait for the result of each node."""
        message = image_message(seconds, image)
        for results in self.results.values():
            results.clear()
        self._images.publish(message)

        def answers() -> dict[str, Any]:
            return {
                kind: result
                for kind, results in self.results.items()
                for result in results
                if result.header == message.header
            }

        self._graph.spin_until(lambda: len(answers()) == len(self.results))
        return answers()
