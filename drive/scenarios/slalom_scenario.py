"""A robot that is steered through a slalom by batch MPC, on floors of unknown friction."""

from __future__ import annotations

import numpy as np

from drive.scenarios.mpc_scenario import Array, MpcScenario, States
from drive.worlds.slalom_course import (
    CLEARANCE,
    DRAGS,
    FASTEST,
    FASTEST_TURN,
    GOAL_X,
    PERIOD,
    POLES,
    SlalomCourse,
    transitions,
)
from edgetpu_control.mpc.sampling_mpc import MpcSettings

MARGIN = 0.1
"""Distance that the controller keeps in addition to CLEARANCE, m."""
SWING = 0.6
"""Largest distance of the wanted line from the line of the poles, m."""
_TOO_NEAR, _OFF_LINE = 20.0, 4.0
"""Cost per metre that a pole is too near, and per square metre of squared distance from the line."""


def line(x: Array) -> Array:
    """Return the wanted y, m, at x, m: a wave that passes every pole on its correct side."""
    return np.asarray(-SWING * np.cos(np.pi * x / POLES[0][0]))


def missed(states: Array) -> Array:
    """By how much states are nearer to poles than CLEARANCE + MARGIN, m: float64[count]."""
    lost = np.zeros(len(states))
    for x, y in POLES:
        lost += np.maximum(CLEARANCE + MARGIN - np.hypot(states[:, 0] - x, states[:, 1] - y), 0.0)
    return lost


class Slalom(MpcScenario):
    """Pass poles on the left and on the right in turn; the world waits for each decision."""

    name = "slalom"
    title = "slalom"
    quantities = ("x, m", "y, m")
    period, periods = PERIOD, 250
    states, angles = 5, (2,)
    mpc = MpcSettings(
        low=np.array([0.0, -FASTEST_TURN]),
        high=np.array([FASTEST, FASTEST_TURN]),
        deviation=np.array([0.5 * FASTEST, 0.5 * FASTEST_TURN]),
        horizon=25,
        samples=128,
        iterations=2,
        temperature=0.05,
        smoothing=0.8,
    )

    def lessons(self, count: int, seed: int) -> tuple[Array, Array]:
        """Draw `count` states with commands, and the states that follow, on floors of all kinds."""
        return transitions(count, seed)

    def system(self, seed: int) -> SlalomCourse:
        """Return the robot at the start, on a floor of its own."""
        random = np.random.default_rng(seed)
        course = SlalomCourse(random.uniform(*DRAGS))
        course.put(np.array([0.0, random.uniform(-0.3, 0.3), random.uniform(-0.3, 0.3), 0.0, 0.0]))
        return course

    def cost(self, states: Array, actions: Array) -> Array:
        """Costs, float64[count], of the remaining way, the distance from the line, and nearness to poles."""
        left = np.maximum(GOAL_X - states[:, 0], 0.0)
        aside = states[:, 1] - line(states[:, 0])
        return left + _OFF_LINE * aside**2 + _TOO_NEAR * missed(states) + 0.05 * actions[:, 1] ** 2

    def succeeded(self, states: States) -> bool:
        """Whether the end was reached, every pole was passed on its side, and none was touched."""
        path = np.array(states)[:, :2]
        for number, pole in enumerate(POLES):
            if np.any(np.hypot(*(path - pole).T) < CLEARANCE):
                return False
            beside = path[np.argmin(np.abs(path[:, 0] - pole[0])), 1] - pole[1]
            if beside * (1 - 2 * (number % 2)) < 0:
                return False
        return bool(path[-1, 0] >= GOAL_X)

    def ended(self, states: States) -> bool:
        """Whether the end of the course is reached."""
        return bool(states) and bool(states[-1][0] >= GOAL_X)

    def shown(self, state: Array) -> tuple[float, ...]:
        """Return the position."""
        return float(state[0]), float(state[1])
