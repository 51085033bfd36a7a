"""How far an object that cannot be distinguished from the scene may pull a heading."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest

from edgetpu_perception.visual_compass.alignment_records import RotationAlignment
from edgetpu_perception.visual_compass.moving_objects.point_agreement import PointAgreement
from edgetpu_perception.visual_compass.moving_objects.undetected_object import (
    EXPLAINED_SIGMAS,
    MEMORY_S,
    NO_PULL,
    PULL_OVER_DISAGREEMENT,
    ForegroundPull,
)

ABOUT_Y = np.array([0.0, 1.0, 0.0])
UNKNOWN: Any = None


def disagreement(sigma: float, noise: float = 1.0) -> RotationAlignment:
    """Blocks that disagree about y by this standard deviation, and noise that explains `noise` of it."""
    influence = np.zeros((3, 16))
    influence[1] = sigma / 4.0 * np.tile([1.0, -1.0], 8)
    agreement = PointAgreement(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, noise)
    nothing = cast(Any, np.zeros(0))
    return RotationAlignment(
        np.eye(3),
        influence,
        1.0,
        1.0,
        1.0,
        True,
        1.0,
        1.0,
        agreement,
        inside=nothing,
        normal=np.eye(4),
        certainty=1.0,
        stiffness=nothing,
    )


def test_blocks_that_disagree_by_no_more_than_noise_explains_show_no_pull() -> None:
    assert ForegroundPull(floor=0.0).pull(disagreement(EXPLAINED_SIGMAS), ABOUT_Y) == 0.0


def test_a_pull_is_a_multiple_of_the_disagreement_that_noise_does_not_explain() -> None:
    # 2.5^2 - 2^2 = 1.5^2
    pull = ForegroundPull(floor=0.0).pull(disagreement(2.5), ABOUT_Y)
    assert pull == pytest.approx(1.5 * PULL_OVER_DISAGREEMENT)


def test_features_explain_some_disagreement_without_noise() -> None:
    foreground = ForegroundPull(floor=1.0)
    assert foreground.pull(disagreement(2.0, noise=0.0), ABOUT_Y) == 0.0
    pull = foreground.pull(disagreement(2.5, noise=0.0), ABOUT_Y)
    assert pull == pytest.approx(1.5 * PULL_OVER_DISAGREEMENT)


def test_a_foreground_does_not_pass_for_noise() -> None:
    foreground = ForegroundPull(floor=0.0)
    assert foreground.pull(disagreement(2.5, noise=2.0), ABOUT_Y) == 0.0
    foreground.learn_noise(1.0, interval=0.1, is_quiet=True)
    pull = foreground.pull(disagreement(2.5, noise=2.0), ABOUT_Y)
    assert pull == pytest.approx(1.5 * PULL_OVER_DISAGREEMENT)


def test_the_noise_is_averaged() -> None:
    foreground = ForegroundPull(floor=0.0)
    foreground.learn_noise(0.5, interval=0.15, is_quiet=True)
    foreground.learn_noise(1.5, interval=0.15, is_quiet=True)
    assert foreground.noise == pytest.approx(1.0)


def test_what_moves_by_itself_only_adds_to_the_noise() -> None:
    foreground = ForegroundPull(floor=0.0)
    for noise in (0.5, 0.3, 2.0):
        foreground.learn_noise(noise, interval=0.1, is_quiet=False)
    assert foreground.noise == 0.3


def test_disagreement_about_another_axis_does_not_pull_the_heading() -> None:
    assert ForegroundPull(floor=0.0).pull(disagreement(9.0), np.array([0.0, 0.0, 1.0])) == 0.0


def test_pulls_of_one_foreground_are_added_up_not_their_variances() -> None:
    pulls = NO_PULL
    for k in range(4):
        pulls = pulls.after(0.1, 0.1 * k)
    assert math.sqrt(pulls.variance) == pytest.approx(0.4)


def test_pulls_of_two_foregrounds_are_independent() -> None:
    both = NO_PULL.after(0.3, 0.0).after(0.4, MEMORY_S + 0.1)
    assert math.sqrt(both.variance) == pytest.approx(0.5)


def test_pulls_of_what_is_fixed_are_added_up_however_slowly_the_camera_turns() -> None:
    pulls = NO_PULL.after_fixed(0.1).after(0.3, 10.0).after_fixed(0.3).after(0.0, 20.0)
    assert pulls.variance == pytest.approx(0.4**2 + 0.3**2)


def test_what_a_closed_loop_takes_away_is_taken_from_what_is_fixed_too() -> None:
    left = NO_PULL.after_fixed(0.4).less(0.75 * 0.16)
    assert left.after_fixed(0.1).variance == pytest.approx(0.3**2)


def test_nothing_is_added_where_nothing_pulls() -> None:
    pulls = NO_PULL.after(0.3, 0.0)
    assert pulls.after(0.0, 0.1) is pulls


def test_what_a_closed_loop_takes_away_is_taken_from_the_present_foreground_too() -> None:
    one_foreground = NO_PULL.after(0.3, 0.0).after(0.2, 0.1)
    left = one_foreground.less(0.75 * (0.25 - 0.09))
    assert left.variance == pytest.approx(0.09 + 0.25 * (0.25 - 0.09))
    assert left.present**2 == pytest.approx(left.variance)
    assert left.stamp == 0.1
