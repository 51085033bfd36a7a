"""A fake of the driver or a perception node for tests of the demo: it answers at once, without a model."""

from __future__ import annotations

import contextlib
import os
import sys

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import Image

from edgetpu_msgs.msg import DeviceStatus, ServoError

BEHAVIOUR = os.environ.get("FAKE_NODE", "")


class Driver(Node):
    """Is ready, or in the state the behaviour names."""

    def __init__(self) -> None:
        super().__init__("edgetpu")
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._status = self.create_publisher(DeviceStatus, "~/status", latched)
        absent = BEHAVIOUR == "absent"
        state = DeviceStatus.ABSENT if absent else DeviceStatus.READY
        self._status.publish(DeviceStatus(state=state, message="no Edge TPU found" if absent else ""))


class Tracker(Node):
    """Answers image number n with x = n / 100 and y = mean grey level / 255."""

    def __init__(self) -> None:
        super().__init__("spot_tracker")
        self._count = self._malformed = 0
        self._results = self.create_publisher(ServoError, "~/servo_error", 10)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_subscription(Image, "image", self._on_image, 10)  # reliable, as the demo asks of nodes
        self.create_timer(0.1, self._diagnose)

    def _on_image(self, image: Image) -> None:
        self._count += 1
        if BEHAVIOUR == "dies" and self._count == 3:
            raise RuntimeError("no more images please")
        if len(image.data) != image.step * image.height:
            self._malformed += 1
            return
        if BEHAVIOUR == "mute" or (BEHAVIOUR == "deaf" and self._count == 2):
            print("left out", flush=True)
            return
        x, y = self._count / 100, sum(image.data) / len(image.data) / 255
        self._results.publish(ServoError(header=image.header, valid=True, confidence=0.5, x=x, y=y))

    def _diagnose(self) -> None:
        values = [KeyValue(key="malformed", value=str(self._malformed))]
        message = "the last image was cut off" if self._malformed else "ok"
        status = DiagnosticStatus(name="spot_tracker: images", message=message, values=values)
        if BEHAVIOUR == "refused":
            status.level, status.message = DiagnosticStatus.ERROR, "no such model"
        self._diagnostics.publish(DiagnosticArray(status=[status]))


def main() -> None:
    if BEHAVIOUR == "breaks":
        sys.exit("this is why it cannot start")
    rclpy.init()
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin({"edgetpu_node": Driver, "spot_tracker": Tracker}[os.path.basename(sys.argv[0])]())


if __name__ == "__main__":
    main()
