"""The spot tracker as a node: image in, ~/servo_error out."""

from __future__ import annotations

from collections import deque
from typing import Any

from std_msgs.msg import Header

from edgetpu_driver.ros.parameters import Setting
from edgetpu_driver.ros.spin import run
from edgetpu_msgs.msg import ServoError
from edgetpu_perception import drawing
from edgetpu_perception.debug_images import spot_picture
from edgetpu_perception.graphs.spot import COLORS
from edgetpu_perception.images import Pixels
from edgetpu_perception.nodes.eye_node import QOS_RESULTS, EyeNode
from edgetpu_perception.spot_tracker import SpotResult, SpotTracker

TRAIL_LENGTH = 30
"""Positions that the debug image joins to a trail."""

SETTINGS = (
    Setting(
        "color",
        "",
        f"Colour of the spot: {', '.join(COLORS)}. Empty (default): the brightest spot of any colour.",
        choices=("", *COLORS),
    ),
)


class SpotTrackerNode(EyeNode):
    """Publishes where the brightest spot of the image is, or the strongest one of a colour."""

    def __init__(self, **options: Any) -> None:
        self._trail: deque[tuple[float, float]] = deque(maxlen=TRAIL_LENGTH)
        super().__init__("spot_tracker", SETTINGS, **options)

    def make_eye(self) -> SpotTracker:
        """Make the tracker for the parameter `color`."""
        self._servo_error = self.create_publisher(ServoError, "~/servo_error", QOS_RESULTS)
        return SpotTracker(color=self.values["color"] or None)

    def publish(self, header: Header, result: SpotResult) -> None:
        """Publish the result on ~/servo_error."""
        self._servo_error.publish(
            ServoError(
                header=header,
                valid=result.valid,
                confidence=result.confidence,
                x=result.x,
                y=result.y,
                x_sigma=result.x_sigma,
                y_sigma=result.y_sigma,
                bearing_x=result.bearing_x,
                bearing_y=result.bearing_y,
                bearing_x_sigma=result.bearing_x_sigma,
                bearing_y_sigma=result.bearing_y_sigma,
            )
        )

    def draw(self, image: Pixels, result: SpotResult) -> Pixels:
        """Draw the position with its trail, and the numbers."""
        if result.valid:
            self._trail.append(drawing.to_pixels(image, result.x, result.y))
        else:
            self._trail.clear()
        return spot_picture(image, result, self._trail)


def main() -> int:
    """Run the spot tracker as a process of its own."""
    return run(lambda: [SpotTrackerNode()])
