"""A control node that ends stops the robot, which may keep its last velocity until it gets another."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from geometry_msgs.msg import Twist
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.parameter import Parameter

from edgetpu_control.nodes import velocity_publisher
from edgetpu_control.nodes.control_node import ControlNode
from edgetpu_control.nodes.policy_node import PolicyNode
from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_driver.errors import UnavailableError
from edgetpu_driver.node_kit.clients.client_state import ClientClosedError
from edgetpu_msgs.msg import ServoError


class Moving(ControlNode):
    """A node that drives on."""

    def __init__(self) -> None:
        super().__init__("moving")
        self.start("~/cmd_vel")

    def command(self, now: float) -> Velocity | None:  # noqa: ARG002
        return Velocity(0.5)

    def drive(self) -> None:
        self._publish()


class MovingByANetwork(PolicyNode):
    """A policy that drives on."""

    def __init__(self) -> None:
        overrides = [Parameter("twist", value=True), Parameter("linear_acceleration", value=100.0)]
        super().__init__(parameter_overrides=overrides)

    def drive(self) -> None:
        self.publish_command(np.array([0.5, 0.0]))
        self._drive()


def _driving(
    monkeypatch: pytest.MonkeyPatch, acknowledge: Callable[[list[Any]], bool], kind: type[Any] = Moving
) -> tuple[Any, list[Any]]:
    """A node that drives on, and what it has sent, to which `acknowledge` may add."""
    node, events = kind(), list[Any]()
    publisher = SimpleNamespace(
        publish=lambda twist: events.append(twist.linear.x),
        wait_for_all_acked=lambda _timeout: acknowledge(events),
    )
    monkeypatch.setattr(node._velocities, "_publisher", publisher)
    node.drive()
    return node, events


def _ending(
    monkeypatch: pytest.MonkeyPatch, acknowledge: Callable[[list[Any]], bool], kind: type[Any] = Moving
) -> tuple[Any, list[Any]]:
    """A node that drives on, and what happens at its end."""
    node, events = _driving(monkeypatch, acknowledge, kind)
    monkeypatch.setattr(velocity_publisher.time, "sleep", lambda seconds: events.append(f"{seconds} s"))
    events.clear()
    return node, events


def _acknowledge(events: list[Any]) -> bool:
    events.append("acknowledged")
    return True


@pytest.mark.parametrize("kind", [Moving, MovingByANetwork])
def test_a_node_that_ends_stays_until_its_standstill_has_arrived(
    graph: Any,  # noqa: ARG001 - rclpy runs
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Any],
) -> None:
    node, events = _driving(monkeypatch, _acknowledge, kind)
    destroy = node.destroy_publisher
    monkeypatch.setattr(node, "destroy_publisher", lambda each: events.append("destroyed") or destroy(each))
    node.destroy_node()
    assert events[:4] == [0.5, 0.0, "acknowledged", "destroyed"]


def test_stops_on_a_middleware_that_cannot_tell_what_has_arrived(
    graph: Any,  # noqa: ARG001 - rclpy runs
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsupported(_events: list[Any]) -> bool:
        raise _rclpy.RCLError("not supported")

    node, events = _ending(monkeypatch, unsupported)
    node.destroy_node()
    assert events == [0.0, "0.05 s"]


def test_says_that_no_robot_has_acknowledged_its_standstill(
    graph: Any,  # noqa: ARG001 - rclpy runs
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    node, events = _ending(monkeypatch, lambda _events: False)
    node.destroy_node()
    assert events == [0.0, "0.05 s"]
    assert "the standstill at the end was not acknowledged within 0.3 s" in capfd.readouterr().err


@pytest.mark.parametrize("kind", [Moving, MovingByANetwork])
def test_stops_before_other_nodes_of_its_process_are_destroyed_and_again_when_it_is(
    graph: Any,  # noqa: ARG001 - rclpy runs
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Any],
) -> None:
    node, events = _ending(monkeypatch, _acknowledge, kind)
    node.on_stop()
    assert events == [0.0]
    node.destroy_node()
    assert events == [0.0, 0.0, "acknowledged", "0.05 s"]


@pytest.mark.parametrize("kind", [Moving, MovingByANetwork])
def test_a_node_whose_robot_stands_ends_without_a_word(
    graph: Any,  # noqa: ARG001 - rclpy runs
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Any],
) -> None:
    node, events = _ending(monkeypatch, lambda _events: True, kind)
    node._velocities.send(STANDSTILL)
    events.clear()
    node.on_stop()
    node.destroy_node()
    assert events == []


def test_a_request_under_way_at_the_end_is_no_failure(
    graph: Any,  # noqa: ARG001 - rclpy runs
    capfd: pytest.CaptureFixture[str],
) -> None:
    node = MovingByANetwork()
    node.fail(ClientClosedError("the client is closed"))
    assert node.counters.failed == 0
    node.fail(UnavailableError("no answer from /edgetpu"))
    assert node.counters.failed == 1
    node.destroy_node()
    log = capfd.readouterr().err
    assert "no command: no answer from /edgetpu" in log
    assert "the client is closed" not in log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_robot(
    start_briefly: Callable[..., Any], graph: Any, number: signal.Signals
) -> None:
    process = start_briefly("edgetpu_control", "visual_servo", "-r", f"__ns:=/{number.name}", timeout=10.0)
    velocities = graph.collect(Twist, f"/{number.name}/visual_servo/cmd_vel", 1000)
    spots = graph.node.create_publisher(ServoError, f"/{number.name}/spot_tracker/servo_error", 10)

    def turns() -> bool:
        spot = ServoError(valid=True, confidence=1.0, bearing_x=-0.7)
        spot.header.stamp = graph.node.get_clock().now().to_msg()
        spots.publish(spot)
        return any(velocity.angular.z > 0 for velocity in velocities)

    graph.spin_until(turns)
    process.stop(number)
    graph.spin_until(lambda: velocities[-1] == Twist())
