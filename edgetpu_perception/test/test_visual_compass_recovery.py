"""The compass where the picture misleads it: objects, gaps, jumps in time, lost views."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from edgetpu_perception.visual_compass.loop_closure import PossibleReturn
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from testdata.pictures.turning_camera import CAMERA, FRAME, IMAGE, World, degrees, play

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


def test_a_scene_that_changes_slowly_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object) -> None:
        raise AssertionError("expected no search for what is seen well enough")

    before, after, compass = World(seed=7), World(seed=8), VisualCompass(camera=CAMERA)
    for index, share in enumerate(np.linspace(0, 1, 61)):
        if index == 2:  # the first comparison of all is made twice
            monkeypatch.setattr(RotationAligner, "search", search)
            monkeypatch.setattr(RotationAligner, "guesses", search)
        mixed = (1 - share) * before.image(0) + share * after.image(0)
        result = compass.update(np.rint(mixed).astype(np.uint8), index * FRAME)
    assert result.valid
    assert math.degrees(result.yaw) == pytest.approx(0, abs=0.2)


@pytest.mark.parametrize("turn", [3.0, 5.0])
def test_the_road_does_not_hide_the_first_turn_of_a_car(turn: float) -> None:
    scene, road, compass = World(seed=7), World(seed=8), VisualCompass(camera=CAMERA)
    # In a curve the road moves along with the car: it stands still in the picture, and is rich in contrast.
    standing = np.clip(128 + 2.0 * (road.image(0, noise=0) - 128.0), 0, 255)
    yaws = []
    for number in range(3):
        image = scene.image(turn * number)
        image[40:] = standing[40:]
        yaws.append(math.degrees(compass.update(image, 0.1 * number).yaw))
    assert yaws[1:] == pytest.approx([turn, 2 * turn], abs=0.1)


@pytest.mark.parametrize("still", [0.0, 1.0])
@pytest.mark.parametrize("top", [44, 52])
def test_a_robot_that_sees_parts_of_itself_knows_how_far_it_turns(still: float, top: int) -> None:
    scene, robot, compass = World(seed=7), World(seed=8), VisualCompass(camera=CAMERA)
    own = np.clip(128 + 2.0 * (robot.image(0, noise=0) - 128.0), 0, 255)
    for number in range(90):
        yaw = max(number * FRAME - still, 0.0) * 20.0
        image = scene.image(yaw)
        image[top:] = own[top:]
        result = compass.update(image, number * FRAME)
    assert result.valid
    assert math.degrees(result.yaw) == pytest.approx(yaw, abs=0.3)


def with_object(image: IMAGE, columns: slice) -> IMAGE:
    """The image with a striped object of high contrast in front, 48 px high."""
    crossed = image.copy()
    stripes = np.where(np.arange(columns.stop - columns.start) // 3 % 2, 20, 235)
    crossed[8:56, columns] = stripes + 15 * (np.arange(48)[:, np.newaxis] // 4 % 2)
    return crossed


@pytest.mark.parametrize("rate", [0, 45])
def test_an_object_that_crosses_is_not_followed(rate: int) -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    for index in range(30):
        left = 2 * index
        image = with_object(world.image(rate * index * FRAME), slice(left, min(left + 12, 64)))
        result = compass.update(image, index * FRAME)
        assert result.valid or index == 0
    assert math.degrees(result.yaw) == pytest.approx(rate * index * FRAME, abs=0.15)


def test_bars_beside_the_picture_do_not_hold_the_heading() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    for index in range(20):
        barred = world.image(45 * index * FRAME)
        barred[:, :10] = barred[:, -10:] = 0
        result = compass.update(barred, index * FRAME)
    assert math.degrees(result.yaw) == pytest.approx(45 * 19 * FRAME, abs=0.15)


def test_an_image_that_is_sent_twice_while_the_camera_turns_is_not_valid() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    images = [world.image(60 * index * FRAME) for index in range(21)]
    for index, image in enumerate(images):
        compass.update(image, index * FRAME)
    assert not compass.update(images[20], 21 * FRAME).valid
    after = compass.update(world.image(60 * 22 * FRAME), 22 * FRAME)
    assert after.previous_stamp == 20 * FRAME
    assert math.degrees(after.yaw) == pytest.approx(60 * 22 * FRAME, abs=0.15)
    assert math.degrees(after.yaw_rate) == pytest.approx(60, abs=1.5)


def test_an_image_that_is_sent_again_and_again_shows_a_camera_that_stands_still() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    images = [world.image(60 * index * FRAME) for index in range(21)]
    for index in range(50):
        result = compass.update(images[min(index, 20)], index * FRAME)
    assert result.valid
    assert math.degrees(result.yaw) == pytest.approx(60 * 20 * FRAME, abs=0.15)


def test_an_object_with_most_of_the_visible_texture_is_no_jolt_of_the_camera() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    errors = []
    for index in range(44):
        dim = np.rint(128 + 0.2 * (world.image(90 * index * FRAME, noise=0) - 128.0)).astype(np.uint8)
        left = 76 - 2 * index
        if index > 5:
            dim = with_checks(dim, left, 27)
        noisy = np.clip(dim + world.random.normal(0, 2, dim.shape), 0, 255).astype(np.uint8)
        errors.append(math.degrees(compass.update(noisy, index * FRAME).yaw) - 90 * index * FRAME)
    assert np.nanmax(np.abs(errors)) < 0.5
    assert np.isfinite(errors[1:20]).all()


def test_the_course_is_found_again_after_a_thing_with_more_texture_was_followed() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    for index in range(80):
        dim = np.rint(128 + 0.3 * (world.image(60 * index * FRAME, noise=0) - 128.0)).astype(np.uint8)
        if index > 5:
            dim = with_checks(dim, 75 - index, 15)
        noisy = np.clip(dim + world.random.normal(0, 2, dim.shape), 0, 255).astype(np.uint8)
        result = compass.update(noisy, index * FRAME)
    assert math.degrees(result.yaw) == pytest.approx(60 * index * FRAME, abs=1.0)
    assert math.degrees(result.yaw_sigma) > 0.5


def with_checks(image: IMAGE, left: int, width: int) -> IMAGE:
    """The image with random checks of high contrast in front, 48 px high, clipped."""
    crossed = image.copy()
    checks = np.random.default_rng(3).choice([20, 235], (12, width // 3 + 1)).repeat(4, 0).repeat(3, 1)
    begin, end = max(left, 0), min(left + width, 64)
    if begin < end:
        crossed[8:56, begin:end] = checks[:, begin - left : end - left]
    return crossed


def test_the_sigma_grows_when_a_part_of_the_picture_disagrees() -> None:
    def sigma(hidden: int) -> float:
        world, compass = World(), VisualCompass(camera=CAMERA)
        compass.update(world.image(0), 0.0)
        image = world.image(0)
        image[:, :hidden] = World(seed=8).image(0)[:, :hidden]
        return compass.update(image, FRAME).yaw_sigma

    assert sigma(24) > 1.3 * sigma(0)


def test_dropped_frames_are_a_gap_in_time_and_not_in_yaw() -> None:
    kept = [0, 1, 2, 3, 4, 5, 6, 14, 15, 16, 28, 29, 30]
    results = play([float(index) for index in kept], times=[index * FRAME for index in kept])[1:]
    assert degrees(results, "yaw") == pytest.approx(kept[1:], abs=0.15)
    assert degrees(results, "yaw_rate") == pytest.approx([30] * len(results), abs=1.5)
    assert [result.previous_stamp for result in results] == [index * FRAME for index in kept[:-1]]


def test_a_late_frame_is_ignored() -> None:
    results = play([0, 1, 2, 1, 3], times=[0.0, 0.1, 0.2, 0.1, 0.3])
    assert [result.valid for result in results] == [False, True, True, False, True]
    assert math.degrees(results[4].yaw) == pytest.approx(3, abs=0.05)
    assert math.degrees(results[4].yaw_rate) == pytest.approx(10, abs=0.5)


def test_a_jump_back_in_time_restarts() -> None:
    results = play([0, 1, 2, 2, 3], times=[50.0, 50.1, 50.2, 1.0, 1.1])
    assert not results[3].valid
    assert results[4].reference_stamp == 1.0
    assert math.degrees(results[4].yaw) == pytest.approx(1, abs=0.05)


def test_a_jump_back_in_time_forgets_how_the_camera_turned() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    for index in range(40):
        compass.update(world.image(-30 * index * FRAME), 1e5 + index * FRAME)
    for index in range(50):
        image = world.image(10 * index * FRAME)
        if 20 <= index < 45:
            left = 2 * (index - 20)
            image = with_object(image, slice(left, left + 12))
        result = compass.update(image, index * FRAME)
    assert math.degrees(result.yaw) == pytest.approx(10 * 49 * FRAME, abs=0.3)


def test_playing_a_short_bag_again_restarts() -> None:
    times = [index * FRAME for index in range(12)]
    results = play([*range(12), *range(12)], times=[*times, *times])
    again = [result for result in results[12:] if result.valid]
    assert len(again) == 7
    assert again[-1].reference_stamp == times[4]
    assert math.degrees(again[-1].yaw) == pytest.approx(7, abs=0.1)


def test_images_without_stamps_never_restart() -> None:
    results = play([0, 1, 2, 2, 2, 2, 2, 2, 3], times=[0.0, 0.1, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3])
    assert results[-1].reference_stamp == 0.0
    assert math.degrees(results[-1].yaw) == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize("what", ["black", "noise", "elsewhere"])
def test_an_unrelated_view_is_not_valid_and_does_not_change_the_heading(what: str) -> None:
    world, other, compass = World(), World(seed=8), VisualCompass(camera=CAMERA)
    strange = {
        "black": lambda: np.zeros((64, 64), np.uint8),
        "noise": lambda: world.random.integers(0, 255, (64, 64)).astype(np.uint8),
        "elsewhere": lambda: other.image(0),
    }[what]
    for index in range(5):
        compass.update(world.image(0), index * FRAME)
    strangers = [compass.update(strange(), index * FRAME) for index in range(5, 25)]
    assert not any(result.valid for result in strangers)
    assert all(math.isnan(result.yaw) and math.isnan(result.yaw_rate) for result in strangers)
    back = compass.update(world.image(2), 25 * FRAME)
    assert math.degrees(back.yaw) == pytest.approx(2, abs=0.05)


def test_a_scene_that_looks_the_same_all_around_is_not_valid() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    world.waves[[0, 2]] = 0  # brightness depends on the elevation only, as at sea
    for index in range(20):
        result = compass.update(world.image(30 * index * FRAME, noise=0.5), index * FRAME)
        assert not result.valid


def test_after_a_long_loss_the_heading_continues_with_a_large_sigma() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    for index in range(5):
        compass.update(world.image(0), index * FRAME)
    other = World(seed=8)
    results = [compass.update(other.image(0), index * FRAME) for index in range(5, 45)]
    assert results[-1].valid
    assert results[-1].yaw_sigma > 0.5
    # Where the old world is back, so is what was known of it.
    result = compass.update(world.image(3), 50 * FRAME)
    assert math.degrees(result.yaw) == pytest.approx(3, abs=0.1)
    assert result.yaw_sigma < 0.01


def test_a_known_view_that_was_discarded_while_it_was_being_recognised_has_no_effect() -> None:
    world, other, compass = World(), World(seed=8), VisualCompass(camera=CAMERA)
    for index in range(45):
        compass.update((world if index < 5 else other).image(0), index * FRAME)
    heading = compass._tracker
    assert heading is not None
    discarded = replace(heading._keyframes.first)
    heading._closure._possible_return = PossibleReturn(discarded, np.eye(3), agreeing_views=4)
    result = compass.update(world.image(3), 50 * FRAME)
    assert math.degrees(result.yaw) == pytest.approx(3, abs=0.1)


def test_past_a_blank_wall_the_turn_is_extrapolated_until_a_known_view_corrects_it() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    yaws = np.arange(0, 370, 3)
    wall = (yaws > 60) & (yaws < 110)
    results = []
    for index, (yaw, blank) in enumerate(zip(yaws, wall, strict=True)):
        image = world.random.normal(128, 2, (64, 64)).astype(np.uint8) if blank else world.image(yaw)
        results.append(compass.update(image, index * FRAME))
    errors, sigmas = degrees(results, "yaw") - yaws, degrees(results, "yaw_sigma")
    assert not any(result.valid for result, blank in zip(results, wall, strict=True) if blank)
    after = np.flatnonzero(yaws == 300)[0]
    assert abs(errors[after]) < 2  # deg: one frame's rate, carried on over 17 frames
    assert 20 < sigmas[after] < 60
    assert abs(errors[-1]) < 0.05
    assert sigmas[-1] < 0.1


def test_an_image_sent_again_where_a_known_view_was_recognised_tells_nothing() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    yaws = [*range(0, 40, 4), *range(40, 0, -4)]
    for index, yaw in enumerate(yaws):
        image = world.image(yaw)
        assert compass.update(image, index * FRAME).valid or index == 0
        heading = compass._tracker
        assert heading is not None
        assert heading._last is not None
        if index > 10 and heading._last.pose.keyframe is heading._keyframes.first:
            break
    assert not compass.update(image, (index + 1) * FRAME).valid
