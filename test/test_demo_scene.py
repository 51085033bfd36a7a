"""The scene of the demo shows what its geometry says, and the truth next to it says the same."""

from __future__ import annotations

import json
import math
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("rosbags", reason="needs rosbags")

from demo.bag.recorded_truth import load_truth
from demo.errors import BagError
from demo.scene.scene_bag import write_scene
from demo.scene.scene_truth import truth_of
from edgetpu_dashboard.scene.scene import RAMP, Scene, camera_from_world, render

QUIET = Scene(frames=25, noise=0.0)
WHOLE = Scene()


Picture = NDArray[np.uint8]


@pytest.fixture(scope="module")
def quiet_pictures() -> list[Picture]:
    return list(render(QUIET))


def frame_at(time: float) -> int:
    return next(frame for frame in range(WHOLE.frames) if WHOLE.time(frame) >= time)


def test_turning_left_moves_what_is_ahead_to_the_right() -> None:
    right, down, ahead = camera_from_world(math.radians(30), 0.0) @ [0.0, 0.0, 1.0]
    assert (right, down, ahead) == pytest.approx((0.5, 0.0, math.sqrt(3) / 2))


def test_tilting_up_moves_what_is_ahead_down() -> None:
    right, down, ahead = camera_from_world(0.0, math.radians(30)) @ [0.0, 0.0, 1.0]
    assert (right, down, ahead) == pytest.approx((0.0, 0.5, math.sqrt(3) / 2))


def test_the_lamp_is_where_the_truth_says(quiet_pictures: list[Picture]) -> None:
    truth = truth_of(QUIET)["spot_tracker"]
    rows, columns = np.mgrid[: QUIET.height, : QUIET.width]
    for frame, picture in enumerate(quiet_pictures):
        red, green, _ = np.moveaxis(picture.astype(float), -1, 0)
        light = np.clip(red - green - 60.0, 0.0, None)
        x = (light * columns).sum() / light.sum() / QUIET.centre[0] - 1.0
        y = (light * rows).sum() / light.sum() / QUIET.centre[1] - 1.0
        assert (x, y) == pytest.approx((truth["x"][frame], truth["y"][frame]), abs=0.003)


def test_bearing_and_offset_are_the_same_direction() -> None:
    truth = truth_of(QUIET)["spot_tracker"]
    for x, bearing in zip(truth["x"], truth["bearing_x"], strict=True):
        assert x is not None
        assert bearing is not None
        assert x * QUIET.centre[0] / QUIET.focal_length == pytest.approx(math.tan(bearing))


def test_while_the_lamp_is_off_there_is_nothing_to_measure() -> None:
    scene = Scene(frames=3, rate=1.0, dark=(1.0, 2.0), noise=0.0)
    truth = truth_of(scene)["spot_tracker"]
    assert truth["valid"] == [True, False, True]
    assert truth["x"][1] is None
    assert [picture.max() > 200 for picture in render(scene)] == [True, False, True]


def test_the_lamp_and_the_poster_go_out_of_view_and_come_back() -> None:
    truth = truth_of(WHOLE)
    behind = frame_at(sum(WHOLE.turn) / 2)
    back = frame_at(WHOLE.turn[1] - 0.1)
    for node in ("spot_tracker", "pattern_tracker"):
        assert [truth[node]["valid"][frame] for frame in (0, behind, back)] == [True, False, True]


def test_the_pattern_is_found_where_the_truth_says(quiet_pictures: list[Picture]) -> None:
    truth = truth_of(QUIET)["pattern_tracker"]
    left, top, width, height = QUIET.pattern_box()
    pattern = quiet_pictures[0][top : top + height, left : left + width]
    for frame in (0, 8, 16):
        scores = cv2.matchTemplate(quiet_pictures[frame], pattern, cv2.TM_CCOEFF_NORMED)
        _, best, _, (column, row) = cv2.minMaxLoc(scores)
        assert best > 0.9
        found = (column + (width - 1) / 2, row + (height - 1) / 2)
        assert found == pytest.approx((truth["x"][frame], truth["y"][frame]), abs=1.5)


def test_the_camera_turns_once_about_itself() -> None:
    yaw = truth_of(WHOLE)["visual_compass"]["yaw"]
    assert yaw[frame_at(WHOLE.turn[0])] == pytest.approx(0.0, abs=1e-9)
    assert yaw[frame_at(sum(WHOLE.turn) / 2)] == pytest.approx(math.pi, abs=0.05)
    assert WHOLE.pose(WHOLE.turn[1]).yaw == pytest.approx(2 * math.pi)
    assert yaw[frame_at(WHOLE.drive)] is None  # not what a visual compass is made for


def test_flow_is_the_shift_between_two_pictures(quiet_pictures: list[Picture]) -> None:
    truth = truth_of(QUIET)["optical_flow"]
    pictures = [cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32) for picture in quiet_pictures]
    window = cv2.createHanningWindow((QUIET.width, QUIET.height), cv2.CV_32F)
    for frame in (1, 10, 20):
        shift, _ = cv2.phaseCorrelate(pictures[frame - 1], pictures[frame], window)
        assert shift == pytest.approx((truth["dx"][frame], truth["dy"][frame]), abs=0.3)


def test_time_to_contact_falls_by_the_time_that_passes() -> None:
    ttc = truth_of(WHOLE)["looming"]["ttc"]
    first = frame_at(WHOLE.drive + 2 * RAMP)
    assert ttc[first] is not None
    assert ttc[first + 30] == pytest.approx(float(ttc[first]) - 1.0)
    assert ttc[frame_at(WHOLE.drive) - 1] is None


def test_the_recording_pauses_before_the_drive() -> None:
    frame = frame_at(WHOLE.drive)
    assert WHOLE.stamp_ns(frame) - WHOLE.stamp_ns(frame - 1) == pytest.approx(1.5e9 + 1e9 / 30, abs=2)


def test_the_same_scene_is_rendered_twice_to_the_same_pixels() -> None:
    scene = Scene(frames=2)
    for first, second in zip(render(scene), render(scene), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_written_scene_brings_truth_and_pattern_and_replaces_an_older_one(tmp_path: Path) -> None:
    write_scene(tmp_path / "scene", Scene(frames=4))
    path = write_scene(tmp_path / "scene", Scene(frames=2))
    known = load_truth(path)
    assert set(known) == {"spot_tracker", "looming", "optical_flow", "visual_compass", "pattern_tracker"}
    assert known["spot_tracker"].stamps_ns == [Scene().stamp_ns(0), Scene().stamp_ns(1)]
    assert (
        known["spot_tracker"].at(Scene().stamp_ns(1), "x")
        == truth_of(Scene(frames=2))["spot_tracker"]["x"][1]
    )
    assert cv2.imread(str(path / "pattern.png")).shape == (60, 80, 3)
    assert json.loads((path / "truth.json").read_text())["looming"]["ttc"] == [None, None]


def test_a_folder_of_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(BagError, match=f"{tmp_path} contains other files; choose another OUTPUT"):
        write_scene(tmp_path, Scene(frames=2))
    assert (tmp_path / "thesis.txt").exists()
