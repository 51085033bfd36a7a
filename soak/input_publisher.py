"""Both cameras and the signal of a run: `python -m soak.input_publisher FRAMES START_NS PERIOD_NS`.

Images are stamped START_NS, START_NS + PERIOD_NS, ... Without --simulated, each image is published at the
time of its stamp. With it, /clock jumps to the stamp of the next image as soon as all nodes have answered.
"""

from __future__ import annotations

import argparse
import contextlib
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image, JointState
from std_msgs.msg import Header

from edgetpu_dashboard.camera.calibration import ideal_calibration
from edgetpu_dashboard.nodes.camera_info_messages import camera_info
from edgetpu_dashboard.scene.scene import Scene
from soak.camera_messages import image_message
from soak.checks.matrix_checks import embedding, place_vectors, signal
from soak.checks.perception_checks import CAMERAS, DRIVING, LOOKING
from soak.result_messages import result_topics
from soak.scenes import FRAMES, Driving, LookingAround, Stamps

_PATIENCE = 0.5
"""Longest real time for which simulated time waits for the nodes to answer an image, s."""
_MOST_MISSED = 3
"""Number of unanswered images in a row after which a node is not waited for until it answers again."""
_PAUSE = 0.1
"""Least time between two images while a node does not answer, s: it should not miss too many."""
_STAMP = struct.Struct("<4xiI")
"""Stamp of the header at the start of a serialised message: encoding (skipped), seconds, nanoseconds."""

SCENES: dict[str, Scene] = {LOOKING: LookingAround(), DRIVING: Driving()}


@dataclass(frozen=True)
class _Camera:
    images: Any
    infos: Any
    messages: list[Image]
    info: CameraInfo

    def publish(self, index: int, stamp: Time) -> None:
        message = self.messages[index % FRAMES]
        message.header.stamp = self.info.header.stamp = stamp
        self.infos.publish(self.info)
        self.images.publish(message)


class Sources(Node):
    """Publishes the images and the signal."""

    def __init__(self, frames: Path, stamps: Stamps) -> None:
        super().__init__("soak_sources")
        self.stamps = stamps
        self._cameras = [self._camera(name, np.load(frames / f"{name}.npy")) for name in SCENES]
        deep = QoSProfile(depth=200)
        self._signal = self.create_publisher(JointState, "/signal", deep)
        self._embedding = self.create_publisher(JointState, "/embedding", deep)
        self._vectors = place_vectors()

    def _camera(self, name: str, frames: NDArray[np.uint8]) -> _Camera:
        qos, scene = QoSProfile(depth=5), SCENES[name]
        calibration = ideal_calibration(scene.width, scene.height, scene.field_of_view)
        return _Camera(
            self.create_publisher(Image, f"/{name}/image", qos),
            self.create_publisher(CameraInfo, f"/{name}/camera_info", qos),
            [image_message(frame, name) for frame in frames],
            camera_info(Header(frame_id=name), calibration),
        )

    def publish(self, index: int) -> None:
        """Publish the images, the sample and the embedding of one stamp."""
        stamp = self.time(index)
        for camera in self._cameras:
            camera.publish(index, stamp)
        for publisher, values in (
            (self._signal, [signal(index)]),
            (self._embedding, embedding(index, self._vectors).tolist()),
        ):
            message = JointState(position=values)
            message.header.stamp = stamp
            publisher.publish(message)

    def time(self, index: int) -> Time:
        """The stamp of an image as a message."""
        seconds, nanoseconds = divmod(self.stamps.stamp_ns(index), 10**9)
        return Time(sec=seconds, nanosec=nanoseconds)


class SimulatedSources(Sources):
    """Also publishes /clock, and keeps track of the answers to each image."""

    def __init__(self, frames: Path, stamps: Stamps) -> None:
        super().__init__(frames, stamps)
        self._clock_topic = self.create_publisher(Clock, "/clock", QoSProfile(depth=1))
        self._answered = dict.fromkeys(CAMERAS, -1)
        self._missed = dict.fromkeys(CAMERAS, 0)
        for name, (kind, topic) in result_topics(CAMERAS).items():
            self.create_subscription(kind, topic, self._receiver(name), QoSProfile(depth=50), raw=True)

    def _receiver(self, name: str) -> Any:
        def receive(message: bytes) -> None:
            seconds, nanoseconds = _STAMP.unpack_from(message)
            index = self.stamps.index(seconds * 10**9 + nanoseconds)
            if index is not None:
                self._answered[name] = max(self._answered[name], index)
                self._missed[name] = 0

        return receive

    def publish(self, index: int) -> None:
        """Set the clock to the stamp, and publish."""
        self._clock_topic.publish(Clock(clock=self.time(index)))
        super().publish(index)

    def may_go_on(self, index: int, waited: float) -> bool:
        """Whether the next image is due after waiting for `waited` s: all responsive nodes have answered."""
        absent = any(missed >= _MOST_MISSED for missed in self._missed.values())
        if absent and waited < _PAUSE:
            return False
        return waited >= _PATIENCE or not self._missing(index)

    def give_up(self, index: int) -> None:
        """Count a missed image for each node that has not answered this one."""
        for name in self._missing(index):
            self._missed[name] += 1

    def _missing(self, index: int) -> list[str]:
        return [
            name
            for name, done in self._answered.items()
            if done < index and (done < 0 or self._missed[name] < _MOST_MISSED)
        ]


def _real_time(node: Sources) -> None:
    period, start = node.stamps.period, node.stamps.start_ns * 1e-9
    index = int((time.time() - start) // period)
    while rclpy.ok():
        index += 1  # even if late: a gap in the signal would be the fault of this process
        time.sleep(max(0.0, start + index * period - time.time()))
        node.publish(index)


def _simulated_time(node: SimulatedSources, first: int, count: int, progress: Path) -> None:
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    for index in range(first, count):
        node.publish(index)
        if index % 100 == 0:
            progress.write_text(str(index))  # a restarted process continues from here
        begin = time.monotonic()
        while not node.may_go_on(index, time.monotonic() - begin):
            executor.spin_once(_PAUSE)
        node.give_up(index)
    progress.write_text(str(count))
    executor.spin()  # until the run is stopped


def main() -> int:
    """Publish until a signal, or until simulated time ends."""
    parser = argparse.ArgumentParser(prog="python -m soak.input_publisher")
    parser.add_argument("frames", type=Path, help="directory of the rendered frames")
    parser.add_argument("start_ns", type=int)
    parser.add_argument("period_ns", type=int)
    parser.add_argument("--simulated", type=int, default=0, help="number of images in simulated time")
    parser.add_argument("--progress", type=Path, help="file with the number of images so far")
    options = parser.parse_args()
    stamps = Stamps(options.start_ns, options.period_ns)
    rclpy.init()
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        if options.simulated:
            done = int(options.progress.read_text()) + 100 if options.progress.is_file() else 0
            node = SimulatedSources(options.frames, stamps)
            _simulated_time(node, done, options.simulated, options.progress)
        else:
            _real_time(Sources(options.frames, stamps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
