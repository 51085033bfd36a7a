"""A pole that is swung up by batch MPC."""

from __future__ import annotations

import math

import numpy as np

from drive.scenarios.mpc_scenario import Array, MpcScenario, States
from drive.worlds.cart_pole import PERIOD, STRONGEST, CartPole, transitions
from edgetpu_control.mpc.cost_expression import CostExpression
from edgetpu_control.mpc.sampling_mpc import MpcSettings

UP, UP_SECONDS = 0.95, 1.0
"""Cosine of the pole's angle from which it is up, and time for which it must be up at the end, s."""
COST = CostExpression.of_rows(
    "3 * (1 - cos(angle)) + 0.4 * x ** 2 + 0.02 * speed ** 2 + 0.02 * turning ** 2 + 0.001 * force ** 2 "
    "+ 100 * (abs(x) > 2.2)",
    ("x", "speed", "angle", "turning", "force"),
)


class SwingUp(MpcScenario):
    """Swing a pole up and keep it there; the world waits for each decision."""

    name = "swing_up"
    title = "cart-pole"
    quantities = ("angle of the pole, rad", "position of the cart, m")
    period, periods = PERIOD, 150
    states, angles = 4, (2,)
    # The horizon is a second, the time of a swing; the other values are the first that were tried (float64).
    mpc = MpcSettings(
        low=np.array([-STRONGEST]),
        high=np.array([STRONGEST]),
        deviation=np.array([0.5 * STRONGEST]),
        horizon=25,
        samples=128,
        iterations=2,
        temperature=0.05,
        smoothing=0.6,
    )

    def lessons(self, count: int, seed: int) -> tuple[Array, Array]:
        """Draw `count` states with forces, and the states that follow."""
        return transitions(count, seed)

    def system(self, seed: int) -> CartPole:
        """Return a pole that hangs, nearly at rest."""
        random = np.random.default_rng(seed)
        system = CartPole()
        system.put(np.array([random.uniform(-0.5, 0.5), 0.0, math.pi + random.uniform(-0.3, 0.3), 0.0]))
        return system

    def cost(self, states: Array, actions: Array) -> Array:
        """Costs of states and of the forces that led to them, float64[count]."""
        return COST(states, actions)

    def succeeded(self, states: States) -> bool:
        """Whether the pole was up during the whole last second."""
        return all(math.cos(state[2]) > UP for state in states[-round(UP_SECONDS / PERIOD) :])

    def ended(self, states: States) -> bool:
        """Whether the world ends here: never before its last period."""
        del states
        return False

    def shown(self, state: Array) -> tuple[float, ...]:
        """Return the angle of the pole and the position of the cart."""
        return float(state[2]), float(state[0])
