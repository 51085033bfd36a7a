"""The control nodes in the graph: results and velocities in, velocities out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")

from geometry_msgs.msg import Twist, TwistStamped, Vector3
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.clock import ClockType
from rclpy.parameter import Parameter
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Float64, Header
from std_srvs.srv import Trigger
from vision_msgs.msg import BoundingBox2D, Detection2D, Detection2DArray, ObjectHypothesis, Point2D, Pose2D
from vision_msgs.msg import ObjectHypothesisWithPose as Hypothesis

from edgetpu_control.nodes.control_node import ControlNode
from edgetpu_control.velocity import Velocity
from edgetpu_msgs.msg import Heading, PatternMatch, ServoError, TimeToContact

PACKAGE = "edgetpu_control"
PATIENT = {"timeout": 10.0, "angular_acceleration": 500.0, "linear_acceleration": 100.0}
"""Parameters with which a busy machine does not change the results."""
INFO = CameraInfo(
    width=640,
    height=480,
    k=[320.0, 0.0, 319.5, 0.0, 320.0, 239.5, 0.0, 0.0, 1.0],
    distortion_model="plumb_bob",
    d=[0.0] * 5,
)


class Partner:
    """Publishes to a control node, again and again, and collects the velocities that it publishes."""

    def __init__(self, graph: Any, velocity_topic: str, kind: type[Any] = Twist) -> None:
        self.graph = graph
        self.velocities = graph.collect(kind, velocity_topic, 1000)  # none is lost while this process waits
        self._publishers: dict[str, Any] = {}

    def header(self, ago: float = 0.0) -> Header:
        """A header of an image that was taken so many seconds ago."""
        nanoseconds = self.graph.node.get_clock().now().nanoseconds - round(1e9 * ago)
        header = Header(frame_id="camera")
        header.stamp.sec, header.stamp.nanosec = divmod(nanoseconds, 10**9)
        return header

    def await_publishers(self, node: str, *topics: str) -> Partner:
        """Wait until not even the first messages of a node on these topics are lost."""
        self.graph.meet(node)
        self.graph.spin_until(lambda: all(self.graph.node.count_publishers(each) for each in topics))
        return self

    def send(self, topic: str, message: Any) -> None:
        if topic not in self._publishers:
            self._publishers[topic] = self.graph.node.create_publisher(type(message), topic, 10)
        self._publishers[topic].publish(message)

    def send_until(self, messages: Callable[[], dict[str, Any]], condition: Callable[[Any], bool]) -> Any:
        """Send messages by topic until a velocity that comes meets the condition; that velocity."""
        self.velocities.clear()

        def met() -> bool:
            for topic, message in messages().items():
                self.send(topic, message)
            return any(condition(velocity) for velocity in self.velocities)

        self.graph.spin_until(met)
        return next(velocity for velocity in self.velocities if condition(velocity))


def hypothesis(name: str, score: float) -> Hypothesis:
    return Hypothesis(hypothesis=ObjectHypothesis(class_id=name, score=score))


def detection(name: str, score: float, x: float, width: float = 64.0, height: float = 48.0) -> Detection2D:
    centre = Pose2D(position=Point2D(x=x, y=239.5))
    return Detection2D(
        results=[hypothesis(name, score)], bbox=BoundingBox2D(center=centre, size_x=width, size_y=height)
    )


class _Broken(ControlNode):
    """A node whose controller raises."""

    def command(self, now: float) -> Velocity | None:
        raise OverflowError(now)


def test_a_controller_that_raises_stops_the_robot(graph: Any) -> None:
    node = _Broken("broken")
    velocities = graph.collect(Twist, "broken_cmd_vel")
    try:
        node.start("broken_cmd_vel")

        def stopped() -> bool:
            with pytest.raises(OverflowError):
                node._publish()
            return bool(velocities)

        graph.spin_until(stopped)
    finally:
        node.destroy_node()
    assert velocities[0] == Twist()


@pytest.mark.parametrize("simulated", [False, True])
def test_the_systems_clock_which_may_be_set_back_times_no_velocity(graph: Any, simulated: bool) -> None:  # noqa: ARG001
    node = _Broken("timed", parameter_overrides=[Parameter("use_sim_time", value=simulated)])
    node.start("timed_cmd_vel")
    periods = [timer.timer_period_ns for timer in node.timers if timer.clock.clock_type == ClockType.ROS_TIME]
    node.destroy_node()
    assert periods == ([round(1e9 / 30)] if simulated else [])


class _Moving(ControlNode):
    """A node that drives on."""

    def command(self, now: float) -> Velocity | None:  # noqa: ARG002
        return Velocity(0.5)


def test_a_node_that_ends_while_the_robot_moves_stops_it(graph: Any) -> None:
    node = _Moving("moving")
    velocities = graph.collect(Twist, "moving_cmd_vel")
    try:
        node.start("moving_cmd_vel")

        def moves() -> bool:
            node._publish()
            return bool(velocities)

        graph.spin_until(moves)
        graph.spin_for(0.1)
    finally:
        node.destroy_node()
    graph.spin_until(lambda: velocities[-1] == Twist())


class TestVisualServo:
    def servo(self, start_briefly: Callable[..., Any], graph: Any, name: str, **parameters: Any) -> Partner:
        start_briefly(PACKAGE, "visual_servo", "-r", f"__ns:=/{name}", **PATIENT, **parameters)
        topic = f"/{name}/visual_servo/cmd_vel"
        return Partner(graph, topic).await_publishers(f"/{name}/visual_servo", topic)

    def test_turns_to_a_spot(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        partner = self.servo(start_briefly, graph, "spot")
        topic = "/spot/spot_tracker/servo_error"
        velocity = partner.send_until(
            lambda: {topic: ServoError(header=partner.header(), valid=True, confidence=1.0, bearing_x=-0.7)},
            lambda velocity: velocity.angular.z > 1.0,
        )
        assert velocity.linear.x == 0

    def test_does_not_turn_to_an_old_spot(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        process = start_briefly(PACKAGE, "visual_servo", "-r", "__ns:=/old", timeout=1.0)
        partner = Partner(graph, "/old/visual_servo/cmd_vel")
        old = ServoError(header=partner.header(ago=600.0), valid=True, confidence=1.0, bearing_x=1.0)

        def complained() -> bool:
            partner.send("/old/spot_tracker/servo_error", old)
            return "expected a stamp of the last 1 s (timeout); got one 6" in process.output

        graph.spin_until(complained)
        assert partner.velocities == []

    def test_drives_up_to_a_spot_that_it_has_searched_for(
        self, start_briefly: Callable[..., Any], graph: Any
    ) -> None:
        partner = self.servo(
            start_briefly, graph, "dock", source="spot", wanted_size=0.5, search_speed=0.8, turn_deadband=0.1
        )
        seen: list[Detection2D] = []

        def messages() -> dict[str, Any]:
            detections = Detection2DArray(header=partner.header(), detections=seen)
            return {"/dock/camera_info": INFO, "/dock/spot_tracker/detections": detections}

        velocity = partner.send_until(messages, lambda velocity: velocity.angular.z > 0.79)
        assert velocity.linear.x == 0
        seen.append(detection("red", 0.9, 319.5))
        partner.send_until(messages, lambda velocity: velocity.linear.x > 0.4)

    def test_drives_up_to_a_pattern(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        partner = self.servo(start_briefly, graph, "match", source="match", wanted_size=0.5)
        velocity = partner.send_until(
            lambda: {
                "/match/camera_info": INFO,
                "/match/pattern_tracker/match": PatternMatch(
                    header=partner.header(), valid=True, confidence=1.0, x=319.5, y=239.5, width=64.0
                ),
            },
            lambda velocity: velocity.linear.x > 0.4,
        )
        assert abs(velocity.angular.z) < 1e-6

    def test_steers_to_the_wanted_class(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        # A slow robot: its own turn hardly changes the bearing before the velocity is read.
        partner = self.servo(
            start_briefly, graph, "class", source="detections", target_class="cup", turn_gain=0.1
        )
        seen = [detection("person", 0.9, 600.0), detection("cup", 0.4, 40.0), detection("cup", 0.6, 100.0)]
        velocity = partner.send_until(
            lambda: {
                "/class/camera_info": INFO,
                "/class/object_detector/detections": Detection2DArray(
                    header=partner.header(), detections=seen
                ),
            },
            lambda velocity: velocity.angular.z > 0,
        )
        assert velocity.angular.z == pytest.approx(0.1 * math.atan(219.5 / 320), rel=0.08)


class TestContactGuard:
    @pytest.fixture(scope="class")
    def partner(self, start_node: Callable[..., Any], graph: Any) -> Partner:
        """One of a guard with odometry whose velocities have stamps."""
        parameters = {"timeout": 10.0, "use_odometry": True, "stamped": True, "gap": 0.2}
        start_node(PACKAGE, "contact_guard", "-r", "__ns:=/guard", **parameters)
        return Partner(graph, "/guard/cmd_vel", TwistStamped)

    def test_stops_before_a_wall_and_goes_on_when_released(self, partner: Partner, graph: Any) -> None:
        odometry = Odometry()
        asked = TwistStamped(twist=Twist(linear=Vector3(x=0.5), angular=Vector3(z=0.25)))

        def world(rate: float) -> dict[str, Any]:
            for velocity in partner.velocities[-1:]:  # which the robot obeys
                odometry.twist.twist.linear.x = velocity.twist.linear.x
            seen = TimeToContact(
                header=partner.header(),
                valid=True,
                expansion_rate=rate,
                expansion_rate_sigma=0.005,
                approaching=rate > 0,
            )
            return {
                "/guard/odom": odometry,
                "/guard/cmd_vel_in": asked,
                "/guard/looming/time_to_contact": seen,
            }

        free = partner.send_until(lambda: world(0.0), lambda each: each.twist.linear.x == 0.5)
        assert (free.header.frame_id, free.twist.angular.z) == ("base_link", 0.25)
        stopped = partner.send_until(lambda: world(5.0), lambda each: each.twist.linear.x == 0.0)
        assert stopped.twist.angular.z == 0.25
        graph.spin_for(0.1)
        assert graph.call(Trigger, "/guard/contact_guard/release").success
        partner.send_until(lambda: world(0.0), lambda each: each.twist.linear.x == 0.5)

    def test_is_blind_without_odometry(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        start_briefly(
            PACKAGE, "contact_guard", "-r", "__ns:=/still", timeout=10.0, use_odometry=True, blind_speed=0.125
        )
        partner = Partner(graph, "/still/cmd_vel")

        def world() -> dict[str, Any]:
            return {
                "/still/cmd_vel_in": Twist(linear=Vector3(x=0.5)),
                "/still/looming/time_to_contact": TimeToContact(header=partner.header(), valid=True),
            }

        partner.send_until(world, lambda each: each.linear.x == 0.125)
        assert max(each.linear.x for each in partner.velocities) == 0.125

    def test_does_not_follow_a_velocity_of_an_old_time(
        self, start_briefly: Callable[..., Any], graph: Any
    ) -> None:
        process = start_briefly(PACKAGE, "contact_guard", "-r", "__ns:=/late", timeout=1.0, stamped=True)
        partner = Partner(graph, "/late/cmd_vel", TwistStamped)
        late = TwistStamped(header=partner.header(ago=600.0), twist=Twist(linear=Vector3(x=0.5)))

        def complained() -> bool:
            partner.send("/late/cmd_vel_in", late)
            return "expected a stamp of the last 1 s (timeout); got one 6" in process.output

        graph.spin_until(complained)
        assert partner.velocities == []

    def test_refuses_sizes_in_the_wrong_order(self, partner: Partner, graph: Any) -> None:
        del partner
        values = [Parameter("slow_size", value=0.9).to_parameter_msg()]
        answer = graph.call(SetParameters, "/guard/contact_guard/set_parameters", parameters=values).results[
            0
        ]
        assert not answer.successful
        assert "expected 0 < slow_size < stop_size; got 0.9 and 0.7" in answer.reason

    @pytest.mark.parametrize(
        ("slow", "stop", "reason"),
        [(0.8, 0.9, ""), (0.6, 0.5, "slow_size: slow_size, stop_size: expected 0 < slow_size < stop_size")],
    )
    def test_judges_sizes_that_are_set_together_together(
        self,
        partner: Partner,  # noqa: ARG002
        graph: Any,
        slow: float,
        stop: float,
        reason: str,
    ) -> None:
        values = [Parameter(name, value=value) for name, value in (("slow_size", slow), ("stop_size", stop))]
        answer = graph.call(
            SetParametersAtomically,
            "/guard/contact_guard/set_parameters_atomically",
            parameters=[value.to_parameter_msg() for value in values],
        ).result
        assert answer.successful == (not reason)
        assert answer.reason.startswith(reason)

    def test_skips_what_cannot_be_measured(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        process = start_briefly(
            PACKAGE, "contact_guard", "-r", "__ns:=/numbers", use_odometry=True, use_detections=True
        )
        partner = Partner(graph, "/numbers/cmd_vel")
        odometry = Odometry()
        odometry.twist.twist.linear.x = 1e308

        def complained() -> bool:
            header = partner.header()
            standing = TimeToContact(header=header, valid=True, approaching=True)
            boxes = [detection("person", 0.9, 320.0, height=height) for height in (math.nan, 400.0)]
            partner.send("/numbers/cmd_vel_in", Twist(linear=Vector3(x=math.nan)))
            partner.send("/numbers/odom", odometry)
            partner.send("/numbers/looming/time_to_contact", standing)
            partner.send(
                "/numbers/object_detector/detections", Detection2DArray(header=header, detections=boxes)
            )
            return all(
                line in process.output
                for line in (
                    "cmd_vel_in skipped: expected a velocity of at most 1000; got Velocity(linear=nan",
                    "odom skipped: expected a velocity of at most twice max_linear and max_angular; got Vel",
                    "time_to_contact skipped: expected an expansion rate, above 0 if something approaches",
                    "detections skipped: expected heights in px",
                )
            )

        graph.spin_until(complained)
        assert partner.velocities == []

    def test_slows_down_for_a_person(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        parameters = {"timeout": 10.0, "use_detections": True, "detection_classes": ["person"]}
        start_briefly(PACKAGE, "contact_guard", "-r", "__ns:=/person", **parameters)
        partner = Partner(graph, "/person/cmd_vel")

        def world() -> dict[str, Any]:
            person = detection("person", 0.9, 320.0, height=264.0)  # 0.55 of the image, half way to 0.7
            return {
                "/person/cmd_vel_in": Twist(linear=Vector3(x=0.5)),
                "/person/looming/time_to_contact": TimeToContact(header=partner.header(), valid=True),
                "/person/object_detector/detections": Detection2DArray(
                    header=partner.header(), detections=[person]
                ),
            }

        velocity = partner.send_until(world, lambda each: each.linear.x > 0.2499)  # after the ramp
        assert velocity.linear.x == pytest.approx(0.25)


class TestHeadingHold:
    def test_turns_to_a_heading_and_is_released(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        # Slow: its own turn hardly changes the error before the first one is read.
        start_briefly(PACKAGE, "heading_hold", "-r", "__ns:=/hold", **PATIENT, turn_gain=0.1)
        name = "/hold/heading_hold"
        partner = Partner(graph, f"{name}/cmd_vel")
        heading = {"/hold/visual_compass/heading": Heading(header=partner.header(), valid=True, yaw=1.0)}
        errors = graph.collect(Float64, f"{name}/error", 1000)
        partner.await_publishers(name, f"{name}/cmd_vel", f"{name}/error")

        def turned() -> bool:
            for topic, message in heading.items():
                message.header = partner.header()
                partner.send(topic, message)
            partner.send(f"{name}/turn_to", Float64(data=1.5))
            return any(velocity.angular.z > 0.04 for velocity in partner.velocities) and bool(errors)

        graph.spin_until(turned)
        assert max(error.data for error in errors) == pytest.approx(0.5, abs=0.01)

        def released() -> bool:  # again, if a turn_to was still on its way
            assert graph.call(Trigger, f"{name}/release").success
            return partner.velocities[-1].angular.z == 0

        graph.spin_until(released)

    def test_holds_no_heading_that_is_not_known(self, start_briefly: Callable[..., Any], graph: Any) -> None:
        start_briefly(PACKAGE, "heading_hold", "-r", "__ns:=/blind")
        answer = graph.call(Trigger, "/blind/heading_hold/hold")
        assert (answer.success, answer.message) == (False, "no valid heading is known")
