"""How the compass distinguishes driving forward from turning by the growth of the picture."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_perception.algorithm import ImageInput
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.visual_compass.alignment_records import RotationAlignment, View
from edgetpu_perception.visual_compass.compass_features import compass_features
from edgetpu_perception.visual_compass.keyframes import Keyframe, KeyframeRule
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import to_vector
from edgetpu_perception.visual_compass.sideways_motion import SidewaysMotion
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from testdata.pictures.driving_camera import Room, Walls, weave
from testdata.pictures.turning_camera import CAMERA, degrees

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

AHEAD = np.array([0.0, 0.0, 1.0])


@pytest.fixture(name="engine", scope="module")
def _engine() -> CpuEngine:
    return CpuEngine(features.build())


def align(
    engine: CpuEngine, walls: Walls, moved: float, yaw: float, ahead: NDArray[np.float64] | None
) -> RotationAlignment:
    """The alignment of a view after a move and a turn, deg, to the one before."""
    reader = compass_features(ImageInput.of(engine.inputs), engine.outputs)
    aligner = RotationAligner(CAMERA, 64, 64, reader.grid)
    before, after = (
        View(reader.read(engine.run({"image": each[np.newaxis, :, :, np.newaxis]})))
        for each in (walls.photo(0.0), walls.photo(moved, yaw))
    )
    key = aligner.key(before)
    aligner.ahead = ahead
    return aligner.align(key, after, np.eye(3))


def turn(alignment: RotationAlignment) -> float:
    """To the left, deg."""
    return math.degrees(to_vector(alignment.rotation)[1])


def test_a_move_and_a_turn_are_told_apart(engine: CpuEngine) -> None:
    found = align(engine, Walls(), 0.04, 1.0, AHEAD)
    assert found.growth is not None
    assert turn(found) == pytest.approx(1.0, abs=0.1)
    assert found.growth.mean == pytest.approx(0.04, abs=0.004)
    assert abs(found.growth.mean - 0.04) < 4.0 * math.sqrt(found.growth.variance)


def test_a_camera_that_only_turns_finds_no_growth(engine: CpuEngine) -> None:
    assert align(engine, Walls(), 0.0, 1.0, None).growth is None


def test_each_part_of_the_picture_grows_by_its_distance(engine: CpuEngine) -> None:
    growth = align(engine, Walls(farther=3.0), 0.06, 0.0, AHEAD).growth
    assert growth is not None
    left, right = np.split(growth.blocks.reshape(4, 4), 2, axis=1)
    assert np.median(left) == pytest.approx(0.06, rel=0.3)
    assert np.median(right) < 0.6 * np.median(left)


def test_a_key_is_due_once_the_picture_has_grown_by_a_tenth(engine: CpuEngine) -> None:
    rule, little = KeyframeRule(math.inf), align(engine, Walls(), 0.05, 0.0, AHEAD)
    assert little.growth is not None
    much = dataclasses.replace(little, growth=dataclasses.replace(little.growth, mean=-0.11))
    keyframe = Keyframe(object(), 0.0, np.eye(3), np.zeros((3, 3)), similarity=0.1)  # type: ignore[arg-type]
    assert not rule.is_due(keyframe, 0.0, little)
    assert rule.is_due(keyframe, 0.0, much)


@pytest.mark.parametrize(
    ("looks_ahead", "seconds", "moves"),
    [(False, 0.6, False), (False, 1.5, True), (True, 0.1, False), (True, 0.6, True)],
)
def test_a_camera_moves_if_the_picture_grows_for_some_time(
    engine: CpuEngine, looks_ahead: bool, seconds: float, moves: bool
) -> None:
    reader = compass_features(ImageInput.of(engine.inputs), engine.outputs)
    walls, aligner = Walls(), RotationAligner(CAMERA, 64, 64, reader.grid)
    motion = SidewaysMotion(aligner, looks_ahead)

    def view(moved: float) -> View:
        return View(reader.read(engine.run({"image": walls.photo(moved)[np.newaxis, :, :, np.newaxis]})))

    keyframe = Keyframe(aligner.key(view(0.0)), 0.0, np.eye(3), np.zeros((3, 3)))
    for number in range(1, 21):
        stamp = 0.1 * number
        moved = 0.02 if 0.5 < stamp <= 0.5 + seconds else 0.0
        motion.update(aligner.align(keyframe.key, view(moved), np.eye(3)), keyframe, stamp)
    assert motion.moves(2.0) is moves


@pytest.mark.parametrize("tilt", [0.0, 15.0])
def test_a_robot_that_weaves_through_a_room_keeps_its_heading(tilt: float) -> None:
    room, down = Room(), math.radians(tilt)
    compass = VisualCompass(camera=CAMERA, up=(0.0, -math.cos(down), -math.sin(down)), looks_ahead=True)
    poses = weave(6.0, 15.0, 0.5, 10.0)
    results = [
        compass.update(room.photo(place, yaw, tilt), number / 15.0)
        for number, (place, yaw) in enumerate(poses)
    ]
    assert [result.valid for result in results[1:]] == [True] * (len(poses) - 1)
    error = degrees(results[1:], "yaw") - [yaw for _, yaw in poses[1:]]
    assert np.abs(error).max() < 1.0
