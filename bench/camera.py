"""A camera in a separate process: `python -m bench.camera` publishes a moving scene on request.

For each line "namespace rate seconds" of its standard input, it publishes images in the namespace at this
rate, Hz, for this time, stamped when they are published, and answers with the number of images.
"""

from __future__ import annotations

import array
import math
import signal
import sys
import time
from typing import NamedTuple

import cv2
import numpy as np
import rclpy
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from edgetpu_dashboard.camera.calibration import pinhole_calibration
from edgetpu_dashboard.nodes.camera_info_messages import camera_info

WIDTH, HEIGHT = 640, 480
FOCAL_LENGTH = 520.0
FRAMES = 120
"""Number of images after which the scene repeats."""


class Part(NamedTuple):
    """A square part of an image, px."""

    x: int
    y: int
    side: int

    def of(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A copy of this part of an image."""
        return np.ascontiguousarray(image[self.y : self.y + self.side, self.x : self.x + self.side])


TEMPLATE = Part(100, 100, 160)
"""The pattern for the pattern tracker, in the first image of the scene."""

_AMPLITUDE = 40
_SPOT_CENTRE, _SPOT_RADIUS = (330, 250), 20
_TEXTURE_MEAN, _TEXTURE_DEVIATION, _TEXTURE_MOST = 100, 30, 180  # grey levels


def scene() -> list[NDArray[np.uint8]]:
    """Images, uint8 [480, 640], of a texture that moves in a circle behind a bright spot.

    All five nodes find something in them.
    """
    rng = np.random.default_rng(0)
    size = HEIGHT + 2 * _AMPLITUDE, WIDTH + 2 * _AMPLITUDE
    noise = sum(
        cv2.GaussianBlur(rng.normal(size=size), (0, 0), sigma) * sigma for sigma in (2.0, 4.0, 8.0, 16.0)
    )
    texture = _TEXTURE_MEAN + _TEXTURE_DEVIATION * noise / np.std(noise)
    texture = np.clip(texture, 0, _TEXTURE_MOST).astype(np.uint8)
    frames = []
    for angle in np.linspace(0, 2 * math.pi, FRAMES, endpoint=False):
        x = _AMPLITUDE + round(_AMPLITUDE * math.sin(angle))
        y = _AMPLITUDE + round(_AMPLITUDE * math.cos(angle))
        frame = np.ascontiguousarray(texture[y : y + HEIGHT, x : x + WIDTH])
        cv2.circle(frame, _SPOT_CENTRE, _SPOT_RADIUS, 255, -1, cv2.LINE_AA)
        frames.append(frame)
    return frames


def image_message(frame: NDArray[np.uint8]) -> Image:
    """A mono8 image without a stamp."""
    data = array.array("B", frame.tobytes())
    height, width = frame.shape
    return Image(height=height, width=width, encoding="mono8", step=width, data=data)


class Camera(Node):
    """Publishes the scene with its CameraInfo in the requested namespaces."""

    def __init__(self) -> None:
        super().__init__("bench_camera")
        self._messages = [image_message(frame) for frame in scene()]
        self._info = camera_info(Header(), pinhole_calibration(WIDTH, HEIGHT, FOCAL_LENGTH))
        self._publishers_in: dict[str, tuple[Publisher, Publisher]] = {}

    def show(self, namespace: str, rate: float, seconds: float) -> int:
        """Publish at `rate` Hz for `seconds` s; return the number of images."""
        if namespace not in self._publishers_in:
            self._publishers_in[namespace] = (
                self.create_publisher(Image, f"{namespace}/image", qos_profile_sensor_data),
                self.create_publisher(CameraInfo, f"{namespace}/camera_info", qos_profile_sensor_data),
            )
        count = round(rate * seconds)
        start = time.monotonic()
        for index in range(count):
            time.sleep(max(start + index / rate - time.monotonic(), 0.0))
            self._publish(namespace, index)
        return count

    def _publish(self, namespace: str, index: int) -> None:
        images, infos = self._publishers_in[namespace]
        message = self._messages[index % FRAMES]
        now = time.time_ns()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now, 10**9)
        self._info.header.stamp = message.header.stamp
        images.publish(message)
        infos.publish(self._info)


def main() -> int:
    """Publish as standard input requests, until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its standard input
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    camera = Camera()
    print("ready", flush=True)
    for line in sys.stdin:
        namespace, rate, seconds = line.split()
        print(camera.show(namespace, float(rate), float(seconds)), flush=True)
    camera.destroy_node()
    rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
