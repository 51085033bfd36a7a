"""The teacher of policies: what it shows, and whether a policy that learned from it turns to a target."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from edgetpu_control.learned.quantised_network import QuantisedNetwork, quantise
from edgetpu_control.learned.servo_teacher import PERIOD, SOURCES, lessons
from edgetpu_control.learned.train_policy import VISUAL_SERVO, main
from edgetpu_control.learned.training import TrainingPlan, train
from edgetpu_control.observation import parse_fields

DELAY = 3
"""Periods."""


@pytest.fixture(scope="module")
def policy() -> QuantisedNetwork:
    return quantise(train(*lessons(), TrainingPlan(epochs=10)), width=256)


def test_lessons_are_of_the_sources_that_it_names() -> None:
    observations, commands = lessons(500)
    assert [parse_fields(each).fields for each in SOURCES.split(";")] == [
        "bearing_x",
        "twist.twist.angular.z",
    ]
    assert observations.shape == commands.shape == (500, 2)
    # A target on the right, seen by a robot that hardly turns, is turned to by the right.
    aside = (observations[:, 0] > 0.2) & (np.abs(observations[:, 1]) < 0.1)
    assert np.all(commands[aside, 1] < 0)
    assert np.all(commands[:, 0] == 0)


def test_lessons_of_a_seed_are_the_same_again() -> None:
    assert all(np.array_equal(*pair) for pair in zip(lessons(200, 1), lessons(200, 1), strict=True))
    assert not np.array_equal(lessons(200, 1)[0], lessons(200, 2)[0])


@pytest.mark.parametrize("rate", [0.0, 0.12, -0.12])
def test_a_policy_in_8_bits_that_learned_from_it_follows_a_target(
    policy: QuantisedNetwork, rate: float
) -> None:
    turning = yaw = 0.0
    target, bearings = 0.4, []
    for _ in range(200):
        bearings.append(yaw - target)
        seen = bearings[max(len(bearings) - 1 - DELAY, 0)]
        wanted = float(policy.reference(np.array([[seen, turning]]))[0, 1])
        turning += (wanted - turning) * (1 - math.exp(-PERIOD / 0.1))
        yaw += turning * PERIOD
        target += rate * PERIOD
    assert np.abs(bearings[100:]).max() < math.radians(2)


def test_the_command_tells_the_observations_of_the_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([VISUAL_SERVO, str(tmp_path / "follow.npz"), "--epochs=1", "--hidden=8", "--width=8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("deviation from the teacher, relative to the RMS of its commands: always 0, ")
    layers = [line.partition(":")[0] for line in lines[1:3]]
    assert layers == ["error due to 8 bits in layer 1", "error due to 8 bits in layer 2"]
    assert lines[3] == f'parameter observations of the policy node: "{SOURCES}"'
