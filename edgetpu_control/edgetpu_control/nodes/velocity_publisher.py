"""Velocities as messages: geometry_msgs/Twist or TwistStamped."""

from __future__ import annotations

import time
from contextlib import suppress

from geometry_msgs.msg import Twist, TwistStamped
from rclpy.duration import Duration
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.qos import QoSProfile
from std_msgs.msg import Header

from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_driver.node_kit.base_node import BaseNode

QOS_COMMANDS = QoSProfile(depth=1)
"""Reliable, because a robot's base may ask for that; only the newest velocity counts."""

_ACKNOWLEDGED_WITHIN = 0.3
"""Longest wait until reliable subscriptions have the last velocity, s. Chosen: it can be sent again
meanwhile, and three nodes of a process still end within spin.STOP_DEADLINE."""

_FAREWELL = 0.05
"""Seconds for which a publisher remains after its last velocity, for subscriptions that acknowledge nothing.
Chosen: without it 8 of 24 lost that velocity, with a tenth of it none of 20."""


class VelocityPublisher:
    """Publishes velocities as the node's parameters `stamped` and `frame_id` say."""

    def __init__(self, node: BaseNode, topic: str) -> None:
        self._node = node
        self._stamped: bool = node.values["stamped"]
        self._publisher = node.create_publisher(TwistStamped if self._stamped else Twist, topic, QOS_COMMANDS)
        self._last = STANDSTILL
        """The last velocity from `send`."""

    def send(self, velocity: Velocity) -> None:
        """Publish a velocity."""
        self._publish(velocity)
        self._last = velocity

    def stop(self) -> None:
        """Publish a standstill, unless the last velocity from `send` was one."""
        if self._last != STANDSTILL:
            self._publish(STANDSTILL)

    def stop_finally(self) -> None:
        """As `stop`, and wait until the standstill has arrived: call this before the publisher is destroyed.

        What is still on its way then is lost.
        """
        if self._last == STANDSTILL:
            return
        self.stop()
        with suppress(_rclpy.RCLError):  # some middlewares cannot tell
            if not self._publisher.wait_for_all_acked(Duration(seconds=_ACKNOWLEDGED_WITHIN)):
                self._node.get_logger().warning(
                    f"the standstill at the end was not acknowledged within {_ACKNOWLEDGED_WITHIN:g} s"
                )
        time.sleep(_FAREWELL)

    def _publish(self, velocity: Velocity) -> None:
        twist = Twist()
        # rosidl refuses other types than float.
        twist.linear.x, twist.angular.z = float(velocity.linear), float(velocity.angular)
        self._publisher.publish(self._with_header(twist) if self._stamped else twist)

    def _with_header(self, twist: Twist) -> TwistStamped:
        stamp = self._node.get_clock().now().to_msg()
        return TwistStamped(header=Header(stamp=stamp, frame_id=self._node.values["frame_id"]), twist=twist)
