"""Turns controlled by the visual compass, with people walking through the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Float64
from std_srvs.srv import Trigger

from drive.scenario import Outcome, Scenario, values
from drive.simulated_robot_node import SimulatedRobot
from drive.worlds.robot_world import PERIOD, Box, World
from edgetpu_msgs.msg import Heading
from measured_figures.row import Row

ANGLES = (90, 180, 360, -90, -180, -360)
"""Angles of the turns, degrees; worlds take them in turn."""
SETTLING = 1.5
"""Time at rest before a turn, s."""
HOLDING = 3.0
"""Time for which the heading is held after a turn and after a push, s."""
SLOWEST_TURN = 0.6
"""Slowest rate of a turn, rad/s; a turn that would need more time has failed."""
PUSH = 2.0
"""Rate of a push to either side, rad/s; the robot would turn by 14 degrees before its motors stop it."""
PEOPLE = 2
WALKING_SPEED = 1.0
"""Speed of the people, m/s."""


class Turn(Scenario):
    """Turn by an angle and hold the heading, also after a push, while people walk around the robot."""

    name = "turn"
    nodes = ("visual_compass", "heading_hold")
    watched = ((Heading, "visual_compass/heading"),)
    cmd_vel = "heading_hold/cmd_vel"
    quantities = ("true yaw, rad", "yaw of the compass, rad")

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Turn in the world of this seed and hold the heading after a push."""
        random = np.random.default_rng(seed)
        furniture = [
            Box(4 * math.cos(a), 4 * math.sin(a), a, 0.3, 0.5, random.uniform(0.8, 2.2))
            for a in random.uniform(0, 2 * math.pi, 4)
        ]
        people = [Box(0.0, 3.0, 0.0, 0.15, 0.25, 1.7, moves=True)] * PEOPLE
        world = World(seed, [*furniture, *people])
        paths = random.uniform(-1.0, 1.0, (PEOPLE, 2))
        robot.enter(world)
        robot.call(Trigger, "heading_hold/release")
        robot.call(Trigger, "visual_compass/reset_heading")
        self._advance(robot, paths, SETTLING)
        angle = math.radians(ANGLES[seed % len(ANGLES)])
        before = world.pose[2]
        robot.publish("heading_hold/turn_by", Float64(data=angle))
        trace = self._advance(robot, paths, abs(angle) / SLOWEST_TURN + HOLDING)
        error = math.degrees(world.pose[2] - before - angle)
        world.push(PUSH * random.choice((-1.0, 1.0)))
        after_push = self._advance(robot, paths, HOLDING)
        pushed = [math.degrees(sample[1] - before - angle) for sample in after_push]
        world.close()
        figures = {
            "error": error,
            "angle": math.degrees(angle),
            "pushed by": max(map(abs, pushed)),
            "error after push": pushed[-1],
        }
        return Outcome(seed, figures, (*trace, *after_push))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the errors of the heading after the turns and after the pushes."""
        errors = np.abs(values(outcomes, "error"))
        case = f"turns of 90, 180, 360 deg, {PEOPLE} people in view, {len(outcomes)} worlds"
        within, held = (
            100 * float(np.mean(np.abs(values(outcomes, name)) <= 1.0))
            for name in ("error", "error after push")
        )
        pushed = f"pushed at {PUSH:g} rad/s, {PEOPLE} people in view, {len(outcomes)} worlds"
        return [
            Row("drive", pushed, "held within 1 deg", held, "%", 95.0, "higher"),
            Row(
                "drive",
                pushed,
                "turned aside, at most",
                max(values(outcomes, "pushed by")),
                "deg",
                None,
                "lower",
            ),
            Row("drive", case, "within 1 deg", within, "%", 95.0, "higher"),
            Row("drive", case, "error, median", float(np.median(errors)), "deg", None, "lower"),
            Row("drive", case, "error, largest", float(errors.max()), "deg", None, "lower"),
        ]

    @staticmethod
    def _advance(
        robot: SimulatedRobot, paths: NDArray[np.float64], seconds: float
    ) -> list[tuple[float, ...]]:
        """Let people walk for `seconds`; return the trace. paths: phase and distance, [people, 2]."""
        trace: list[tuple[float, ...]] = []
        for _ in range(round(seconds / PERIOD)):
            for person, (phase, side) in enumerate(paths):
                # They walk back and forth on a circle around the robot.
                distance = 2.5 + 0.5 * side
                angle = math.pi * (phase + math.sin(WALKING_SPEED / distance * robot.world.time + 3 * side))
                robot.world.move(person, distance * math.cos(angle), distance * math.sin(angle))
            robot.advance()
            heading = robot.results.get("visual_compass/heading")
            seen = heading.yaw if heading is not None else math.nan
            trace.append((robot.world.time, robot.world.pose[2], seen))
        return trace
