"""The base class of nodes that turn results into velocities at a fixed rate."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from geometry_msgs.msg import Twist, TwistStamped
from rclpy.qos import qos_profile_sensor_data

from edgetpu_control.nodes.control_parameters import control_settings, velocity_limits
from edgetpu_control.nodes.message_age import is_timely, stamp_of
from edgetpu_control.nodes.velocity_publisher import QOS_COMMANDS, VelocityPublisher
from edgetpu_control.velocity import FASTEST, STANDSTILL, Velocity
from edgetpu_control.velocity_limits import VelocityLimits
from edgetpu_driver.errors import DependencyMissingError
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.executor.steady_timers import create_graph_timer
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.messages.detection_messages import detection_array_type
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.silent_topic import SilentTopics


class ControlNode(BaseNode):
    """Publishes a velocity at a fixed rate, except while `command` returns None.

    A subclass calls `super().__init__(name)`, makes its controller and its subscriptions, and then calls
    `start`.
    """

    settings: ClassVar[tuple[Setting, ...]] = control_settings()

    subject: ClassVar[str] = "measurements"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._velocities: VelocityPublisher | None = None
        self._result_topics = SilentTopics(self, "results")

    @abstractmethod
    def command(self, now: float) -> Velocity | None:
        """Return the velocity from `now` s on; None to publish nothing."""

    def start(self, topic: str) -> None:
        """Publish velocities on this topic, and diagnostics, from now on."""
        self._velocities = VelocityPublisher(self, topic)
        create_graph_timer(self, 1 / self.values["rate"], self._publish)
        self.start_diagnostics()

    def subscribe_result(
        self, message_type: type[Any], topic: str, measured: Callable[[Any, float], None]
    ) -> None:
        """Call `measured` with each timely message and its stamp in s, at most the present time.

        If no message arrives for long, this is logged.
        """
        arrivals = self._result_topics.watch(self.resolve_topic_name(topic))

        def on_message(message: Any) -> None:
            self.counters.received += 1
            arrivals.received += 1
            stamp = stamp_of(message)
            now = self.now
            if is_timely(self, topic, now - stamp):
                measured(message, min(stamp, now))

        # The newest counts, and best effort is compatible with every publisher.
        self.create_subscription(message_type, topic, on_message, qos_profile_sensor_data)

    def subscribe_velocity(self, topic: str, asked: Callable[[Velocity, float], None]) -> None:
        """Call `asked` with each plausible velocity received and the time in s from which its age counts.

        That is its stamp, which must be timely, or the present time if it has none.
        For a robot that can also drive sideways, only the forward velocity and the turn are passed on, as no
        camera of these nodes looks sideways.
        """
        stamped: bool = self.values["stamped"]

        def on_message(message: Any) -> None:
            now = self.now
            stamp = stamp_of(message) or now
            if not is_timely(self, topic, now - stamp):
                return
            twist = message.twist if stamped else message
            velocity = Velocity(twist.linear.x, twist.angular.z)
            if not velocity.is_plausible:
                self.skip(topic, f"a velocity of at most {FASTEST:g}; got {velocity}")
                return
            if twist.linear.y:
                self.report_once(
                    (topic, "sideways"),
                    f"velocities on {self.resolve_topic_name(topic)} are passed on without linear.y: "
                    "this node drives forward, backward and turns only",
                )
            asked(velocity, min(stamp, now))

        self.create_subscription(TwistStamped if stamped else Twist, topic, on_message, QOS_COMMANDS)

    def skip(self, topic: str, expected: str) -> None:
        """Count a message that cannot be used, and say once what was expected and what came."""
        self.skip_malformed(topic, f"expected {expected}", f"message on {self.resolve_topic_name(topic)}")

    def subscribe_detections(self, topic: str, callback: Callable[[Any, float], None]) -> None:
        """As `subscribe_result`, for Detection2DArray; FatalError if vision_msgs is not installed."""
        try:
            kind = detection_array_type()
        except DependencyMissingError as error:
            raise self.fatal(error) from None
        self.subscribe_result(kind, topic, callback)

    def limits(self) -> VelocityLimits:
        """Return the limits that the parameters give."""
        return velocity_limits(self.values)

    def fatal(self, error: Exception) -> FatalError:
        """Return the error that ends a node whose controller refuses the parameters."""
        return FatalError(f"parameters of {self.full_name}: {error}")

    def on_stop(self) -> None:
        """Stop the robot, which may keep its last velocity until it gets another."""
        if self._velocities is not None:
            self._velocities.stop()

    def destroy_node(self) -> None:
        """Stop the robot and leave the graph."""
        if self._velocities is not None:
            self._velocities.stop_finally()
        super().destroy_node()

    def _publish(self) -> None:
        try:
            velocity = self.command(self.now)
        except Exception:
            self._send(STANDSTILL)
            raise
        if velocity is not None:
            self._send(velocity)
            self.counters.results += 1

    def _send(self, velocity: Velocity) -> None:
        if self._velocities is not None:  # as it is from `start` on
            self._velocities.send(velocity)


def is_valid(message: Any, *numbers: float) -> bool:
    """Whether a result is valid and all of these numbers of it are finite."""
    return bool(message.valid) and all(math.isfinite(number) for number in numbers)
