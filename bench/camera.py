"""A camera in a process of its own: `python -m bench.camera` publishes a moving scene when it is told to.

It reads lines "rate seconds" from its standard input, publishes so many images a second for so long, stamped
when they are published, and answers each line with the number of images it has published for it.
"""

from __future__ import annotations

import array
import math
import sys
import time

import cv2
import numpy as np
import rclpy
from numpy.typing import NDArray
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, Image

WIDTH, HEIGHT = 640, 480
FOCAL_LENGTH = 520.0
FRAMES = 120
"""Images of one turn of the scene, after which it begins again."""

TOPIC = "/bench/image"
_INFO_TOPIC = "/bench/camera_info"
_AMPLITUDE = 40
_SPOT = (330, 250), 9


def scene() -> list[NDArray[np.uint8]]:
    """A texture that goes round in a circle, with a bright spot in front of it: uint8 [480, 640] each."""
    rng = np.random.default_rng(0)
    size = HEIGHT + 2 * _AMPLITUDE, WIDTH + 2 * _AMPLITUDE
    noise = sum(
        cv2.GaussianBlur(rng.normal(size=size), (0, 0), sigma) * sigma for sigma in (2.0, 4.0, 8.0, 16.0)
    )
    texture = np.clip(110 + 30 * noise / np.std(noise), 0, 220).astype(np.uint8)
    frames = []
    for angle in np.linspace(0, 2 * math.pi, FRAMES, endpoint=False):
        x = _AMPLITUDE + round(_AMPLITUDE * math.sin(angle))
        y = _AMPLITUDE + round(_AMPLITUDE * math.cos(angle))
        frame = np.ascontiguousarray(texture[y : y + HEIGHT, x : x + WIDTH])
        cv2.circle(frame, _SPOT[0], _SPOT[1], 255, -1, cv2.LINE_AA)
        frames.append(frame)
    return frames


def image_message(frame: NDArray[np.uint8]) -> Image:
    """A mono8 image without a stamp."""
    data = array.array("B", frame.tobytes())
    height, width = frame.shape
    return Image(height=height, width=width, encoding="mono8", step=width, data=data)


def camera_info() -> CameraInfo:
    """A pinhole camera without a stamp."""
    f, x, y = FOCAL_LENGTH, (WIDTH - 1) / 2, (HEIGHT - 1) / 2
    message = CameraInfo(width=WIDTH, height=HEIGHT, distortion_model="plumb_bob", d=[0.0] * 5)
    message.k = [f, 0.0, x, 0.0, f, y, 0.0, 0.0, 1.0]
    message.p = [f, 0.0, x, 0.0, 0.0, f, y, 0.0, 0.0, 0.0, 1.0, 0.0]
    return message


def main() -> int:
    """Publish as told by standard input, until that ends."""
    rclpy.init()
    node = rclpy.create_node("bench_camera")
    images = node.create_publisher(Image, TOPIC, qos_profile_sensor_data)
    infos = node.create_publisher(CameraInfo, _INFO_TOPIC, qos_profile_sensor_data)
    messages = [image_message(frame) for frame in scene()]
    info = camera_info()

    def publish(index: int) -> None:
        message = messages[index % FRAMES]
        now = time.time_ns()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now, 10**9)
        info.header.stamp = message.header.stamp
        images.publish(message)
        infos.publish(info)

    print("ready", flush=True)
    for line in sys.stdin:
        rate, seconds = map(float, line.split())
        count = round(rate * seconds)
        start = time.monotonic()
        for index in range(count):
            time.sleep(max(start + index / rate - time.monotonic(), 0.0))
            publish(index)
        print(count, flush=True)
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
