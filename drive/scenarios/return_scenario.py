"""A poster is shown once from home; the robot is moved away and drives back by the poster's appearance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from drive.scenario import Outcome, Scenario, share, values
from drive.scenarios.follow_scenario import bearing_from
from drive.scenarios.template_from_camera import PATCH, set_template
from drive.simulated_robot_node import SimulatedRobot
from drive.worlds.robot_world import FOCAL_LENGTH, HEIGHT, PERIOD, WIDTH, Box, World
from edgetpu_msgs.msg import PatternMatch
from measured_figures.row import Row

DISTANCE = 2.0
"""Distance from home to the poster, m."""
HEADING_ERROR, POSITION_ERROR = 2.0, 0.05
"""Largest errors of heading, degrees, and position, m, with which the robot counts as being back."""
TURNED = 2 * HEADING_ERROR, 15.0
"""Least and largest angle by which the robot is turned away, degrees.

At 15 degrees a flat poster looks 1 / cos^2 = 7 % wider.
"""
MOVED = (-1.5, -2 * POSITION_ERROR), (2 * POSITION_ERROR, 0.8)
"""Ranges by which the robot is moved back or forward, m: the poster looks 0.57 to 1.67 times as large."""
LONGEST = 15.0
"""Time limit of the way back, s."""


class Return(Scenario):
    """Drive back to where a template was shown once, by its direction and apparent size."""

    name = "return"
    nodes = ("pattern_tracker", "visual_servo")
    watched: ClassVar[tuple[tuple[type, str], ...]] = ((PatternMatch, "pattern_tracker/match"),)
    cmd_vel = "visual_servo/cmd_vel"
    parameters: ClassVar[dict[str, dict[str, str]]] = {
        "visual_servo": {
            "source": "match",
            "turn_gain": "2.5",  # as in dock_scenario
            "wanted_size": f"{PATCH[0] / WIDTH:.3f}",
            "size_deadband": "0.01",
            "approach_gain": "2.0",  # a bandwidth of 1 rad/s at DISTANCE
        },
    }
    quantities = ("bearing of the poster, deg", "position error, m")

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Show the poster, move the robot, and let it drive back."""
        random = np.random.default_rng(seed)
        width, height = PATCH[0] / FOCAL_LENGTH * DISTANCE, PATCH[1] / FOCAL_LENGTH * DISTANCE
        poster = Box(DISTANCE + 0.02, 0.0, 0.0, 0.02, width / 2, height, bottom=0.35 - height / 2)
        world = World(seed, [poster])
        robot.enter(world)
        shown = set_template(robot, world.image(), (WIDTH - PATCH[0]) // 2, (HEIGHT - PATCH[1]) // 2)
        turned = random.choice((-1.0, 1.0)) * random.uniform(*TURNED)
        moved = random.uniform(*MOVED[random.integers(len(MOVED))])
        world.put(moved, 0.0, math.radians(turned))
        robot.enter(world)
        trace, seen = [], 0
        for tick in range(round(LONGEST / PERIOD)):
            robot.advance()
            seen += robot.results["pattern_tracker/match"].valid
            x, y, _ = world.pose
            trace.append((tick * PERIOD, bearing_from(world, DISTANCE, 0.0), math.hypot(x, y)))
        heading, position = abs(math.degrees(world.pose[2])), trace[-1][2]
        away = [
            tick
            for tick, (_, bearing, error) in enumerate(trace)
            if abs(bearing) > HEADING_ERROR or error > POSITION_ERROR
        ]
        figures = {
            "shown": float(shown),
            "turned": turned,
            "moved": moved,
            "seen": seen / len(trace),
            "heading_error": heading,
            "position_error": position,
            "faced": float(heading <= HEADING_ERROR),
            "reached": float(heading <= HEADING_ERROR and position <= POSITION_ERROR),
            "seconds": (away[-1] + 1) * PERIOD,
            "collided": float(world.touched),
        }
        world.close()
        return Outcome(seed, figures, tuple(trace))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the share of robots that came back, and their errors."""
        case = (
            f"template shown once, {TURNED[0]:g} to {TURNED[1]:g} deg and {MOVED[1][0]:g} to "
            f"{-MOVED[0][0]:g} m away, {len(outcomes)} worlds"
        )
        heading = float(np.mean(values(outcomes, "heading_error")))
        position = float(np.mean(values(outcomes, "position_error")))
        seconds = float(np.mean(values(outcomes, "seconds")))
        return [
            Row("drive", case, "reached", share(outcomes, "reached"), "%", 95.0, "higher"),
            Row("drive", case, "turned back", share(outcomes, "faced"), "%", None, "higher"),
            Row("drive", case, "heading error, mean", heading, "deg", None, "lower"),
            Row("drive", case, "position error, mean", position, "m", None, "lower"),
            Row("drive", case, "time to be back", seconds, "s", None, "lower"),
            Row("drive", case, "collisions", share(outcomes, "collided"), "%", 0.0, "lower"),
        ]
