"""The simulated robot: when it takes images, and which velocities it obeys."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from drive.simulated_robot_node import SimulatedRobot
from drive.simulated_robot_topics import RobotTopics
from drive.worlds import robot_world as worlds
from drive.worlds.robot_world import World
from edgetpu_msgs.msg import Heading

needs_mujoco = pytest.mark.skipif(
    bool(worlds.renderer_problem()), reason=worlds.renderer_problem() or "MuJoCo renders here"
)


@needs_mujoco
def test_a_robot_takes_the_next_image_while_the_nodes_have_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    monkeypatch.setattr(World, "image", lambda _: events.append("take") or np.zeros((240, 320, 3), np.uint8))
    monkeypatch.setattr(RobotTopics, "publish_image", lambda *_: events.append("publish"))
    robot, world = SimulatedRobot("cmd_vel"), World(0, [])
    robot.watch(Heading, "heading")
    try:
        robot.enter(world)
        robot.real_time = True
        for _ in range(4):
            robot.advance()
    finally:
        robot.close()
        world.close()
    assert events == ["take", "take", "publish", "take", "publish", "take"]


@needs_mujoco
@pytest.mark.parametrize("real_time", [True, False])
def test_the_base_stops_half_a_second_after_the_last_velocity(
    monkeypatch: pytest.MonkeyPatch, real_time: bool
) -> None:
    monkeypatch.setattr(World, "image", lambda _: np.zeros((240, 320, 3), np.uint8))
    robot, world = SimulatedRobot("cmd_vel"), World(0, [])
    robot.real_time, robot.stalled = real_time, True
    obeyed = []
    try:
        robot.enter(world)
        robot.drive(0.5, 0.0)
        for _ in range(17):
            robot.advance()
            obeyed.append(robot.velocity)
    finally:
        robot.close()
        world.close()
    assert obeyed == [(0.5, 0.0)] * 16 + [(0.0, 0.0)]
