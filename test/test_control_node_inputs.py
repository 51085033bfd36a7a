"""What the control nodes take of the messages of others: recent ones, and numbers that are finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")

from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from sensor_msgs.msg import CameraInfo
from vision_msgs.msg import BoundingBox2D, Detection2D, Detection2DArray, ObjectHypothesis, Point2D, Pose2D
from vision_msgs.msg import ObjectHypothesisWithPose as Hypothesis

from edgetpu_control.contact_guard import Restriction
from edgetpu_control.distance_filter import Contact
from edgetpu_control.nodes.contact_guard_node import ContactGuardNode
from edgetpu_control.nodes.visual_servo_node import VisualServoNode
from edgetpu_control.velocity import STANDSTILL, Velocity

WIDTH, FOCAL_LENGTH = 640, 320.0
CENTRE = (WIDTH - 1) / 2


@pytest.fixture
def node(graph: Any) -> Iterator[Callable[..., Any]]:  # noqa: ARG001 - rclpy runs
    """Makes nodes with these parameters."""
    nodes: list[Any] = []

    def make(kind: type[Any], **parameters: Any) -> Any:
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        nodes.append(kind(namespace="alone", parameter_overrides=overrides))
        return nodes[-1]

    yield make
    for each in nodes:
        each.destroy_node()


def detection(x: float, *scores: float) -> Detection2D:
    results = [Hypothesis(hypothesis=ObjectHypothesis(class_id="cup", score=score)) for score in scores]
    centre = Pose2D(position=Point2D(x=x, y=CENTRE))
    return Detection2D(results=results, bbox=BoundingBox2D(center=centre, size_x=64.0, size_y=48.0))


def test_the_servo_steers_to_the_best_detection_whose_place_and_score_are_finite(
    node: Callable[..., Any],
) -> None:
    servo = node(VisualServoNode, source="detections")
    k = [FOCAL_LENGTH, 0.0, CENTRE, 0.0, FOCAL_LENGTH, CENTRE, 0.0, 0.0, 1.0]
    servo._calibration.update(CameraInfo(width=WIDTH, height=WIDTH, k=k, distortion_model="plumb_bob"))
    seen = [detection(math.inf, 0.99), detection(math.nan, 0.99)]
    seen.append(detection(CENTRE + FOCAL_LENGTH, math.nan, 0.9))
    servo._on_detections(Detection2DArray(detections=seen), servo.now)
    assert servo._servo._direction.bearing == pytest.approx(math.pi / 4)


@pytest.mark.parametrize("ago", [60, -60])
def test_the_guard_takes_no_odometry_of_another_time(node: Callable[..., Any], ago: int) -> None:
    guard = node(ContactGuardNode, use_odometry=True)
    odometry = Odometry()
    odometry.header.stamp = guard.get_clock().now().to_msg()
    odometry.header.stamp.sec -= ago
    guard._on_odometry(odometry)
    guard._guard.measure(Contact(0.0, 0.01, approaching=False), guard.now, guard.now)
    guard._guard.ask(Velocity(0.5), guard.now)
    assert guard._guard.command(guard.now) == STANDSTILL
    assert guard._guard.restriction is Restriction.NO_ODOMETRY
    assert guard.counters.dropped == 1
