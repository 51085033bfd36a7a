"""The nodes' debug images of a replay, kept as pictures for the report."""

from __future__ import annotations

from typing import Any

from demo.bag.frames import Frame, data_url
from edgetpu_driver.images.encodings import ImageError, decode
from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of


class DebugFrames:
    """Debug images of selected images, by node."""

    def __init__(self, numbers: list[int]) -> None:
        """numbers: of the images whose debug images are kept, counted from 0."""
        self._wanted = set(numbers)
        self._numbers: dict[int, int] = {}
        """Numbers of the images by stamp, ns."""
        self._frames: dict[str, dict[int, Frame]] = {}

    def shown(self, number: int, stamp_ns: int) -> bool:
        """Record that an image is shown to the nodes; return whether its debug images are wanted."""
        if number in self._wanted:
            self._numbers[stamp_ns] = number
        return number in self._wanted

    def received(self, node: str, message: Any) -> None:
        """Store a sensor_msgs/Image of a node."""
        stamp_ns = nanoseconds_of(message.header.stamp)
        number = self._numbers.get(stamp_ns)
        if number is None:
            return
        try:
            pixels = decode(message.encoding, message.height, message.width, message.step, message.data)
        except ImageError:
            return
        frame = Frame(number, stamp_ns, message.width, message.height, data_url(pixels))
        self._frames.setdefault(node, {})[number] = frame

    def has(self, node: str, number: int) -> bool:
        """Whether the node's debug image of the image `number` has arrived."""
        return number in self._frames.get(node, {})

    def of(self, node: str) -> list[Frame]:
        """Return the debug images of a node in the order of the images; empty if it published none."""
        frames = self._frames.get(node, {})
        return [frames[number] for number in sorted(frames)]
