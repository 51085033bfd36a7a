from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.angular_velocity_filter import FIRST_VELOCITY_SIGMA, Motion

INTERVAL = 0.01
NOISE = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 8.0]]) * 1e-8
"""Covariance of a turn, rad^2: each orientation adds half."""


def measured(yaws: NDArray[np.float64], seed: int = 1) -> list[Motion]:
    """Motions after turns about y between orientations, rad, with noise of their own."""
    deviations = np.sqrt(NOISE.diagonal() / 2.0)
    noise = np.random.default_rng(seed).normal(0.0, deviations, (len(yaws), 3))
    turns = np.diff(noise + np.outer(yaws, [0.0, 1.0, 0.0]), axis=0)
    motion, motions = Motion.unknown(NOISE), []
    for turn in turns:
        motion = motion.after(turn, NOISE, INTERVAL)
        motions.append(motion)
    return motions


def test_the_first_turn_is_the_first_velocity() -> None:
    motion = Motion.unknown(NOISE).after(np.array([0.0, 0.01, 0.0]), NOISE, INTERVAL)
    assert motion.velocity == pytest.approx([0.0, 1.0, 0.0], abs=1e-3)
    assert motion.covariance(NOISE) == pytest.approx(NOISE / INTERVAL**2, rel=0.01)


def test_in_an_even_turn_the_noise_of_shared_views_cancels() -> None:
    motions = measured(0.5 * INTERVAL * np.arange(200))
    errors = [motion.velocity[1] - 0.5 for motion in motions[50:]]
    alone = np.sqrt(NOISE[1, 1]) / INTERVAL
    assert np.sqrt(np.mean(np.square(errors))) < 0.2 * alone


def test_the_velocity_of_a_swing_does_not_lag_behind() -> None:
    yaws = 0.1 * np.sin(2.0 * np.pi * INTERVAL * np.arange(300))
    motions = measured(yaws)
    errors = np.array([motion.velocity[1] for motion in motions]) - np.diff(yaws) / INTERVAL
    sigmas = np.sqrt([motion.covariance(NOISE)[1, 1] for motion in motions])
    alone = np.sqrt(NOISE[1, 1]) / INTERVAL
    assert np.sqrt(np.mean(np.square(errors[20:]))) < 0.6 * alone
    assert 0.6 < np.mean(np.abs(errors[20:]) < sigmas[20:]) < 0.85


def test_a_jolt_is_followed_at_once() -> None:
    yaws = np.concatenate((np.zeros(50), 0.02 * np.arange(1, 11)))
    assert measured(yaws)[49].velocity[1] == pytest.approx(2.0, abs=0.1)


def test_components_are_as_correlated_as_the_noise() -> None:
    motion = Motion.unknown(NOISE).after(np.zeros(3), NOISE, INTERVAL)
    assert motion.covariance(NOISE) / NOISE[1, 1] == pytest.approx(
        motion.covariance(NOISE)[1, 1] * NOISE / NOISE[1, 1] ** 2
    )


def test_an_axis_that_is_hardly_known_does_not_delay_the_others() -> None:
    noise = np.diag([1e-3, 2e-8, 8e-8])
    motion = Motion.unknown(noise)
    for rate in [0.0] * 50 + [1.0] * 5:
        motion = motion.after(np.array([0.0, rate * INTERVAL, 0.0]), noise, INTERVAL)
    assert motion.velocity[1] == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("gap", [5.1, 30.0, 1e3, 2e9])
def test_after_a_long_gap_the_velocity_is_the_mean_one_and_uncertain(gap: float) -> None:
    motion = measured(0.5 * INTERVAL * np.arange(50))[-1]
    motion = motion.after(np.array([0.0, 1.0, 0.0]), NOISE, gap)
    assert motion.velocity == pytest.approx([0.0, 1.0 / gap, 0.0])
    assert motion.covariance(NOISE)[1, 1] == pytest.approx(FIRST_VELOCITY_SIGMA**2)


def test_no_gap_makes_a_variance_negative() -> None:
    for gap in np.geomspace(1e-6, 1e6, 100):
        motion = Motion.unknown(NOISE)
        for interval in [INTERVAL] * 3 + [gap] + [INTERVAL] * 3:
            motion = motion.after(np.zeros(3), NOISE, interval)
            assert motion.covariance(NOISE)[1, 1] > 0.0
