"""The scene of the demo shows what its geometry says, and says so itself."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from demo.scene import Scene, camera_from_world, render, truth, write_scene
from demo.truth import load_truth
from edgetpu_perception import SpotTracker

QUIET = Scene(frames=25, noise=0.0)


def test_panning_left_moves_what_is_ahead_to_the_right() -> None:
    right, down, ahead = camera_from_world(math.radians(30), 0.0) @ [0.0, 0.0, 1.0]
    assert (right, down, ahead) == pytest.approx((0.5, 0.0, math.sqrt(3) / 2))


def test_tilting_up_moves_what_is_ahead_down() -> None:
    right, down, ahead = camera_from_world(0.0, math.radians(30)) @ [0.0, 0.0, 1.0]
    assert (right, down, ahead) == pytest.approx((0.0, 0.5, math.sqrt(3) / 2))


def test_the_beacon_is_where_the_truth_says() -> None:
    columns = truth(QUIET)
    rows, columns_of_pixels = np.mgrid[: QUIET.height, : QUIET.width]
    for frame, picture in enumerate(render(QUIET)):
        light = np.clip(picture.astype(float).mean(axis=-1) - 130.0, 0.0, None)
        x = (light * columns_of_pixels).sum() / light.sum() / QUIET.centre[0] - 1.0
        y = (light * rows).sum() / light.sum() / QUIET.centre[1] - 1.0
        assert (x, y) == pytest.approx((columns["x"][frame], columns["y"][frame]), abs=0.003)


def test_bearing_and_offset_are_the_same_direction() -> None:
    columns = truth(QUIET)
    for x, bearing in zip(columns["x"], columns["bearing_x"], strict=True):
        assert x is not None
        assert bearing is not None
        assert x * QUIET.centre[0] / QUIET.focal_length == pytest.approx(math.tan(bearing))


def test_while_the_beacon_is_off_there_is_nothing_to_measure() -> None:
    scene = Scene(frames=3, rate=1.0, dark=(1.0, 2.0), noise=0.0)
    assert truth(scene)["valid"] == [True, False, True]
    assert truth(scene)["x"][1] is None
    assert [picture.max() > 200 for picture in render(scene)] == [True, False, True]


def test_the_tracker_sees_the_beacon_in_every_picture_it_is_in() -> None:
    tracker = SpotTracker()
    seen = [tracker.update(picture, 0.0).valid for picture in render(Scene())]
    assert seen == truth(Scene())["valid"]


def test_the_same_scene_is_rendered_twice_to_the_same_pixels() -> None:
    scene = Scene(frames=2)
    for first, second in zip(render(scene), render(scene), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_written_scene_brings_its_truth_and_replaces_an_older_one(tmp_path: Path) -> None:
    write_scene(tmp_path / "scene", Scene(frames=4))
    path = write_scene(tmp_path / "scene", Scene(frames=2))
    known = load_truth(path)["spot_tracker"]
    assert known.stamps_ns == [Scene().stamp_ns(0), Scene().stamp_ns(1)]
    assert known.at(Scene().stamp_ns(1), "x") == truth(Scene(frames=2))["x"][1]
