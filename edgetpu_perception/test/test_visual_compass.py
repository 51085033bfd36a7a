from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_perception.graphs import band_pass_features as features
from edgetpu_perception.graphs import spot_evidence as spot
from edgetpu_perception.images.pinhole import CameraError, Pinhole
from edgetpu_perception.visual_compass.heading_filter_state import PossibleReturn
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass
from testdata import DATA, ModelFolder

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

FOCAL = 32 / math.tan(math.radians(75) / 2)
CAMERA = Pinhole(64, 64, FOCAL, FOCAL, 31.5, 31.5)
FRAME = 1 / 30
IMAGE = NDArray[np.uint8]


class World:
    """A picture on a sphere made of waves, with an exact grey level in every direction."""

    def __init__(self, camera: Pinhole = CAMERA, seed: int = 7, waves: int = 60) -> None:
        self.random = np.random.default_rng(seed)
        directions = self.random.normal(size=(3, waves))
        lengths = self.random.uniform(5, 35, waves)  # rad/rad: up to 10 px per wave
        self.waves = (directions / np.linalg.norm(directions, axis=0) * lengths).astype(np.float32)
        self.phases = self.random.uniform(0, 2 * math.pi, waves).astype(np.float32)
        y, x = np.mgrid[: camera.height, : camera.width]
        matrix = np.array([[camera.fx, 0, camera.cx], [0, camera.fy, camera.cy], [0, 0, 1]])
        pixels = np.stack([x, y], axis=-1).reshape(-1, 1, 2).astype(np.float64)
        distortion = np.array(camera.distortion or [0.0] * 4)
        criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 50, 1e-9)
        plane = cv2.undistortPointsIter(pixels, matrix, distortion, None, None, criteria)[:, 0]
        rays = np.column_stack([plane, np.ones(len(plane))])
        self.rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
        self.shape = (camera.height, camera.width)

    def image(self, yaw: float, pitch: float = 0.0, roll: float = 0.0, noise: float = 2.0) -> IMAGE:
        """Image of a camera turned left, then up, then clockwise about its axis, deg."""
        turns = ([0.0, -yaw, 0.0], [pitch, 0.0, 0.0], [0.0, 0.0, roll])
        left, up, around = (cv2.Rodrigues(np.radians(turn))[0] for turn in turns)
        rays = (self.rays @ (left @ up @ around).T).astype(np.float32)
        grey = 128 + 8 * np.cos(rays @ self.waves + self.phases).sum(axis=1).reshape(self.shape)
        return np.clip(np.rint(grey + self.random.normal(0, noise, grey.shape)), 0, 255).astype(np.uint8)


def play(
    yaws: Sequence[float],
    *,
    camera: Pinhole = CAMERA,
    compass: VisualCompass | None = None,
    times: Sequence[float] | None = None,
    pitch: Callable[[float], float] = lambda _: 0.0,
) -> list[HeadingResult]:
    """Results of a camera at these yaws, deg, one frame each."""
    world, compass = World(camera), compass or VisualCompass(camera=camera)
    times = np.arange(len(yaws)) * FRAME if times is None else times
    return [
        compass.update(world.image(yaw, pitch(time)), time) for yaw, time in zip(yaws, times, strict=True)
    ]


def degrees(results: Sequence[HeadingResult], name: str) -> NDArray[np.float64]:
    return np.degrees([getattr(result, name) for result in results])


def rms(errors: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def test_the_first_image_only_sets_the_reference() -> None:
    first, second = play([10, 11])
    assert not first.valid
    assert math.isnan(first.yaw)
    assert first.reference_stamp == 0.0
    assert second.valid
    assert (second.reference_stamp, second.previous_stamp) == (0.0, 0.0)


def test_yaw_counts_up_when_the_camera_turns_left() -> None:
    left, right = play([0, 1])[1], play([0, -1])[1]
    assert math.degrees(left.yaw) == pytest.approx(1, abs=0.05)
    assert math.degrees(right.yaw) == pytest.approx(-1, abs=0.05)
    assert math.degrees(left.yaw_rate) == pytest.approx(30, abs=1.5)
    # In the optical frame y points down, so turning left is negative about it.
    assert np.degrees(left.angular_velocity) == pytest.approx((0, -30, 0), abs=1.5)


@pytest.mark.parametrize("size", [96, 128])
def test_a_larger_input_is_at_the_same_scale(size: int) -> None:
    focal = 2 * FOCAL
    camera = Pinhole(128, 128, focal, focal, 63.5, 63.5)
    compass = VisualCompass(camera=camera, size=size)
    assert compass.model == features.name(size, size)
    results = play(range(9), camera=camera, compass=compass)[1:]
    assert degrees(results, "yaw") == pytest.approx(np.arange(1.0, 9.0), abs=0.05)


def test_pitch_and_roll_do_not_change_yaw() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    compass.update(world.image(0), 0.0)
    result = compass.update(world.image(0, pitch=1, roll=2), 0.1)
    assert math.degrees(result.yaw) == pytest.approx(0, abs=0.05)
    assert np.degrees(result.angular_velocity) == pytest.approx((10, 0, 20), abs=1)


@pytest.mark.parametrize("rate", [10, -90])
def test_rates_and_yaw_of_a_turn_are_right_to_a_fraction_of_a_degree(rate: int) -> None:
    yaws = rate * FRAME * np.arange(90)
    results = play(yaws.tolist(), pitch=lambda time: 2 * math.sin(time))[1:]
    errors = degrees(results, "yaw_rate") - rate
    assert all(result.valid for result in results)
    assert rms(errors) < 0.42
    assert rms(np.convolve(errors, np.full(5, 0.2), "valid")) < 0.16
    assert np.abs(degrees(results, "yaw") - yaws[1:]).max() < 0.2


def test_recognising_the_first_view_closes_a_full_turn() -> None:
    results = play(np.arange(0, 361, 3).tolist())
    assert abs(math.degrees(results[-8].yaw) - 339) < 0.25
    assert math.degrees(results[-1].yaw) == pytest.approx(360, abs=0.02)
    assert results[-1].yaw_sigma < 0.2 * results[-8].yaw_sigma


def test_standing_still_does_not_drift() -> None:
    yaw = degrees(play([33.0] * 200)[1:], "yaw")
    assert rms(yaw) < 0.015
    assert abs(yaw[-50:].mean() - yaw[:50].mean()) < 0.005


def test_turning_back_and_forth_does_not_drift() -> None:
    yaws = 25 * np.sin(np.arange(240) * FRAME * 2)
    errors = degrees(play(yaws.tolist())[1:], "yaw") - yaws[1:]
    assert np.abs(errors).max() < 0.07


def test_a_scene_that_changes_slowly_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object) -> None:
        raise AssertionError("expected no search for what is seen well enough")

    monkeypatch.setattr(RotationAligner, "search", search)
    before, after, compass = World(seed=7), World(seed=8), VisualCompass(camera=CAMERA)
    for index, share in enumerate(np.linspace(0, 1, 61)):
        mixed = (1 - share) * before.image(0) + share * after.image(0)
        result = compass.update(np.rint(mixed).astype(np.uint8), index * FRAME)
    assert result.valid
    assert math.degrees(result.yaw) == pytest.approx(0, abs=0.2)


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


def test_a_sudden_start_is_followed() -> None:
    yaws = [0.0] * 10 + [4.0 * step for step in range(1, 10)]
    assert degrees(play(yaws)[1:], "yaw") == pytest.approx(yaws[1:], abs=0.15)


def test_rates_of_a_swing_do_not_lag_behind_at_many_images_per_second() -> None:
    times = np.arange(300) / 100
    yaws = 60 / (2 * math.pi) * (1 - np.cos(2 * math.pi * times))  # up to 60 deg/s, once a second
    results = play(yaws, times=times)[1:]
    errors, sigmas = degrees(results, "yaw_rate") - np.diff(yaws) * 100, degrees(results, "yaw_rate_sigma")
    assert rms(errors) < 1.5
    assert np.mean(np.abs(errors) < sigmas) > 0.5


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


def test_a_known_view_that_was_discarded_while_it_was_being_recognised_does_no_harm() -> None:
    world, other, compass = World(), World(seed=8), VisualCompass(camera=CAMERA)
    for index in range(45):
        compass.update((world if index < 5 else other).image(0), index * FRAME)
    heading = compass._filter
    assert heading is not None
    discarded = replace(heading._keyframes.first)
    heading._possible_return = PossibleReturn(discarded, np.eye(3), agreeing_views=4)
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


def test_the_heading_of_a_walking_camera_is_that_of_its_own_orientation_track() -> None:
    table = np.loadtxt(DATA.path("compass/max-heromode_orientation.csv"), delimiter=",", skiprows=1)
    clip = cv2.VideoCapture(str(DATA.path("compass/max-heromode.mp4")))
    compass = VisualCompass(camera=Pinhole(848, 480, 411.4, 411.4, 423.5, 239.5))
    results = [compass.update(clip.read()[1][..., ::-1], time) for time in table[:315, 1]]
    assert all(result.valid for result in results[1:])
    errors = degrees(results[1:], "yaw") - (table[1:315, 14] - table[0, 14])
    assert rms(errors) < 0.75
    assert np.corrcoef(degrees(results[1:], "yaw"), table[1:315, 14])[0, 1] > 0.992


def test_sigmas_cover_68_percent_of_errors() -> None:
    yaws = np.arange(0, 180, 1.5)
    results = play(yaws.tolist())[1:]
    ratios = (degrees(results, "yaw_rate") - 45) / degrees(results, "yaw_rate_sigma")
    assert 0.55 < np.mean(np.abs(ratios) < 1) < 0.9
    covariance = np.reshape(results[-1].angular_velocity_covariance, (3, 3))
    assert covariance == pytest.approx(covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert results[-1].yaw_rate_sigma == pytest.approx(math.sqrt(covariance[1, 1]), rel=0.01)


@pytest.mark.parametrize(
    "camera",
    [
        Pinhole(64, 64, 45, 45, 28, 36, (-0.25, 0.06, 0.001, -0.001)),
        Pinhole(64, 64, 45, 45, 28, 36, (0.1, 0.02, 0, 0, 0, 0.3, 0.1, 0, 0.01, 0, 0.01, 0)),
        Pinhole(320, 240, 250, 250, 165, 118),
        Pinhole(96, 160, 120, 120, 47.5, 79.5),
    ],
    ids=["distorted", "thin prism", "large", "upright"],
)
def test_angles_come_from_the_camera(camera: Pinhole) -> None:
    yaws = [1.5 * index for index in range(16)]
    assert degrees(play(yaws, camera=camera)[1:], "yaw") == pytest.approx(yaws[1:], abs=0.15)


def test_a_tilted_camera_turns_about_the_given_vertical() -> None:
    tilt = math.radians(30)
    compass = VisualCompass(camera=CAMERA, up=(0.0, -math.cos(tilt), -math.sin(tilt)))
    yaws = [2.0 * index for index in range(20)]
    results = play(yaws, compass=compass, pitch=lambda _: -30.0)[1:]
    assert degrees(results, "yaw") == pytest.approx(yaws[1:], abs=0.2)


def test_reset_sets_yaw_to_zero_at_the_next_image() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    for index in range(3):
        compass.update(world.image(10 * index), index)
    compass.reset()
    assert not compass.update(world.image(20), 3.0).valid
    result = compass.update(world.image(21), 4.0)
    assert result.reference_stamp == 3.0
    assert math.degrees(result.yaw) == pytest.approx(1, abs=0.05)


def test_min_confidence_decides_what_is_valid() -> None:
    results = play([0, 1], compass=VisualCompass(camera=CAMERA, min_confidence=1.1))
    assert not results[1].valid
    assert results[1].confidence == 1.0


def test_the_same_images_give_the_same_numbers() -> None:
    assert play([0, 1, 2])[1:] == play([0, 1, 2])[1:]


def test_preprocess_and_postprocess_equal_update() -> None:
    world, whole, halves = World(), VisualCompass(camera=CAMERA), VisualCompass(camera=CAMERA)
    engine = CpuEngine(features.build())
    halves.bind(engine.inputs, engine.outputs)
    for index in range(3):
        image = world.image(index)
        frame = halves.preprocess(image, index)
        result = halves.postprocess(frame, engine.run(frame.inputs))
        assert repr(result) == repr(whole.update(image, index))


def test_a_larger_model_input_is_accepted() -> None:
    camera = replace(CAMERA, width=128, height=96, fx=90, fy=90, cx=63.5, cy=47.5)
    compass = VisualCompass(CpuEngine(features.build(96, 128)), camera)
    assert degrees(play([0, 1, 2], camera=camera, compass=compass)[1:], "yaw") == pytest.approx(
        [1, 2], abs=0.05
    )


@pytest.mark.parametrize(
    ("model", "rate_limit", "yaw_limit"),
    [("gabor_64x64_7k_4o_2s", 1.6, 0.4), ("gabor_64x64_p4", 20, 2)],
    ids=["whole", "pooled"],
)
def test_gabor_models_are_accepted(
    golden: ModelFolder, model: str, rate_limit: float, yaw_limit: float
) -> None:
    compass = VisualCompass(CpuEngine(golden.model(f"{model}.tflite")), CAMERA)
    yaws = np.arange(0, 40, 1.5)
    results = play(yaws.tolist(), compass=compass)[1:]
    assert all(result.valid for result in results)
    assert rms(degrees(results, "yaw_rate") - 45) < rate_limit
    assert np.abs(degrees(results, "yaw") - yaws[1:]).max() < yaw_limit


def test_another_model_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="expected an output"):
        VisualCompass(CpuEngine(spot.build()), CAMERA)


def test_without_intrinsics_of_the_images_size_there_is_no_angle() -> None:
    with pytest.raises(CameraError, match="there are none"):
        VisualCompass().update(World().image(0))
    with pytest.raises(CameraError, match="expected an image of 640x480 px"):
        VisualCompass(camera=replace(CAMERA, width=640, height=480)).update(World().image(0))


def test_a_result_before_the_intrinsics_is_not_valid() -> None:
    world, compass, engine = World(), VisualCompass(), CpuEngine(features.build())
    compass.bind(engine.inputs, engine.outputs)
    frame = compass.preprocess(world.image(0), 0.5)
    assert repr(compass.postprocess(frame, engine.run(frame.inputs))) == repr(HeadingResult(0.5, False, 0.0))
    compass.camera = CAMERA
    results = [
        compass.postprocess(frame, engine.run(frame.inputs)) for frame in (frame, replace(frame, stamp=1.0))
    ]
    assert [result.valid for result in results] == [False, True]


def test_another_camera_restarts() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    compass.update(world.image(0), 0.0)
    compass.update(world.image(1), 1.0)
    compass.camera = replace(CAMERA, fx=FOCAL + 1)
    assert not compass.update(world.image(2), 2.0).valid


def test_an_unchanged_image_has_a_small_sigma_above_zero() -> None:
    image, compass = World().image(0), VisualCompass(camera=CAMERA)
    compass.update(image, 0.0)
    result = compass.update(image, 0.1)
    assert result.yaw == pytest.approx(0, abs=1e-6)
    assert 0 < result.yaw_sigma < 1e-3


def test_an_up_without_a_direction_is_refused() -> None:
    with pytest.raises(CameraError, match="upward direction"):
        VisualCompass(camera=CAMERA, up=(0.0, 0.0, 0.0))


def test_importing_the_compass_does_not_import_litert() -> None:
    code = (
        "import sys, edgetpu_perception.visual_compass.visual_compass; "
        "sys.exit('ai_edge_litert' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
