"""How far a camera seems to turn because it moves before a wall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_perception.algorithm import ImageInput
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.visual_compass.alignment_records import View
from edgetpu_perception.visual_compass.compass_features import compass_features
from edgetpu_perception.visual_compass.keyframes import Keyframe, Keyframes
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import to_matrix
from edgetpu_perception.visual_compass.sideways_motion import SidewaysMotion
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from testdata.pictures.driving_camera import Walls
from testdata.pictures.turning_camera import CAMERA

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

VELOCITY = 0.015
"""Of a camera, distances of the wall in a second."""


class Flight:
    """Views of a wall, against keyframes, as the filter hands them on."""

    def __init__(self) -> None:
        self._wall, self._engine = Walls(noise=2.0), CpuEngine(features.build())
        self._reader = compass_features(ImageInput.of(self._engine.inputs), self._engine.outputs)
        self._aligner = RotationAligner(CAMERA, 64, 64, self._reader.grid)
        self.motion = SidewaysMotion(self._aligner)

    def keyframe(self, stamp: float, ahead: float = 0.0) -> Keyframe:
        """A keyframe made of a view at this time, s, and place."""
        key = self._aligner.key(self._view(ahead, 0.0))
        variance = self.motion.turn_variance
        return Keyframe(key, stamp, np.eye(3), np.zeros((3, 3)), sideways_variance=variance)

    def see(self, keyframe: Keyframe, stamp: float, ahead: float = 0.0, yaw: float = 0.0) -> None:
        """Hand on a view from this place at this yaw, deg."""
        guess = to_matrix(np.radians([0.0, yaw, 0.0]))
        alignment = self._aligner.align(keyframe.key, self._view(ahead, yaw), guess)
        self.motion.update(alignment, keyframe, stamp)

    def _view(self, ahead: float, yaw: float) -> View:
        photo = self._wall.photo(ahead, yaw)[np.newaxis, :, :, np.newaxis]
        return View(self._reader.read(self._engine.run({"image": photo})))


def times(seconds: float) -> Sequence[float]:
    """Ten in a second, without the first."""
    return [0.1 * number for number in range(1, round(10 * seconds) + 1)]


def test_a_camera_is_taken_to_move_sideways_as_fast_as_ahead() -> None:
    flight = Flight()
    first = flight.keyframe(0.0)
    for time in times(2.0):
        flight.see(first, time, VELOCITY * time)
    assert math.sqrt(flight.motion.rate_variance) == pytest.approx(VELOCITY, rel=0.25)


def test_a_camera_that_only_turns_does_not_move_sideways() -> None:
    flight = Flight()
    first = flight.keyframe(0.0)
    for time in times(1.0):
        flight.see(first, time, yaw=6.0 * time)
    assert (flight.motion.rate_variance, flight.motion.turn_variance) == (0.0, 0.0)


def test_the_apparent_turn_is_as_long_as_the_way_sideways() -> None:
    flight = Flight()
    first = flight.keyframe(0.0)
    for time in times(2.0):
        flight.see(first, time, VELOCITY * time)
    assert math.sqrt(flight.motion.turn_variance) == pytest.approx(2.0 * VELOCITY, rel=0.4)


def test_no_move_looks_like_a_roll() -> None:
    flight = Flight()
    flight.motion.rate_variance = 4.0
    assert flight.motion.rate_covariance.tolist() == np.diag([4.0, 4.0, 0.0]).tolist()


def test_the_apparent_turn_ends_where_an_earlier_view_is_seen_again() -> None:
    flight = Flight()
    first = flight.keyframe(0.0)
    for time in times(1.0):
        flight.see(first, time, VELOCITY * time)
    second = flight.keyframe(1.0, VELOCITY)
    for time in times(0.9):
        flight.see(second, 1.0 + time, VELOCITY * (1.0 - time))
    before = math.sqrt(flight.motion.turn_variance)
    flight.see(first, 2.0, 0.0)
    assert math.sqrt(flight.motion.turn_variance) < 0.5 * before


def test_a_closed_loop_leaves_a_share_of_the_apparent_turn() -> None:
    key: Any = None
    first = Keyframe(key, 0.0, np.eye(3), np.zeros((3, 3)))
    later = Keyframe(key, 1.0, np.eye(3), np.eye(3), sideways_variance=0.4, parent=first)
    keyframes = Keyframes()
    for each in (first, later):
        keyframes.add(each)
    keyframes.close_loop(np.eye(3), later, 3.0, first, 0.0)
    assert (first.sideways_variance, later.sideways_variance) == (0.0, 0.2)


def test_sigmas_contain_the_turn_that_a_move_looks_like() -> None:
    wall, compass = Walls(noise=2.0), VisualCompass(camera=CAMERA)
    result = [compass.update(wall.photo(VELOCITY * time), time) for time in [0.0, *times(2.0)]][-1]
    assert result.yaw_rate_sigma == pytest.approx(VELOCITY, rel=0.25)
    assert result.yaw_sigma == pytest.approx(2.0 * VELOCITY, rel=0.4)


@pytest.mark.parametrize("velocity", [0.03, 0.1])
def test_a_compass_stays_valid_while_it_moves_ahead(velocity: float) -> None:
    wall, compass = Walls(noise=2.0), VisualCompass(camera=CAMERA)
    results = [compass.update(wall.photo(velocity * time), time) for time in [0.0, *times(2.0)]]
    assert [result.valid for result in results[1:]] == [True] * 20
    assert abs(results[-1].yaw) < 2.0 * results[-1].yaw_sigma
