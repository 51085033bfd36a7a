"""The contact guard as a node: passes cmd_vel_in on to cmd_vel, slowed down in front of obstacles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from nav_msgs.msg import Odometry
from rclpy.qos import qos_profile_sensor_data
from std_srvs.srv import Trigger

from edgetpu_control.contact_guard import ContactGuard, GuardSettings, Restriction
from edgetpu_control.distance_filter import Contact
from edgetpu_control.nodes.control_node import ControlNode
from edgetpu_control.nodes.control_parameters import (
    control_settings,
    deadband,
    deadband_settings,
    limit_settings,
    live,
)
from edgetpu_control.nodes.message_age import is_timely, stamp_of
from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_msgs.msg import TimeToContact

_DEFAULTS = GuardSettings()

_GUARD_SETTINGS = (
    live("gap", _DEFAULTS.gap, "Distance kept free in front of the robot's hull, m.", 0.0, 10.0),
    live(
        "camera_to_hull",
        _DEFAULTS.camera_to_hull,
        "Distance from the camera forward to the foremost part of the robot, m.",
        -5.0,
        5.0,
    ),
    live("deceleration", _DEFAULTS.deceleration, "Deceleration of the braking robot, m/s^2.", 0.01, 50.0),
    live(
        "reaction_time", _DEFAULTS.reaction_time, "Time from a command to the robot's reaction, s.", 0.0, 5.0
    ),
    live(
        "sigmas",
        _DEFAULTS.sigmas,
        "Standard deviations that are subtracted from the measured distance.",
        0.0,
        10.0,
    ),
    live(
        "hysteresis",
        _DEFAULTS.hysteresis,
        "Free distance, beyond gap, at which a stopped robot may drive on, m.",
        0.0,
        5.0,
    ),
    live(
        "contact_time",
        _DEFAULTS.contact_time,
        "A robot at rest does not start while something approaches that would touch it within this time, s.",
        0.0,
        60.0,
    ),
    live("blind_speed", _DEFAULTS.blind_speed, "Speed without valid results or odometry, m/s.", 0.0, 20.0),
    live(
        "release_angle",
        _DEFAULTS.release_angle,
        "After a turn by this angle the distance is forgotten, rad.",
        0.01,
        10.0,
    ),
    live(
        "slow_size",
        _DEFAULTS.slow_size,
        "Height of a detected object from which the robot is slowed down, as a share of the image's.",
        0.01,
        1.0,
    ),
    live("stop_size", _DEFAULTS.stop_size, "Height at which the robot is stopped.", 0.02, 10.0),
)


class ContactGuardNode(ControlNode):
    """Limits the forward speed of a robot by the time to contact, so that it stops in time."""

    settings = control_settings(
        *limit_settings(1.0, 3.0),
        *deadband_settings(0.02, 0.0),
        Setting(
            "use_odometry",
            False,
            "Take the robot's velocity from odom instead of cmd_vel; without odometry the robot stops.",
        ),
        Setting("use_detections", False, "Also stop for detected objects, and when no detections arrive."),
        Setting("detection_classes", [], "Classes of objects to stop for. Empty: all.", read_only=False),
        Setting("image_height", 480, "Height of the images of detections, px.", 1, 100000),
        live("min_score", 0.5, "Least score of a detection.", 0.0, 1.0),
        *_GUARD_SETTINGS,
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("contact_guard", **options)
        with self.destroyed_on_error():
            self._set_up()

    def _set_up(self) -> None:
        detections = self.values["use_detections"]
        try:
            self._guard = ContactGuard(
                self._guard_settings(self.values),
                self.limits(),
                self.values["timeout"],
                detections=detections,
                odometry=self.values["use_odometry"],
            )
        except InputError as error:
            raise self.fatal(error) from None
        self._guard.deadband = deadband(self.values)
        self.subscribe_velocity("cmd_vel_in", self._guard.ask)
        self.subscribe_result(TimeToContact, "looming/time_to_contact", self._on_time_to_contact)
        if self.values["use_odometry"]:
            self.create_subscription(Odometry, "odom", self._on_odometry, qos_profile_sensor_data)
        if detections:
            self.subscribe_detections("object_detector/detections", self._on_detections)
        self.create_service(Trigger, "~/release", self._release)
        self.start("cmd_vel")

    def command(self, now: float) -> Velocity | None:
        """Return the velocity asked for, within what is safe."""
        before = self._guard.restriction
        velocity = self._guard.command(now)
        self._guard.follow(STANDSTILL if velocity is None else velocity, now)
        if self._guard.restriction is not before:
            self.get_logger().info(
                f"speed limited: {self._guard.restriction.value}"
                if self._guard.restriction is not Restriction.NONE
                else "speed not limited",
                throttle_duration_sec=1.0,
            )
        return velocity

    def refuse_parameter(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Refuse sizes of detections in the wrong order."""
        del name
        try:
            self._guard_settings(values)
        except InputError as error:
            return str(error)
        return None

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply a new value at once."""
        super().on_parameter(name, value)
        self._guard.settings, self._guard.timeout = self._guard_settings(self.values), self.values["timeout"]
        self._guard.limits, self._guard.deadband = self.limits(), deadband(self.values)

    def diagnostic(self) -> DiagnosticStatus:
        """Add the reason of the limit and the distance ahead to the node's entry of /diagnostics."""
        status = super().diagnostic()
        ahead = self._guard.distance
        distance = "unknown" if math.isinf(ahead.distance) else f"{ahead.distance:.2f} +- {ahead.sigma:.2f}"
        status.values = [
            *status.values,
            KeyValue(key="limited by", value=self._guard.restriction.value),
            KeyValue(key="distance, m", value=distance),
        ]
        return status

    @staticmethod
    def _guard_settings(values: Mapping[str, Any]) -> GuardSettings:
        return GuardSettings(**{setting.name: values[setting.name] for setting in _GUARD_SETTINGS})

    def _on_time_to_contact(self, message: TimeToContact, stamp: float) -> None:
        if not message.valid:
            return
        contact = Contact(message.expansion_rate, message.expansion_rate_sigma, message.approaching)
        if contact.is_plausible:
            self._guard.measure(contact, stamp, self.now)
        else:
            self.skip(
                "looming/time_to_contact",
                f"an expansion rate, above 0 if something approaches, and its sigma; got {contact}",
            )

    def _on_odometry(self, message: Odometry) -> None:
        now = self.now
        stamp = stamp_of(message) or now
        if not is_timely(self, "odom", now - stamp):
            return
        twist = message.twist.twist
        velocity = Velocity(twist.linear.x, twist.angular.z)
        if not self._guard.drive(velocity, min(stamp, now)):
            self.skip("odom", f"a velocity of at most twice max_linear and max_angular; got {velocity}")

    def _on_detections(self, message: Any, stamp: float) -> None:
        classes, least = self.values["detection_classes"], self.values["min_score"]
        heights = [
            detection.bbox.size_y
            for detection in message.detections
            for result in detection.results
            if (not classes or result.hypothesis.class_id in classes) and result.hypothesis.score >= least
        ]
        if all(height >= 0 for height in heights):  # NaN is not
            self._guard.detect(max(heights, default=0.0) / self.values["image_height"], stamp, self.now)
        else:
            self.skip("object_detector/detections", f"heights in px; got {heights}")

    def _release(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:  # noqa: ARG002
        self._guard.release()
        response.success, response.message = True, "the obstacle ahead is forgotten"
        return response
