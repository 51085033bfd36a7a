"""Driving at walls, and past them, with the contact guard."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from geometry_msgs.msg import Twist
from std_srvs.srv import Trigger

from drive.scenario import Outcome, Scenario, share, values
from drive.simulated_robot_node import SimulatedRobot
from drive.worlds.robot_world import CAMERA_X, HEIGHT, HULL_RADIUS, PERIOD, WIDTH, Box, World
from edgetpu_msgs.msg import TimeToContact
from measured_figures.row import Row

GAP = 0.3
"""The guard's `gap`, m."""
SETTLING = 1.5
"""Time at rest in which the nodes adapt to a new world, s."""
LONGEST = 25.0
"""Time after which a drive ends, s."""
STANDSTILL = 0.01
"""Speed below which the robot counts as standing, m/s."""
GUARD_TIMEOUT = 0.25
"""The guard's `timeout`, after which it stops a robot without results, s."""
START = (-0.5, 0.0)
"""Position of the robot at the start, x and y, m."""
THICKNESS = 0.05
"""Half the thickness of a wall, m."""
NEAR = (0.35, 1.2)
"""Range of the distance from the robot's hull to a near wall, m."""
FARTHEST = 0.6
"""Largest gap that may remain from NEAR, m: a robot that never starts would also stop before contact."""
PASSED = 4.0
"""Distance driven past a wall, m."""


class _WithGuard(Scenario):
    nodes = ("looming", "contact_guard")
    watched = ((TimeToContact, "looming/time_to_contact"),)
    cmd_vel = "cmd_vel"
    parameters: ClassVar[dict[str, dict[str, str]]] = {
        "looming": {"roi": f"[{WIDTH // 8}, 0, {3 * WIDTH // 4}, {HEIGHT // 2}]"},  # without the floor
        "contact_guard": {
            "camera_to_hull": str(HULL_RADIUS - CAMERA_X),
            "gap": str(GAP),
            "timeout": str(GUARD_TIMEOUT),
        },
    }

    def _begin(self, robot: SimulatedRobot, world: World) -> None:
        """Enter another world and stand still until the nodes have adapted to it."""
        robot.enter(world)
        robot.call(Trigger, "contact_guard/release")
        for _ in range(round(SETTLING / PERIOD)):
            self._ask(robot, 0.0)

    @staticmethod
    def _ask(robot: SimulatedRobot, speed: float) -> None:
        """Request a speed, m/s, for one period."""
        wanted = Twist()
        wanted.linear.x = speed
        robot.publish("cmd_vel_in", wanted)
        robot.advance()


class _AtWall(_WithGuard):
    quantities = ("speed, m/s", "distance to the wall, m")

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Drive at 0.3 to 1 m/s at a wall with a slant of up to 40 degrees."""
        random = np.random.default_rng(seed)
        slant, speed = random.uniform(0, math.radians(40)) * random.choice((-1, 1)), random.uniform(0.3, 1.0)
        world = World(seed, [Box(self._ahead(random, slant), 0.0, slant, THICKNESS, 3.0)], start=START)
        self._begin(robot, world)
        trace, start, still = [], world.time, 0
        while world.time - start < LONGEST and still < 30 and not world.touched:
            self._ask(robot, speed)
            still = still + 1 if world.velocity[0] < STANDSTILL and world.time > start + 1 else 0
            trace.append((world.time - start, world.velocity[0], world.gap(0)))
        gap, touched = world.gap(0), world.touched
        world.close()
        figures = {"stopped": float(not touched and still >= 30), "gap": gap, "slant": slant, "speed": speed}
        return Outcome(seed, figures, tuple(trace))

    @abstractmethod
    def _ahead(self, random: np.random.Generator, slant: float) -> float:
        """Return the position of the wall along x, the robot's direction, m."""


class Wall(_AtWall):
    """Drive at a slanted wall; the guard must stop the robot before it."""

    name = "wall"

    def _ahead(self, random: np.random.Generator, slant: float) -> float:
        del slant
        return random.uniform(3.0, 4.5)

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the share of drives that stopped, and the remaining gap."""
        case = f"wall of 0 to 40 deg at 0.3 to 1 m/s, {len(outcomes)} worlds"
        errors = np.array(values(outcomes, "gap")) - GAP
        within = 100 * float(np.mean(np.abs(errors) <= 0.1))
        return [
            Row("drive", case, "stopped before contact", share(outcomes, "stopped"), "%", 100.0, "higher"),
            Row("drive", case, "gap of 0.3 m kept within 0.1 m", within, "%", 100.0, "higher"),
            Row("drive", case, "gap, median", float(np.median(errors)) + GAP, "m", None, "higher"),
            Row("drive", case, "gap, smallest", float(errors.min()) + GAP, "m", None, "higher"),
            Row("drive", case, "gap, largest", float(errors.max()) + GAP, "m", None, "lower"),
        ]


class NearWall(_AtWall):
    """Start close to a slanted wall at an unknown distance; the guard must stop the robot before it."""

    name = "near_wall"

    def _ahead(self, random: np.random.Generator, slant: float) -> float:
        from_centre = HULL_RADIUS + random.uniform(*NEAR)
        return START[0] + (from_centre + THICKNESS) / math.cos(slant)

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the share of drives that stopped, and the remaining gap."""
        case = f"starts {NEAR[0]:g} to {NEAR[1]:g} m from a wall, {len(outcomes)} worlds"
        gaps = values(outcomes, "gap")
        return [
            Row("drive", case, "stopped before contact", share(outcomes, "stopped"), "%", 100.0, "higher"),
            Row("drive", case, "gap, smallest", min(gaps), "m", None, "higher"),
            Row("drive", case, "gap, largest", max(gaps), "m", FARTHEST, "lower"),
        ]


class PassBy(_WithGuard):
    """Drive past a wall; the guard must not stop the robot.

    Where results are missing, as on an overloaded computer, the guard has to stop it; these stops are counted
    separately.
    """

    name = "pass_by"
    quantities = ("speed, m/s", "x, m")

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Drive PASSED metres along a wall, at a distance of 0.8 to 1.5 m."""
        random = np.random.default_rng(seed)
        aside, speed = random.uniform(0.8, 1.5) * random.choice((-1, 1)), random.uniform(0.3, 0.6)
        world = World(seed, [Box(-1.0, aside, math.pi / 2, THICKNESS, 3.0)], start=(-4.0, 0.0))
        self._begin(robot, world)
        trace, start, x0, was_moving = [], world.time, world.pose[0], False
        stops = {"stops": 0, "starved": 0}
        while world.time - start < LONGEST and world.pose[0] - x0 < PASSED:
            age = robot.results_age + PERIOD  # at the next tick, before the results of its image
            self._ask(robot, speed)
            moving = robot.velocity[0] > STANDSTILL
            if was_moving and not moving:
                stops["starved" if age > GUARD_TIMEOUT else "stops"] += 1
            was_moving = moving
            trace.append((world.time - start, world.velocity[0], world.pose[0]))
        figures = {name: float(count > 0) for name, count in stops.items()}
        figures["passed"] = float(world.pose[0] - x0 >= PASSED)
        world.close()
        return Outcome(seed, figures, tuple(trace))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return the share of drives with a false stop."""
        case = f"past a wall, {len(outcomes)} worlds"
        return [
            Row("drive", case, "drives with a false stop", share(outcomes, "stops"), "%", 1.0, "lower"),
            Row(
                "drive",
                case,
                "drives with a stop for lack of results",
                share(outcomes, "starved"),
                "%",
                None,
                "lower",
            ),
            Row("drive", case, f"{PASSED:g} m driven", share(outcomes, "passed"), "%", 100.0, "higher"),
        ]
