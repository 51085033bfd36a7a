"""The heading hold as a node: turns by an angle or to a heading, or keeps the robot straight."""

from __future__ import annotations

import math
from typing import Any

from rclpy.qos import QoSProfile
from std_msgs.msg import Float64
from std_srvs.srv import Trigger

from edgetpu_control.heading_hold import LARGEST_TURN, HeadingHold, HoldGains
from edgetpu_control.nodes.control_node import ControlNode, is_valid
from edgetpu_control.nodes.control_parameters import control_settings, limit_settings, live
from edgetpu_control.velocity import Velocity
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_msgs.msg import Heading

_GAINS = HoldGains()

NO_HEADING = "no valid heading is known"

TURNS_AGAINST = (
    "the heading is released, as the robot turned against the velocities it got: is the camera upside down, "
    "or does angular.z > 0 turn the robot to the right? Call ~/hold, or turn, to try again"
)


class HeadingHoldNode(ControlNode):
    """Turns the robot by the visual compass, and keeps its heading while it is to drive straight on."""

    settings = control_settings(
        *limit_settings(),
        live("turn_gain", _GAINS.turn, "Angular velocity by error of the heading, rad/s per rad.", 0.0, 50.0),
        live(
            "turn_deadband",
            _GAINS.deadband,
            "Error of the heading up to which the robot does not turn, rad.",
            0.0,
            1.0,
        ),
        live(
            "steering_deadband",
            _GAINS.steering_deadband,
            "Angular velocity on cmd_vel_in up to which it counts as straight on, rad/s.",
            0.0,
            10.0,
        ),
        Setting(
            "hold_when_straight",
            _GAINS.hold_when_straight,
            "Whether the heading is kept while cmd_vel_in commands driving straight on.",
            read_only=False,
        ),
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("heading_hold", **options)
        with self.destroyed_on_error():
            self._set_up()

    def _set_up(self) -> None:
        self._hold = HeadingHold(self._gains(), self.limits(), self.values["timeout"])
        self.subscribe_velocity("cmd_vel_in", self._hold.ask)
        self.subscribe_result(Heading, "visual_compass/heading", self._on_heading)
        once = QoSProfile(depth=10)
        self.create_subscription(Float64, "~/turn_by", lambda message: self._turn(message, by=True), once)
        self.create_subscription(Float64, "~/turn_to", lambda message: self._turn(message, by=False), once)
        self._error = self.create_publisher(Float64, "~/error", QOS_RESULTS)
        self.create_service(Trigger, "~/hold", self._on_hold)
        self.create_service(Trigger, "~/release", self._on_release)
        self.start("~/cmd_vel")

    def command(self, now: float) -> Velocity | None:
        """Return the velocity that keeps or reaches the heading; publish the remaining angle."""
        velocity = self._hold.command(now)
        if self._hold.turns_against:
            self.report_once("against", TURNS_AGAINST, error=True)
        error = self._hold.error(now)
        if not math.isnan(error):
            self._error.publish(Float64(data=float(error)))
        return velocity

    def problems(self) -> list[str]:
        """Return what keeps this node from holding a heading."""
        return [TURNS_AGAINST] if self._hold.turns_against else []

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply a new value at once."""
        super().on_parameter(name, value)
        self._hold.gains, self._hold.limits = self._gains(), self.limits()
        self._hold.timeout = self.values["timeout"]

    def _gains(self) -> HoldGains:
        values = self.values
        return HoldGains(
            values["turn_gain"],
            values["turn_deadband"],
            values["steering_deadband"],
            values["hold_when_straight"],
        )

    def _on_heading(self, message: Heading, stamp: float) -> None:
        if is_valid(message, message.yaw):
            reference = (message.reference_stamp.sec, message.reference_stamp.nanosec)
            self._hold.measure(message.yaw, reference, stamp)

    def _turn(self, message: Float64, *, by: bool) -> None:
        turn = self._hold.turn_by if by else self._hold.turn_to
        if not turn(message.data, self.now):
            known = self._hold.heading(self.now) is not None
            reason = f"expected a turn of at most {LARGEST_TURN:g} rad" if known else NO_HEADING
            self.counters.count_malformed(reason)
            self.get_logger().warning(
                f"{'turn_by' if by else 'turn_to'} {message.data:g} rad refused: {reason}",
                throttle_duration_sec=1.0,
            )

    def _on_hold(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:  # noqa: ARG002
        self._hold.release()
        response.success = self._hold.turn_by(0.0, self.now)
        response.message = "the present heading is held" if response.success else NO_HEADING
        return response

    def _on_release(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:  # noqa: ARG002
        self._hold.release()
        response.success, response.message = True, "no heading is held"
        return response
