"""Following a ball in real time while the stick, the camera and the driver fail one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from demo.processes import Process
from drive.faulty_graph import FaultyGraph
from drive.scenario import Outcome, values
from drive.scenarios.dock_scenario import DISTANCE_ERROR, DockAtBall, Sample
from drive.simulated_robot_node import SimulatedRobot
from drive.worlds.robot_world import PERIOD, World
from measured_figures.row import Row

FAULTS = ("stick unplugged", "images stall", "driver killed")
FAULT_SECONDS = 3.0
"""Duration of a fault, after which a killed driver is started again, s."""
FOLLOWING = 3.0, 4.0
"""Range of the time for which the ball moves before a fault, s."""
BALL_SPEED = 0.2
"""Speed of the ball away from the robot, m/s."""
STILL = 0.05
"""Speed below which the robot is at rest, m/s. Its speed halves every 0.07 s, see robot_world.SPEED_GAIN."""
STOP = 0.3
"""Time after a fault within which the robot must be at rest, s."""
LONGEST = 30.0
"""Time after a fault within which the robot must be at the ball again, s; it includes a driver's start."""
BALL_START = 1.0
"""Position of the ball ahead of the robot at the start, m."""


class Faults(DockAtBall):
    """Follow a ball in real time while the stick, the camera and the driver fail one after the other."""

    name = "faults"
    quantities = (*DockAtBall.quantities, "commanded speed, m/s")
    parameters: ClassVar[dict[str, dict[str, str]]] = {
        **DockAtBall.parameters,
        # When a result is used, its image is 100 ms old: LATENCY, and a period for the node. One image may be
        # missing, a second one makes the servo brake. The base limits its force itself, so there is no ramp.
        "visual_servo": {
            **DockAtBall.parameters["visual_servo"],
            "timeout": "0.15",
            "search_speed": "0.0",
            "linear_acceleration": "10.0",
        },
    }

    def start(self, processes: Sequence[Process], logs: Path) -> FaultyGraph:
        """Start the nodes in a graph whose parts can be made to fail."""
        self._graph = FaultyGraph(processes, logs)
        return self._graph

    def run(self, robot: SimulatedRobot, seed: int) -> Outcome:
        """Cause each of FAULTS while the robot follows the ball."""
        random = np.random.default_rng(seed)
        world = World(seed, [self.target(0.15)])
        self._ball = BALL_START
        robot.enter(world)
        robot.real_time = True
        trace: list[Sample] = []
        figures: dict[str, float] = {}
        for fault in random.permutation(FAULTS).tolist():
            self._arrive(robot, trace)
            self._advance(robot, trace, random.uniform(*FOLLOWING), BALL_SPEED)
            figures[f"{fault}, speed"] = trace[-1][4]
            self._switch(robot, fault, fails=True)
            during = self._advance(robot, trace, FAULT_SECONDS, BALL_SPEED)
            figures[f"{fault}, ordered to stop"] = last_above(during, 6, 0.0)
            figures[f"{fault}, at rest"] = last_above(during, 4, STILL)
            self._switch(robot, fault, fails=False)
            figures[f"{fault}, back"] = self._arrive(robot, trace)
        figures["collided"] = float(world.touched or min(sample[3] for sample in trace) <= 0)
        robot.real_time = False
        world.close()
        return Outcome(seed, figures, tuple(trace))

    def rows(self, outcomes: Sequence[Outcome]) -> list[Row]:
        """Return how fast the robot stopped after each fault, and whether it continued."""
        rows = []
        for fault in FAULTS:
            case = f"{fault} for {FAULT_SECONDS:g} s, {len(outcomes)} worlds"
            rest, told, back = (
                np.array(values(outcomes, f"{fault}, {what}"))
                for what in ("at rest", "ordered to stop", "back")
            )
            stopped, went_on = (100 * float(np.mean(good)) for good in (rest <= STOP, np.isfinite(back)))
            rows += [
                Row("drive", case, f"at rest within {STOP:g} s", stopped, "%", 100.0, "higher"),
                Row("drive", case, "continues by itself", went_on, "%", 100.0, "higher"),
                Row("drive", case, "ordered to stop, at the latest", float(told.max()), "s", None, "lower"),
                Row("drive", case, "at rest, at the latest", float(rest.max()), "s", None, "lower"),
                Row("drive", case, "at the ball again, at the latest", float(back.max()), "s", None, "lower"),
            ]
        collided = 100 * float(np.mean(values(outcomes, "collided")))
        case = f"faults, {len(outcomes)} worlds"
        return [*rows, Row("drive", case, "collisions", collided, "%", 0.0, "lower")]

    def _switch(self, robot: SimulatedRobot, fault: str, *, fails: bool) -> None:
        """Start or end a fault."""
        if fault == "images stall":
            robot.stalled = fails
        elif fault == "stick unplugged":
            (self._graph.unplug if fails else self._graph.plug)()
        elif fails:
            self._graph.kill_driver(FAULT_SECONDS)

    def _advance(
        self, robot: SimulatedRobot, trace: list[Sample], seconds: float, speed: float
    ) -> list[Sample]:
        """Let the ball roll for `seconds` s at `speed` m/s; return the samples."""
        begin = len(trace)
        for _ in range(round(seconds / PERIOD)):
            self._ball += speed * PERIOD
            self._step(robot, trace)
        return trace[begin:]

    def _arrive(self, robot: SimulatedRobot, trace: list[Sample]) -> float:
        """Step until the robot is behind the resting ball; return the time it took, s; inf after LONGEST."""
        for tick in range(round(LONGEST / PERIOD)):
            self._step(robot, trace)
            there = abs(trace[-1][2] / self.distance - 1) < DISTANCE_ERROR and abs(trace[-1][1]) < 2.0
            if there and abs(trace[-1][4]) < STILL:
                return tick * PERIOD
        return math.inf

    def _step(self, robot: SimulatedRobot, trace: list[Sample]) -> None:
        self._graph.watch()
        trace.append((*self.step(robot, (self._ball, 0.0)), robot.velocity[0]))


def last_above(samples: Sequence[Sample], number: int, limit: float) -> float:
    """Time up to the last sample with |sample[number]| > limit, s; inf if that is the very last sample."""
    above = [tick for tick, sample in enumerate(samples, 1) if abs(sample[number]) > limit]
    if not above:
        return 0.0
    return math.inf if above[-1] == len(samples) else above[-1] * PERIOD
