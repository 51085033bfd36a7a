"""A robot that finds a target, drives up to it, and follows it when it moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from vision_msgs.msg import Detection2DArray

from drive.scenario import Outcome, Scenario, share, values
from drive.scenarios.follow_scenario import EVENING, bearing_from
from drive.simulated_robot_node import SimulatedRobot
from drive.worlds.robot_world import CAMERA_X, FOCAL_LENGTH, PERIOD, WIDTH, Box, World
from edgetpu_msgs.msg import ServoError
from measured_figures.row import Row

LONGEST = 30.0
"""Time limit for finding a target and driving up to it, s."""
STANDSTILL = 0.02
"""Speed below which the robot counts as standing, m/s."""
SETTLED = 1.0
"""Time at rest at the right distance after which the target counts as reached, s."""
DISTANCE_ERROR = 0.1
"""Largest error of the distance at which the robot has arrived, as a share of the wanted distance."""
FOLLOWING = 8.0
"""Time in which the target moves, s."""
TARGET_SPEED = 0.2
"""Speed of the target, which moves away and to the side at the same time, m/s."""
Sample = tuple[float, ...]
"""One sample of a trace: time, s, and the quantities."""


class Dock(Scenario):
    """Turn until the target is in view, drive up to it by its apparent size, and follow it when it moves."""

    nodes = ("spot_tracker", "visual_servo")
    watched: ClassVar[tuple[tuple[type, str], ...]] = (
        (ServoError, "spot_tracker/servo_error"),
        (Detection2DArray, "spot_tracker/detections"),
    )
    cmd_vel = "visual_servo/cmd_vel"
    quantities: ClassVar[tuple[str, ...]] = (
        "bearing of the target, deg",
        "distance, m",
        "gap, m",
        "speed, m/s",
        "turning, rad/s",
    )
    radius: ClassVar[float]
    """Radius of the target, m."""
    distance: ClassVar[float]
    """Wanted distance from the camera to the target's centre, m."""
    color: ClassVar[tuple[float, float, float]]
    brightness: ClassVar[float]
    """Brightness of the room."""

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Find a target 1.5 to 3.5 m away in any direction."""
        random = np.random.default_rng(seed)
        furniture = [
            Box(5 * math.cos(a), 5 * math.sin(a), a, 0.3, 0.5, random.uniform(0.8, 2.2))
            for a in random.uniform(0, 2 * math.pi, 4)
        ]
        direction, away = random.uniform(-math.pi, math.pi), random.uniform(1.5, 3.5)
        height = random.uniform(0.12, 0.2)  # of its lower side: low enough for the robot to bump into it
        world = World(seed, [self.target(height), *furniture], brightness=self.brightness)
        path = _Path(away, direction, random.choice((-1.0, 1.0)))
        world.move(0, *path.at(0.0))
        world.spot = 0
        robot.enter(world)
        trace: list[Sample] = []
        seconds = self._approach(robot, path, trace)
        arrived = len(trace)
        if math.isfinite(seconds):
            ticks = range(round(FOLLOWING / PERIOD))
            trace += [self.step(robot, path.at(tick * PERIOD)) for tick in ticks]
        followed = np.array(trace[arrived:])
        figures = {
            "reached": float(math.isfinite(seconds)),
            "seconds": seconds,
            "collided": float(min(sample[3] for sample in trace) <= 0 or world.touched),
            "bearing": float(np.abs(followed[:, 1]).mean()) if len(followed) else math.nan,
            "distance_error": float(np.abs(followed[:, 2] - self.distance).mean())
            if len(followed)
            else math.nan,
        }
        world.close()
        return Outcome(seed, figures, tuple(trace))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the share of targets reached, and the errors while they moved."""
        case = f"{self.name}: find, drive up, follow at {TARGET_SPEED:g} m/s, {len(outcomes)} worlds"
        bearings = np.array(values(outcomes, "bearing"))
        within = 100 * float(np.mean(bearings <= 2.0))
        return [
            Row("drive", case, "reached", share(outcomes, "reached"), "%", 98.0, "higher"),
            Row("drive", case, "collisions", share(outcomes, "collided"), "%", 0.0, "lower"),
            Row("drive", case, "followed within 2 deg in the mean", within, "%", 98.0, "higher"),
            Row("drive", case, "bearing, mean", _mean(outcomes, "bearing"), "deg", 2.0, "lower"),
            Row(
                "drive",
                case,
                "distance while it moves, error",
                _mean(outcomes, "distance_error"),
                "m",
                None,
                "lower",
            ),
            Row("drive", case, "time to reach it", _mean(outcomes, "seconds"), "s", None, "lower"),
        ]

    def _approach(self, robot: SimulatedRobot, path: _Path, trace: list[Sample]) -> float:
        """Step until the robot has arrived; return the time it took, s, or inf after LONGEST."""
        still = 0
        for tick in range(round(LONGEST / PERIOD)):
            trace.append(self.step(robot, path.at(0.0)))
            _, bearing, distance, _, speed, _ = trace[-1]
            there = abs(distance / self.distance - 1) < DISTANCE_ERROR and abs(bearing) < 2.0
            still = still + 1 if there and abs(speed) < STANDSTILL else 0
            if still * PERIOD >= SETTLED:
                return tick * PERIOD
        return math.inf

    @staticmethod
    def step(robot: SimulatedRobot, target: tuple[float, float]) -> Sample:
        """Step with the target at a position, m; return the sample."""
        world = robot.world
        world.move(0, *target)
        robot.advance()
        x, y, yaw = world.pose
        distance = math.dist(target, (x + CAMERA_X * math.cos(yaw), y + CAMERA_X * math.sin(yaw)))
        return world.time, bearing_from(world, *target), distance, world.gap(0), *world.velocity

    def target(self, bottom: float) -> Box:
        """The target, with its lower side at the height `bottom`, m."""
        radius = self.radius
        return Box(0.0, 0.0, 0.0, radius, radius, 2 * radius, True, self.color, bottom, ball=True)


class _Path:
    """The path of a target that moves away and to the side."""

    def __init__(self, away: float, direction: float, side: float) -> None:
        self._away, self._direction, self._side = away, direction, side

    def at(self, seconds: float) -> tuple[float, float]:
        """Position, m, after the target has moved for `seconds`."""
        shift = TARGET_SPEED * math.sqrt(0.5) * seconds
        away, direction = self._away + shift, self._direction + self._side * shift / self._away
        return away * math.cos(direction), away * math.sin(direction)


def _mean(outcomes: Sequence[Outcome], name: str) -> float:
    found = [value for value in values(outcomes, name) if math.isfinite(value)]
    return float(np.mean(found)) if found else math.inf


def _size(radius: float, distance: float) -> str:
    """Width of a ball in the image as a share of the image's width, formatted as a parameter."""
    return f"{2 * radius / distance * FOCAL_LENGTH / WIDTH:.3f}"


def _parameters(radius: float, distance: float, color: str) -> dict[str, dict[str, str]]:
    return {
        "spot_tracker": {"color": color},
        "visual_servo": {
            "source": "spot",
            "turn_gain": "2.5",  # 1 / (4 lag) of this robot, see README
            "wanted_size": _size(radius, distance),
            "search_speed": "0.8",
            "approach_gain": "1.0",  # a bandwidth of 1 rad/s per m of distance
        },
    }


class DockAtBall(Dock):
    """Find a red ball, drive up to it, and follow it when it moves."""

    name = "dock_ball"
    radius, distance = 0.12, 0.8
    color, brightness = (0.85, 0.05, 0.05), 1.0
    parameters = _parameters(radius, distance, "red")


class DockAtLamp(Dock):
    """Find a lamp in the evening, drive up to it, and follow it when it moves."""

    name = "dock_lamp"
    radius, distance = 0.06, 0.5
    color, brightness = (1.0, 1.0, 1.0), EVENING
    parameters = _parameters(radius, distance, "''")
