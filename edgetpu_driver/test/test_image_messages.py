from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sensor_msgs", reason="needs ROS 2")

from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from edgetpu_driver.images.encodings import ImageError, decode
from edgetpu_driver.node_kit.images import image_messages
from edgetpu_driver.node_kit.images.image_messages import (
    image_from_compressed_message,
    image_from_message,
    message_from_rgb,
)

BGR = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


def message(encoding: str = "bgr8", step: int = 12, data: bytes = BGR.tobytes(), bigendian: int = 0) -> Image:
    return Image(height=2, width=4, encoding=encoding, step=step, is_bigendian=bigendian, data=data)


class FakeBridge:
    """Stands for cv_bridge: notes what it is asked for and paints it grey."""

    def __init__(self) -> None:
        self.wanted: list[str] = []

    def imgmsg_to_cv2(self, _message: Image, encoding: str) -> NDArray[np.uint8]:
        self.wanted.append(encoding)
        return np.full((2, 4, 3), 127, np.uint8)


@pytest.fixture(autouse=True)
def without_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_messages, "_bridge", None)


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch, without_bridge: None) -> FakeBridge:  # noqa: ARG001
    bridge = FakeBridge()
    monkeypatch.setattr(image_messages, "_bridge", bridge)
    return bridge


def test_an_image_message_becomes_rgb() -> None:
    assert np.array_equal(image_from_message(message()), BGR[..., ::-1])


def test_a_malformed_message_is_refused() -> None:
    with pytest.raises(ImageError, match="2 rows of 12 = 24 bytes; got 23"):
        image_from_message(message(data=BGR.tobytes()[:-1]))


def test_a_compressed_message_that_holds_no_image_is_refused() -> None:
    with pytest.raises(ImageError, match="got 10 bytes of 'jpeg'"):
        image_from_compressed_message(CompressedImage(format="jpeg", data=b"0123456789"))


def test_an_rgb_image_becomes_a_message_and_is_read_back() -> None:
    header = Header(frame_id="camera")
    made = message_from_rgb(header, BGR)
    assert (made.header, made.encoding, made.step) == (header, "rgb8", 12)
    assert np.array_equal(image_from_message(made), BGR)


def test_cv_bridge_is_used_where_it_is_installed(bridge: FakeBridge) -> None:
    assert np.all(image_from_message(message()) == 127)
    image_from_message(message("mono16", 8, bytes(16)))
    assert bridge.wanted == ["rgb8", "mono8"]


@pytest.mark.parametrize(
    "image",
    [
        message(step=14, data=bytes(28)),
        message("mono16", 8, bytes(range(16)), bigendian=1),
        message("8UC3"),
        message("uyvy", 8, bytes(16)),
    ],
    ids=["padding", "byte order", "no color format", "new names"],
)
def test_cv_bridge_is_not_asked_for_what_it_reads_wrong(image: Image, bridge: FakeBridge) -> None:
    expected = decode(image.encoding, 2, 4, image.step, image.data, bool(image.is_bigendian))
    assert np.array_equal(image_from_message(image), expected)
    assert bridge.wanted == []


def test_cv_bridge_never_sees_a_malformed_image(bridge: FakeBridge) -> None:
    with pytest.raises(ImageError, match="expected one of mono8"):
        image_from_message(message("mono9"))
    assert bridge.wanted == []
