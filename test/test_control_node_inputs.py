"""What the control nodes take of the messages of others: recent ones, and numbers that are finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Twist, TwistStamped, Vector3
from nav_msgs.msg import Odometry
from rclpy.clock import ClockType
from rclpy.parameter import Parameter
from rclpy.time import Time as RosTime
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Float64
from vision_msgs.msg import BoundingBox2D, Detection2D, Detection2DArray, ObjectHypothesis, Point2D, Pose2D
from vision_msgs.msg import ObjectHypothesisWithPose as Hypothesis

from edgetpu_control.contact_guard import Restriction
from edgetpu_control.distance_filter import Contact
from edgetpu_control.heading_hold import HoldState
from edgetpu_control.nodes.contact_guard_node import ContactGuardNode
from edgetpu_control.nodes.heading_hold_node import HeadingHoldNode
from edgetpu_control.nodes.policy_node import PolicyNode
from edgetpu_control.nodes.visual_servo_node import VisualServoNode
from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_driver.node_kit import base_node
from edgetpu_driver.node_kit.base_node import BaseNode

NOW = 1000
"""The time of all nodes, s: it does not pass during a test."""
WIDTH, FOCAL_LENGTH = 640, 320.0
CENTRE = (WIDTH - 1) / 2


@pytest.fixture
def node(graph: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:  # noqa: ARG001 - rclpy runs
    """Makes nodes with these parameters, for which it is NOW."""
    monkeypatch.setattr(BaseNode, "now", float(NOW))
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
    seen.append(detection(WIDTH / 2 + FOCAL_LENGTH, math.nan, 0.9))
    servo._on_detections(Detection2DArray(detections=seen), servo.now)
    assert servo._servo._direction.bearing == pytest.approx(math.pi / 4)


@pytest.mark.parametrize(("source", "centre"), [("detections", WIDTH / 2), ("spot", CENTRE)])
def test_a_target_in_the_centre_of_the_image_is_ahead(
    source: str, centre: float, node: Callable[..., Any]
) -> None:
    """Boxes of objects have whole numbers at the edges of pixels, spots in their centres."""
    servo = node(VisualServoNode, source=source)
    k = [FOCAL_LENGTH, 0.0, CENTRE, 0.0, FOCAL_LENGTH, CENTRE, 0.0, 0.0, 1.0]
    servo._calibration.update(CameraInfo(width=WIDTH, height=WIDTH, k=k, distortion_model="plumb_bob"))
    servo._on_detections(Detection2DArray(detections=[detection(centre, 0.9)]), servo.now)
    assert servo._servo._direction.bearing == 0.0


@pytest.mark.parametrize("ago", [60, -60])
def test_the_guard_takes_no_odometry_of_another_time(node: Callable[..., Any], ago: int) -> None:
    guard = node(ContactGuardNode, use_odometry=True)
    odometry = Odometry()
    odometry.header.stamp = Time(sec=NOW - ago)
    guard._on_odometry(odometry)
    guard._guard.measure(Contact(0.0, 0.01, approaching=False), guard.now, guard.now)
    guard._guard.ask(Velocity(0.5), guard.now)
    assert guard._guard.command(guard.now) == STANDSTILL
    assert guard._guard.restriction is Restriction.NO_ODOMETRY
    assert guard.counters.dropped == 1


@pytest.mark.parametrize(
    ("ago", "reason"),
    [
        (60, "60.00 s old; it came too late, or use_sim_time or the clocks of the computers differ"),
        (-60, "60.00 s ahead of this clock; use_sim_time or the clocks of the computers differ"),
    ],
)
def test_a_message_of_another_time_is_reported_with_the_likely_reasons(
    node: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, ago: int, reason: str
) -> None:
    guard, lines = node(ContactGuardNode, use_odometry=True), []
    monkeypatch.setattr(guard, "report_once", lambda _kind, line: lines.append(line))
    odometry = Odometry()
    odometry.header.stamp = Time(sec=NOW - ago)
    guard._on_odometry(odometry)
    timeout = f"{guard.values['timeout']:g}"
    assert lines == [
        f"message on /alone/odom skipped: expected a stamp of the last {timeout} s (timeout); "
        f"got one {reason}"
    ]


@pytest.mark.parametrize(("stamped", "distance"), [(True, 1.0), (False, math.inf)])
def test_the_velocity_of_odometry_counts_from_its_stamp_on(
    node: Callable[..., Any], stamped: bool, distance: float
) -> None:
    guard = node(ContactGuardNode, use_odometry=True, timeout=1.0)
    odometry = Odometry()
    odometry.twist.twist.linear.x = 0.5
    if stamped:
        odometry.header.stamp = Time(sec=NOW - 1, nanosec=500_000_000)
    guard._on_odometry(odometry)
    for stamp in (NOW - 0.03, NOW):
        guard._guard.measure(Contact(0.5, 0.005, approaching=True), stamp, stamp)
    assert guard._guard.distance.distance == pytest.approx(distance, abs=0.01)


def ask(node: Any, ago: int) -> None:
    """Have a node receive a velocity with a stamp of so many seconds ago."""
    message = TwistStamped(twist=Twist(linear=Vector3(x=0.5)))
    message.header.stamp = Time(sec=NOW - ago)
    (subscription,) = (each for each in node.subscriptions if each.topic_name == "/alone/cmd_vel_in")
    subscription.callback(message)


def test_the_guard_passes_a_velocity_on_until_its_stamp_is_old(node: Callable[..., Any]) -> None:
    guard = node(ContactGuardNode, stamped=True, timeout=10.0, blind_speed=0.5)
    ask(guard, ago=6)
    assert guard._guard.command(NOW) == Velocity(0.5)
    assert guard._guard.command(NOW + 5.0) == STANDSTILL


def test_the_heading_hold_follows_a_velocity_until_its_stamp_is_old(node: Callable[..., Any]) -> None:
    hold = node(HeadingHoldNode, stamped=True, timeout=10.0)
    ask(hold, ago=6)
    states = []
    for later in (0.0, 5.0):
        hold._hold.command(NOW + later)
        states.append(hold._hold.state)
    assert states == [HoldState.STEERED, HoldState.IDLE]


def test_a_refused_turn_is_logged_with_its_reason(
    node: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, lines = node(HeadingHoldNode), []
    monkeypatch.setattr(
        hold, "get_logger", lambda: SimpleNamespace(warning=lambda line, **_: lines.append(line))
    )
    hold._turn(Float64(data=1.5), by=True)
    hold._hold.measure(0.0, None, float(NOW))
    hold._turn(Float64(data=math.nan), by=False)
    hold._turn(Float64(data=1.5), by=True)
    assert lines == [
        "turn_by 1.5 rad refused: no valid heading is known",
        "turn_to nan rad refused: expected a turn of at most 1000 rad",
    ]


class _Server:
    """A network on a driver that answers when the test says so."""

    ready, problem, network = (
        True,
        "",
        SimpleNamespace(network=SimpleNamespace(sizes=(1, 2)), layer_errors=()),
    )

    def run(self, inputs: Any, done: Callable[..., None]) -> bool:
        del inputs
        self.answer = done
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def policy(node: Callable[..., Any]) -> Any:
    """A policy that waits for the answer to an observation, which is 4 s old; `timeout` is 5 s."""
    policy = node(PolicyNode, twist=True, timeout=5.0, linear_acceleration=100.0)
    policy.server = _Server()
    policy._buffer.put(0, np.zeros(1), policy.now - 4.0)
    policy._waits = True
    policy.advance()
    return policy


def test_a_policy_follows_a_command_until_its_observation_is_old(policy: Any) -> None:
    policy.server.answer(np.array([[0.5, 0.0]]), SimpleNamespace(error=None))
    assert policy._follower.step(NOW) == Velocity(0.5)
    assert policy._follower.step(NOW + 2.0) == STANDSTILL


def test_a_policy_follows_no_command_whose_observation_has_become_old(
    policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PolicyNode, "now", policy.now + 2.0)
    policy.server.answer(np.array([[0.5, 0.0]]), SimpleNamespace(error=None))
    assert policy._follower.step(policy.now) is None
    assert policy.counters.failed == 1


@pytest.mark.parametrize(
    ("kind", "parameters"), [(VisualServoNode, {}), (PolicyNode, {"twist": True})], ids=["servo", "policy"]
)
def test_velocities_are_timed_by_the_clock_of_the_graph(
    node: Callable[..., Any], kind: type[Any], parameters: dict[str, Any]
) -> None:
    controller = node(kind, use_sim_time=True, rate=8.0, **parameters)
    (timer,) = (each for each in controller.timers if each.timer_period_ns == 125_000_000)
    assert timer.clock.clock_type == ClockType.ROS_TIME


def test_a_node_says_that_it_waits_for_simulated_time(
    node: Callable[..., Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = node(ContactGuardNode, use_sim_time=True)
    waits = "use_sim_time is true, but no time has come from /clock"
    logged = []
    for second in (100.0, 100.0, 109.9, 110.0, 130.0):
        monkeypatch.setattr(base_node, "time", SimpleNamespace(monotonic=lambda second=second: second))
        assert waits in guard.diagnostic().message
        logged.append(capfd.readouterr().err.count(waits))
    assert logged == [0, 0, 0, 1, 0]
    guard.get_clock().set_ros_time_override(RosTime(seconds=5))
    assert waits not in guard.diagnostic().message
