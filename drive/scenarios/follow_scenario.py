"""A robot that follows a moving lamp by turning towards it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from demo.processes import Process, as_parameter
from drive.scenario import Outcome, Scenario, values
from drive.simulated_robot_node import SimulatedRobot
from drive.suite_connection import DriveError
from drive.worlds.robot_world import CAMERA_X, PERIOD, Box, World
from edgetpu_control.learned.servo_teacher import SOURCES
from edgetpu_control.learned.train_policy import VISUAL_SERVO
from edgetpu_control.learned.train_policy import main as train_policy
from edgetpu_msgs.msg import ServoError
from measured_figures.row import Row

POLICY = Path(__file__).resolve().parents[2] / "build" / "drive" / "follow.npz"
"""File of the policy that FollowByPolicy trains."""
FINDING = 3.0
"""Time to turn to the lamp before the bearing counts, s."""
EVENING = 0.5
"""Brightness of the room: a lamp is the brightest thing in it."""
FOLLOWING = 10.0
"""Time in which the lamp is followed, s."""


class Follow(Scenario):
    """Turn towards a lamp that moves to and fro."""

    name = "follow"
    nodes: ClassVar[tuple[str, ...]] = ("spot_tracker", "visual_servo")
    watched = ((ServoError, "spot_tracker/servo_error"),)
    cmd_vel = "visual_servo/cmd_vel"
    parameters: ClassVar[dict[str, dict[str, str]]] = {"visual_servo": {"turn_gain": "3.0"}}
    steered_by: ClassVar[str] = ""
    """Suffix of the rows' case."""
    quantities = ("bearing of the lamp, deg", "turning, rad/s")

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Follow a lamp of 6 cm at a distance of 2 to 3 m that moves at up to 0.3 m/s."""
        random = np.random.default_rng(seed)
        lamp = Box(2.5, 0.0, 0.0, 0.03, 0.03, 0.06, True, (1.0, 1.0, 1.0), bottom=random.uniform(0.3, 0.7))
        world = World(seed, [lamp], brightness=EVENING)
        world.spot = 0
        robot.enter(world)
        distance, width = random.uniform(2.0, 3.0), random.uniform(0.3, 0.8)
        phase = random.uniform(0.0, 2 * math.pi)
        trace = []
        for tick in range(round((FINDING + FOLLOWING) / PERIOD)):
            side = width * math.sin(0.3 / width * tick * PERIOD + phase)
            world.move(0, distance, side)
            robot.advance()
            trace.append((tick * PERIOD, bearing_from(world, distance, side), robot.velocity[1]))
        world.close()
        bearings = [abs(bearing) for seconds, bearing, _ in trace if seconds > FINDING]
        return Outcome(seed, {"mean": float(np.mean(bearings)), "worst": max(bearings)}, tuple(trace))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the bearing errors of the lamp."""
        case = f"lamp that moves at 0.3 m/s{self.steered_by}, {len(outcomes)} worlds"
        means = values(outcomes, "mean")
        followed = 100 * float(np.mean(np.array(means) <= 2.0))
        return [
            Row("drive", case, "followed within 2 deg in the mean", followed, "%", 98.0, "higher"),
            Row("drive", case, "bearing, mean", float(np.mean(means)), "deg", 2.0, "lower"),
            Row("drive", case, "bearing, largest", max(values(outcomes, "worst")), "deg", None, "lower"),
        ]


class FollowByPolicy(Follow):
    """Turn towards a lamp by a policy on the stick that was trained by the visual servo."""

    name = "follow_policy"
    nodes = ("spot_tracker", "policy")
    cmd_vel = "policy/cmd_vel"
    steered_by = ", by a policy"
    parameters: ClassVar[dict[str, dict[str, str]]] = {
        "policy": {"policy": as_parameter(str(POLICY)), "twist": "true", "observations": SOURCES}
    }

    def start(self, processes: Sequence[Process], logs: Path) -> AbstractContextManager[Any]:
        """Train the policy, and start the nodes."""
        POLICY.parent.mkdir(parents=True, exist_ok=True)
        if train_policy([VISUAL_SERVO, str(POLICY)]) != 0:
            raise DriveError("no policy was trained")
        return super().start(processes, logs)


def bearing_from(world: World, x: float, y: float) -> float:
    """Direction from the camera to a position, left positive, degrees."""
    robot_x, robot_y, yaw = world.pose
    camera = robot_x + CAMERA_X * math.cos(yaw), robot_y + CAMERA_X * math.sin(yaw)
    direction = math.atan2(y - camera[1], x - camera[0]) - yaw
    return math.degrees(math.remainder(direction, 2 * math.pi))
