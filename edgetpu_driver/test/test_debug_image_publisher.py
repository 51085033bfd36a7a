"""Debug images: only for those who look, and at a limited rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from edgetpu_driver.node_kit.images.debug_image_publisher import DebugImages


class Publisher:
    """Stands for a publisher with so many subscriptions."""

    def __init__(self, subscriptions: int) -> None:
        self.subscriptions = subscriptions
        self.messages: list[Any] = []

    def get_subscription_count(self) -> int:
        return self.subscriptions

    def publish(self, message: Any) -> None:
        self.messages.append(message)


class FakeNode:
    def __init__(self, subscriptions: int = 1) -> None:
        self.publisher = Publisher(subscriptions)

    def create_publisher(self, *_arguments: Any) -> Publisher:
        return self.publisher


def drawn(node: FakeNode, images: float, rate: float, seconds: float = 2.0) -> int:
    """The number of pictures wanted of a camera with so many images a second."""
    now = [100.0]
    debug: Any = DebugImages(node, lambda: now[0])  # type: ignore[arg-type]
    count = 0
    for number in range(round(images * seconds)):
        now[0] = 100.0 + number / images
        count += debug.wanted(rate)
    return count


@pytest.mark.parametrize(
    ("images", "rate", "count"), [(60.0, 10.0, 20), (30.0, 10.0, 20), (25.0, 10.0, 20), (5.0, 10.0, 10)]
)
def test_the_rate_is_kept_on_the_whole(images: float, rate: float, count: int) -> None:
    assert drawn(FakeNode(), images, rate) == pytest.approx(count, abs=1)


def test_another_rate_counts_at_once() -> None:
    now = [100.0]
    debug: Any = DebugImages(FakeNode(), lambda: now[0])  # type: ignore[arg-type]
    while debug.wanted(0.001):
        pass
    now[0] += 1.0
    assert not debug.wanted(0.001)
    assert debug.wanted(10.0)


def test_without_a_limit_every_result_is_drawn() -> None:
    assert drawn(FakeNode(), 60.0, 0.0) == 120


def test_nothing_is_drawn_without_people() -> None:
    assert drawn(FakeNode(subscriptions=0), 60.0, 10.0) == 0


def test_the_picture_is_published_as_rgb8() -> None:
    from std_msgs.msg import Header

    node = FakeNode()
    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    DebugImages(node).publish(Header(frame_id="camera"), picture[:, ::-1])  # type: ignore[arg-type]
    (message,) = node.publisher.messages
    assert (message.encoding, message.width, message.height, message.step) == ("rgb8", 3, 2, 9)
    assert message.header.frame_id == "camera"
    assert bytes(message.data) == picture[:, ::-1].tobytes()
