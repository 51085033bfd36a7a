"""Time to contact as a node: image in, ~/time_to_contact out."""

from __future__ import annotations

from typing import Any

from std_msgs.msg import Header

from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.spin import run
from edgetpu_msgs.msg import TimeToContact
from edgetpu_perception.debug_images.result_pictures import looming_picture
from edgetpu_perception.images.encodings import Pixels
from edgetpu_perception.nodes.perception_node import QOS_RESULTS, PerceptionNode
from edgetpu_perception.nodes.perception_parameters import min_confidence
from edgetpu_perception.time_to_contact.looming import Looming, LoomingResult

SIZES = (64, 128)


def _no_size(value: int) -> str | None:
    return None if value in SIZES else f"expected 64 or 128; got {value}"


SETTINGS = (
    Setting(
        "size",
        64,
        "Width and height of the model's input, px: 64 (default), or 128, which sees smaller things and has "
        "less noise.",
        SIZES[0],
        SIZES[-1],
        check=_no_size,
    ),
    min_confidence(0.1),
)


class LoomingNode(PerceptionNode):
    """Publishes when the camera would touch what it looks at."""

    def __init__(self, **options: Any) -> None:
        super().__init__("looming", SETTINGS, **options)

    def make_algorithm(self) -> Looming:
        """Make the algorithm for the parameter `size`."""
        self._time_to_contact = self.create_publisher(TimeToContact, "~/time_to_contact", QOS_RESULTS)
        return Looming(size=self.values["size"])

    def publish(self, header: Header, result: LoomingResult) -> None:
        """Publish the result on ~/time_to_contact."""
        self._time_to_contact.publish(
            TimeToContact(
                header=header,
                valid=result.valid,
                confidence=result.confidence,
                ttc=result.ttc,
                ttc_sigma=result.ttc_sigma,
                expansion_rate=result.expansion_rate,
                expansion_rate_sigma=result.expansion_rate_sigma,
                tau=result.tau,
                zones=result.zones,
            )
        )

    def draw(self, image: Pixels, result: LoomingResult) -> Pixels:
        """Draw the nine zones, and the time to contact."""
        return looming_picture(image, result)


def main() -> int:
    """Run the node as a process of its own."""
    return run(lambda: [LoomingNode()])
