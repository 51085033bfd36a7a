"""Sampling MPC: MPPI and CEM over a model that predicts many states at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError

Array = NDArray[np.float64]
Method = Literal["mppi", "cem"]
Questions = Generator[Array, Array, None]
"""Yields states with actions, float64[samples, n + m]; takes the states that follow, float64[samples, n]."""
Cost = Callable[[Array, Array], Array]
"""Costs, float64[samples], of states, float64[samples, n], and the actions that led there, [samples, m]."""

_LARGEST_COST = 1e100
"""Costs are scaled down to this before they are squared, which would overflow."""
_SMALLEST_DEVIATION = 0.02
"""Least share of the given deviation that CEM keeps, so that it continues to explore."""


@dataclass(frozen=True, eq=False)
class MpcSettings:
    """The settings of sampling, and of how samples become a plan."""

    low: Array
    """Least action, float64[m]."""
    high: Array
    """Greatest action, float64[m]."""
    deviation: Array
    """Standard deviation of the samples about the plan, float64[m], positive."""
    horizon: int = 25
    """Actions of a plan."""
    samples: int = 256
    """Action sequences of one iteration."""
    iterations: int = 2
    method: Method = "mppi"
    temperature: float = 0.05
    """Of MPPI: difference of costs, in units of their standard deviation, by which weights fall to 1/e.

    From 0.3 on, a plan is a mean of sequences that swing a pole up in different ways, and does so less well.
    """
    elites: float = 0.1
    """Of CEM: share of the samples that makes the next plan."""
    smoothing: float = 0.5
    """Correlation of the noise from one action to the next, 0 to below 1."""

    def __post_init__(self) -> None:
        """InputError for settings out of range."""
        if not self.low.ndim == 1 or not self.low.shape == self.high.shape == self.deviation.shape:
            raise InputError(
                "expected one least value, one greatest value and one deviation of each action; got "
                f"{self.low.size}, {self.high.size} and {self.deviation.size}"
            )
        if not (np.all(self.low < self.high) and np.all(self.deviation > 0)):
            raise InputError(
                "expected actions with low below high, and positive deviations; got "
                f"{self.low}, {self.high} and {self.deviation}"
            )
        if self.horizon < 1 or self.samples < 2 or self.iterations < 1:
            raise InputError(
                "expected a horizon and iterations of at least 1, and at least 2 samples; got "
                f"{self.horizon}, {self.iterations} and {self.samples}"
            )
        if not (self.temperature > 0 and 0 < self.elites <= 1 and 0 <= self.smoothing < 1):
            raise InputError(
                "expected a positive temperature, elites above 0 and up to 1, and smoothing of 0 to below 1; "
                f"got {self.temperature:g}, {self.elites:g} and {self.smoothing:g}"
            )


@dataclass(frozen=True)
class Decision:
    """The action of one period."""

    action: Array
    """float64[m]."""
    iterations: int
    """Completed iterations; 0: the previous plan continues."""
    cost: float
    """Lowest cost of the sequences tried; infinite if there was none."""


class SamplingMpc:
    """Keeps a plan, the mean of the samples, which is shifted by one action and improved in each period.

    A period is `begin`, then the questions of `solve` as far as time allows, then `decide`.
    """

    def __init__(self, settings: MpcSettings, cost: Cost, seed: int = 0) -> None:
        self.settings = settings
        self._cost = cost
        self._random = np.random.default_rng(seed)
        self.reset()

    def reset(self) -> None:
        """Forget the plan."""
        settings = self.settings
        middle = np.clip(0.0, settings.low, settings.high)
        self.plan = np.tile(middle, (settings.horizon, 1))
        """float64[horizon, m]."""
        self._deviation = np.tile(settings.deviation, (settings.horizon, 1))
        self._completed, self._lowest = 0, np.inf
        self._fresh = True
        self._continued = settings.horizon if middle.any() else 0
        """Periods since the plan was last improved. A first plan that is not zero counts as ended."""

    @property
    def has_ended(self) -> bool:
        """Whether all actions of the last improved plan have been used; the last one is then repeated."""
        return self._continued >= self.settings.horizon

    def begin(self) -> None:
        """Start the next period: drop the plan's first action and repeat its last one."""
        if not self._fresh:
            self.plan = np.concatenate([self.plan[1:], self.plan[-1:]])
        self._fresh = False
        self._continued += 1
        self._deviation[:] = self.settings.deviation
        self._completed, self._lowest = 0, np.inf

    def solve(self, state: ArrayLike) -> Questions:
        """Yield states and actions to predict, and improve the plan after each iteration.

        The caller may stop at any question; completed iterations count. InputError for a state that is not
        finite.
        """
        start = np.asarray(state, np.float64)
        if start.ndim != 1 or not np.all(np.isfinite(start)):
            raise InputError(f"expected a finite state; got {start}")
        for _ in range(self.settings.iterations):
            actions = self._sampled()
            states = np.tile(start, (self.settings.samples, 1))
            costs = np.zeros(self.settings.samples)
            for step in range(self.settings.horizon):
                states = yield np.concatenate([states, actions[:, step]], axis=1)
                costs = costs + self._cost(states, actions[:, step])
            # A cost of -inf, such as log(0), is none either: as the lowest it would leave the plan as it is.
            self._improve(actions, np.where(np.isfinite(costs), costs, np.inf))

    def decide(self) -> Decision:
        """Return the first action of the present plan."""
        return Decision(self.plan[0].copy(), self._completed, float(self._lowest))

    def _sampled(self) -> Array:
        """Sequences about the plan, which is the first of them, float64[samples, horizon, m]."""
        settings = self.settings
        noise = self._random.standard_normal((settings.samples, *self.plan.shape))
        kept, fresh = settings.smoothing, np.sqrt(1 - settings.smoothing**2)
        for step in range(1, settings.horizon):
            noise[:, step] = kept * noise[:, step - 1] + fresh * noise[:, step]
        noise[0] = 0.0
        return np.clip(self.plan + self._deviation * noise, settings.low, settings.high)

    def _improve(self, actions: Array, costs: Array) -> None:
        self._completed += 1
        self._lowest = min(self._lowest, float(costs.min()))
        if not np.isfinite(costs.min()):
            return
        self._continued = 0
        finite = np.isfinite(costs)
        if self.settings.method == "cem":
            self._take_elites(actions[finite], costs[finite])
        else:
            self._take_mean(actions[finite], costs[finite])

    def _take_mean(self, actions: Array, costs: Array) -> None:
        costs = costs / max(float(np.abs(costs).max()) / _LARGEST_COST, 1.0)
        spread = max(float(costs.std()), 1e-12)
        weights = np.exp(-(costs - costs.min()) / (self.settings.temperature * spread))
        self.plan = np.tensordot(weights / weights.sum(), actions, axes=1)

    def _take_elites(self, actions: Array, costs: Array) -> None:
        count = max(2, round(self.settings.elites * self.settings.samples))
        best = actions[np.argsort(costs)[:count]]
        self.plan = best.mean(axis=0)
        self._deviation = np.maximum(best.std(axis=0), _SMALLEST_DEVIATION * self.settings.deviation)


def solve_with(
    mpc: SamplingMpc,
    state: ArrayLike,
    predict: Callable[[Array], Array],
    *,
    deadline: float = np.inf,
    clock: Callable[[], float] = time.monotonic,
) -> Decision:
    """Run one period with a model that answers at once; no question is asked after the deadline.

    predict: the states that follow, float64[samples, n], of states with actions, [samples, n + m].
    """
    mpc.begin()
    questions = mpc.solve(state)
    try:
        question = next(questions)
        while clock() < deadline:
            question = questions.send(predict(question))
    except StopIteration:
        pass
    finally:
        questions.close()
    return mpc.decide()
