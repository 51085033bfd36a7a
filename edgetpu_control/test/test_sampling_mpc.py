"""Sampling MPC on a cart without friction: plans, the warm start, deadlines; and learned dynamics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_control.learned.training import TrainingPlan
from edgetpu_control.mpc.learned_dynamics import LearnedDynamics
from edgetpu_control.mpc.sampling_mpc import Decision, MpcSettings, SamplingMpc, solve_with
from edgetpu_driver.errors import InputError

PERIOD = 0.1
SETTINGS = MpcSettings(
    low=np.array([-1.0]),
    high=np.array([1.0]),
    deviation=np.array([0.5]),
    horizon=10,
    samples=64,
    iterations=3,
)
Array = NDArray[np.float64]


def cart(questions: Array) -> Array:
    """Place and speed of a cart of 1 kg that is pushed for a period."""
    place, speed, force = questions.T
    return np.stack([place + PERIOD * speed, speed + PERIOD * force], axis=1)


def near_zero(states: Array, actions: Array) -> Array:
    return np.asarray(states[:, 0] ** 2 + 0.3 * states[:, 1] ** 2 + 1e-3 * actions[:, 0] ** 2)


def drive(mpc: SamplingMpc, periods: int, start: tuple[float, float]) -> Array:
    state = np.array(start)
    for _ in range(periods):
        decision = solve_with(mpc, state, cart)
        state = cart(np.concatenate([state, decision.action])[np.newaxis])[0]
    return state


@pytest.mark.parametrize("method", ["mppi", "cem"])
def test_brings_a_cart_to_rest(method: str) -> None:
    mpc = SamplingMpc(replace(SETTINGS, method=method, temperature=0.2), near_zero)  # type: ignore[arg-type]
    assert np.all(np.abs(drive(mpc, 80, (1.0, 0.0))) < 0.15)


def test_actions_stay_within_their_limits() -> None:
    decision = solve_with(SamplingMpc(SETTINGS, near_zero), [1e6, 0.0], cart)
    assert -1 <= decision.action[0] < 0


def test_the_same_seed_gives_the_same_action() -> None:
    first, second = (solve_with(SamplingMpc(SETTINGS, near_zero, seed=3), [1, 0], cart) for _ in range(2))
    assert first.action == second.action


class TestDeadline:
    """Each question takes a second by the clock of the test."""

    def solve(self, mpc: SamplingMpc, seconds: float) -> Decision:
        time = iter(range(1000))
        return solve_with(mpc, [1.0, 0.0], cart, deadline=seconds, clock=lambda: float(next(time)))

    @pytest.mark.parametrize(("seconds", "iterations"), [(0, 0), (9, 0), (10, 1), (25, 2), (1000, 3)])
    def test_iterations_that_were_completed_count(self, seconds: float, iterations: int) -> None:
        assert self.solve(SamplingMpc(SETTINGS, near_zero), seconds).iterations == iterations

    def test_without_any_the_plan_of_the_last_period_goes_on(self) -> None:
        mpc = SamplingMpc(SETTINGS, near_zero)
        self.solve(mpc, 1000)
        plan = mpc.plan.copy()
        decision = self.solve(mpc, 0)
        assert decision.action == plan[1]
        assert decision.cost == np.inf

    def test_after_a_reset_there_is_no_plan(self) -> None:
        mpc = SamplingMpc(SETTINGS, near_zero)
        self.solve(mpc, 1000)
        mpc.reset()
        assert self.solve(mpc, 0).action == 0


@pytest.mark.parametrize(("low", "ended"), [(-1.0, False), (0.5, True)])
def test_a_first_plan_that_would_move_the_robot_has_ended_before_it_is_improved(
    low: float, ended: bool
) -> None:
    mpc = SamplingMpc(replace(SETTINGS, low=np.array([low])), near_zero)
    mpc.begin()
    assert mpc.has_ended == ended
    solve_with(mpc, [1.0, 0.0], cart)
    assert not mpc.has_ended


@pytest.mark.parametrize("cost", [np.nan, np.inf, -np.inf])
def test_sequences_without_a_finite_cost_are_left_out(cost: float) -> None:
    def forbidden(states: Array, actions: Array) -> Array:
        return np.where(actions[:, 0] > 0, cost, near_zero(states, actions))

    mpc = SamplingMpc(replace(SETTINGS, horizon=1), forbidden)
    decision = solve_with(mpc, [-1.0, 0.0], cart)
    assert decision.action <= 0
    assert np.isfinite(decision.cost)


@pytest.mark.parametrize("method", ["mppi", "cem"])
def test_sequences_of_infinite_cost_are_left_out_even_if_few_others_remain(method: str) -> None:
    def narrow(states: Array, actions: Array) -> Array:
        return np.where(np.abs(actions[:, 0]) > 0.02, np.inf, near_zero(states, actions))

    mpc = SamplingMpc(replace(SETTINGS, horizon=1, iterations=1, method=method), narrow)  # type: ignore[arg-type]
    assert abs(solve_with(mpc, [1.0, 0.0], cart).action[0]) <= 0.02


def test_costs_whose_squares_overflow_make_a_plan_of_the_cheapest() -> None:
    def steep(_states: Array, actions: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(800 * actions[:, 0])

    mpc = SamplingMpc(replace(SETTINGS, horizon=1), steep)
    assert -1 <= solve_with(mpc, [1.0, 0.0], cart).action[0] < 0.4


def test_a_plan_stays_where_every_cost_is_infinite() -> None:
    mpc = SamplingMpc(SETTINGS, lambda states, _: np.full(len(states), np.inf))
    assert solve_with(mpc, [1.0, 0.0], cart).action == 0


def test_a_state_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match="expected a finite state"):
        solve_with(SamplingMpc(SETTINGS, near_zero), [np.nan, 0.0], cart)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"high": np.array([-1.0])}, "low below high"),
        ({"deviation": np.array([0.0])}, "positive deviations"),
        ({"low": np.array([0.0, 0.0])}, "one least value"),
        ({"samples": 1}, "at least 2 samples"),
        ({"horizon": 0}, "a horizon"),
        ({"temperature": 0.0}, "a positive temperature"),
        ({"smoothing": 1.0}, "smoothing"),
    ],
)
def test_settings_that_cannot_be_sampled_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(SETTINGS, **changes)  # type: ignore[arg-type]


class TestLearnedDynamics:
    def test_learns_how_a_cart_moves(self) -> None:
        questions = np.random.default_rng(0).uniform(-1, 1, (1000, 3))
        dynamics = LearnedDynamics(2)
        network = dynamics.learn(questions, cart(questions), TrainingPlan((16,), epochs=30))
        found = dynamics.predict(network, questions)
        assert np.abs(found - cart(questions)).mean() < 0.01  # changes are 0.05 in the mean

    def test_takes_angles_as_sine_and_cosine(self) -> None:
        inputs = LearnedDynamics(2, angles=(0,)).inputs(np.array([[np.pi / 2, 3.0, 4.0]]))
        assert inputs == pytest.approx(np.array([[3.0, 1.0, 0.0, 4.0]]))

    def test_learns_from_angles_that_end_at_half_a_turn(self) -> None:
        angles = np.random.default_rng(0).uniform(-np.pi, np.pi, 100)
        followed = (angles + 0.1 + np.pi) % (2 * np.pi) - np.pi
        questions = np.stack([angles, np.zeros(100)], axis=1)
        network = LearnedDynamics(1, angles=(0,)).learn(
            questions, followed[:, None], TrainingPlan((4,), epochs=1)
        )
        assert (network.outputs.low + network.outputs.high) / 2 == pytest.approx([0.1])

    def test_refuses_an_angle_that_is_no_state(self) -> None:
        with pytest.raises(InputError, match="expected angles of 0 to 1"):
            LearnedDynamics(2, angles=(2,))
