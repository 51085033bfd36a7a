"""The visual servo as a node: subscribes to a target, publishes ~/cmd_vel that turns and drives to it."""

from __future__ import annotations

import math
from typing import Any

from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo

from edgetpu_control.nodes.control_node import ControlNode, is_valid
from edgetpu_control.nodes.control_parameters import control_settings, limit_settings, live
from edgetpu_control.velocity import Velocity
from edgetpu_control.visual_servo import ServoGains, Target, VisualServo
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_msgs.msg import PatternMatch, ServoError
from edgetpu_perception.nodes.camera_calibration import Calibration
from edgetpu_perception.nodes.perception_parameters import RECTIFIED

SOURCES = {
    "servo_error": "spot_tracker/servo_error",
    "spot": "spot_tracker/detections",
    "match": "pattern_tracker/match",
    "detections": "object_detector/detections",
}
"""The sources of a target, with their topics."""

_GAINS = ServoGains()


class VisualServoNode(ControlNode):
    """Turns the robot to a spot, a match or a detected object, and drives up to it by its apparent size."""

    settings = control_settings(
        *limit_settings(),
        Setting("source", "servo_error", "Results that give the target.", choices=tuple(SOURCES)),
        Setting(
            "target_class",
            "",
            "Class of detections to steer to. Empty: any.",
            read_only=False,
        ),
        RECTIFIED,
        live("min_confidence", 0.3, "Least confidence of a result, or score of a detection.", 0.0, 1.0),
        live("turn_gain", _GAINS.turn, "Angular velocity by bearing, rad/s per rad.", 0.0, 50.0),
        live(
            "turn_deadband",
            _GAINS.turn_deadband,
            "Bearing up to which the robot does not turn, rad.",
            0.0,
            1.0,
        ),
        live("approach_gain", _GAINS.approach, "Speed by ln(wanted_size / size), m/s.", 0.0, 10.0),
        live(
            "wanted_size",
            _GAINS.wanted_size,
            "Width of the target, as a share of the image's, at which the robot stops. 0, or the source "
            "servo_error, which has no size: the robot only turns.",
            0.0,
            1.0,
        ),
        live(
            "size_deadband",
            _GAINS.size_deadband,
            "Relative error of the size up to which the robot does not drive.",
            0.0,
            1.0,
        ),
        live(
            "approach_angle",
            _GAINS.approach_angle,
            "Bearing up to which the robot drives, rad.",
            0.0,
            math.pi / 2,
        ),
        live(
            "search_speed",
            _GAINS.search_speed,
            "Angular velocity while results show no target, rad/s. 0: the robot waits.",
            0.0,
            50.0,
        ),
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("visual_servo", **options)
        with self.destroyed_on_error():
            self._set_up()

    def _set_up(self) -> None:
        self._servo = VisualServo(self._gains(), self.limits(), self.values["timeout"])
        self._calibration = Calibration(self.values["rectified"])
        source = self.values["source"]
        topic = SOURCES[source]
        if source == "servo_error":
            self.subscribe_result(ServoError, topic, self._on_servo_error)
        else:
            self.create_subscription(
                CameraInfo, "camera_info", self._calibration.update, qos_profile_sensor_data
            )
        if source == "match":
            self.subscribe_result(PatternMatch, topic, self._on_match)
        if source in ("spot", "detections"):
            self.subscribe_detections(topic, self._on_detections)
        self.start("~/cmd_vel")

    def command(self, now: float) -> Velocity | None:
        """Return the velocity towards the target."""
        return self._servo.command(now)

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply a new value at once."""
        super().on_parameter(name, value)
        self._servo.gains, self._servo.limits = self._gains(), self.limits()
        self._servo.timeout = self.values["timeout"]

    def problems(self) -> list[str]:
        """Return what keeps this node from steering."""
        if self.values["source"] == "servo_error" or self._calibration.camera is not None:
            return []
        return [self._calibration.problem or "no camera_info, which bearings need"]

    def _gains(self) -> ServoGains:
        values = self.values
        return ServoGains(
            values["turn_gain"],
            values["turn_deadband"],
            values["approach_gain"],
            values["wanted_size"],
            values["size_deadband"],
            values["approach_angle"],
            values["search_speed"],
        )

    def _on_servo_error(self, message: ServoError, stamp: float) -> None:
        self._servo.look(stamp)
        if not (is_valid(message) and message.confidence >= self.values["min_confidence"]):
            return
        if math.isnan(message.bearing_x):
            self.report_once(
                "bearing",
                "servo_error without bearing: the spot tracker needs camera_info or horizontal_fov",
                error=True,
            )
            return
        self._servo.measure(Target(message.bearing_x), stamp)

    def _on_match(self, message: PatternMatch, stamp: float) -> None:
        self._servo.look(stamp)
        usable = is_valid(message, message.x, message.y) and not message.ambiguous
        if usable and message.confidence >= self.values["min_confidence"]:
            self._measure(message.x, message.y, message.width, stamp)

    def _on_detections(self, message: Any, stamp: float) -> None:
        self._servo.look(stamp)
        wanted = [
            each
            for each in message.detections
            if self._score(each) >= self.values["min_confidence"] and _has_position(each)
        ]
        if wanted:
            box = max(wanted, key=self._score).bbox
            # Boxes of objects count from the corner of the first pixel, the camera and spots from its centre.
            half = 0.5 if self.values["source"] == "detections" else 0.0
            self._measure(box.center.position.x - half, box.center.position.y - half, box.size_x, stamp)

    def _score(self, detection: Any) -> float:
        """Return the score of the wanted class; -1 if the detection is of another one."""
        wanted = self.values["target_class"]
        scores = [
            result.hypothesis.score
            for result in detection.results
            if (not wanted or result.hypothesis.class_id == wanted) and math.isfinite(result.hypothesis.score)
        ]
        return max(scores, default=-1.0)

    def _measure(self, x: float, y: float, width: float, stamp: float) -> None:
        """Take a position and a width in px of the image."""
        camera = self._calibration.camera
        if camera is None:
            self.report_once("camera", "results without bearing: no usable camera_info was received")
            return
        self._servo.measure(Target(camera.bearing(x, y)[0], width / camera.width), stamp)


def _has_position(detection: Any) -> bool:
    centre = detection.bbox.center.position
    return math.isfinite(centre.x) and math.isfinite(centre.y)
