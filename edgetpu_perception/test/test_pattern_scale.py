"""A pattern is found smaller and larger than it was cut out, with its size, and followed as that changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import cv2
import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.region import WHOLE, Region
from edgetpu_perception.algorithm import Frame, ImageInput
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult, PatternTracker
from edgetpu_perception.pattern_tracker.scale_search import ScaleSearch, scale_of
from testdata.pictures.patterns import Image, pixels, texture

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

SCENE = texture(1, side=960, blur=8.0)[:720]
"""Larger than what the camera sees of it."""
WIDTH, HEIGHT = 640, 480
SCANNED = 8
"""Scales from a half to two, beside that of the template."""


@cache
def seen(scale: float) -> Image:
    """What the camera sees with the middle of the scene at its own middle."""
    matrix = np.array(
        [
            [scale, 0.0, (WIDTH - 1) / 2 - scale * (960 - 1) / 2],
            [0.0, scale, (HEIGHT - 1) / 2 - scale * (720 - 1) / 2],
        ]
    )
    source = SCENE.astype(np.float32)
    return pixels(cv2.warpAffine(source, matrix, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REFLECT))


@pytest.fixture
def make_tracker() -> Callable[..., PatternTracker]:
    """Makes a tracker of the patch in the middle, 160x120 px, a little to the right."""

    def make(**options: float) -> PatternTracker:
        tracker = PatternTracker(**options)
        view = seen(1.0)
        assert tracker.set_template(view[180:300, 270:430], view=view).accepted
        return tracker

    return make


def centre(scale: float) -> tuple[float, float]:
    """Of that patch, px of the image."""
    return 319.5 + 30 * scale, 239.5


def look(tracker: PatternTracker, scale: float, images: int) -> MatchResult:
    return [tracker.update(seen(scale)) for _ in range(images)][-1]


@pytest.mark.parametrize("scale", [0.52, 0.7, 0.85, 1.3, 1.6, 1.9])
def test_a_pattern_of_another_size_is_found_with_its_size(
    make_tracker: Callable[..., PatternTracker], scale: float
) -> None:
    found = look(make_tracker(), scale, SCANNED + 1)
    assert found.valid
    assert (found.x, found.y) == pytest.approx(centre(scale), abs=0.5)
    assert found.scale == pytest.approx(scale, rel=0.01)
    assert (found.width, found.height) == pytest.approx((160 * found.scale, 120 * found.scale))
    assert abs(found.scale - scale) < 3 * found.scale_sigma
    assert found.scale_sigma < 0.01


def test_what_the_model_finds_stretched_is_looked_for_at_that_scale_at_once(
    make_tracker: Callable[..., PatternTracker],
) -> None:
    assert not make_tracker(scale_range=1.0).update(seen(1.25)).valid
    assert make_tracker().update(seen(1.25)).scale == pytest.approx(1.25, rel=0.01)


def test_a_pattern_that_grows_is_followed_in_every_image(
    make_tracker: Callable[..., PatternTracker],
) -> None:
    tracker = make_tracker()
    for scale in np.geomspace(1.0, 1.9, 24).tolist():
        found = tracker.update(seen(scale))
        assert found.valid
        assert found.scale == pytest.approx(scale, rel=0.02)


def test_a_pattern_that_comes_back_to_its_size_is_found_by_the_model_again(
    make_tracker: Callable[..., PatternTracker],
) -> None:
    tracker = make_tracker()
    look(tracker, 1.5, SCANNED)
    engine = CpuEngine(pattern.build(weights=tracker.weights))
    tracker.bind(engine.inputs, engine.outputs)
    frame = tracker.preprocess(seen(1.0))
    nothing = {name: np.zeros_like(output) for name, output in engine.run(frame.inputs).items()}
    assert not tracker.postprocess(frame, nothing).valid  # 1.5 is not there, and the model sees nothing
    assert tracker.postprocess(frame, engine.run(frame.inputs)).scale == pytest.approx(1.0, rel=0.01)


def test_another_model_of_the_same_size_does_not_forget_the_scale(
    make_tracker: Callable[..., PatternTracker],
) -> None:
    tracker = make_tracker()
    look(tracker, 1.6, SCANNED)
    engine = CpuEngine(pattern.build(weights=tracker.weights))
    tracker.bind(engine.inputs, engine.outputs)
    frame = tracker.preprocess(seen(1.6))
    assert tracker.postprocess(frame, engine.run(frame.inputs)).valid


def test_with_a_range_of_1_only_the_template_s_own_size_is_found(
    make_tracker: Callable[..., PatternTracker],
) -> None:
    tracker = make_tracker(scale_range=1.0)
    assert tracker.update(seen(1.03)).scale == pytest.approx(1.03, rel=0.01)
    assert not look(tracker, 1.6, SCANNED + 1).valid


def test_a_scale_is_compared_with_all_those_that_are_looked_for() -> None:
    scales = ScaleSearch((64, 64), (16, 16), 2.0, region_scale=1.0)
    region = replace(frame(640, 480), region=Region(160, 120, 320, 240))
    assert [scales.excess(scale, frame(640, 480)) for scale in (0.51, 1.0, 1.99)] == [0.0, 0.0, 0.0]
    assert scales.excess(2.2, frame(640, 480)) == pytest.approx(math.log(1.1))
    assert scales.excess(0.4, frame(640, 480)) == pytest.approx(math.log(1.25))
    assert scales.excess(3.9, region) == 0.0


def test_with_a_range_of_1_the_model_s_own_scale_is_looked_for_too() -> None:
    scales = ScaleSearch((64, 64), (16, 16), 1.0)
    assert scales.excess(1.25, frame(640, 480)) == pytest.approx(math.log(1.25))
    assert scales.excess(0.8, frame(640, 480)) == pytest.approx(math.log(1.25))
    assert scales.excess(1.0, frame(640, 480)) == 0.0


def test_in_an_image_of_the_model_s_size_nothing_smaller_is_looked_for() -> None:
    scales = ScaleSearch((64, 64), (16, 16), 2.0)
    sizes = set()
    for _ in range(SCANNED):
        scales.lost()
        sizes.add(scales.next(frame(64, 64)))
    assert sizes == {(54, 54), (45, 45), (38, 38), (32, 32)}


def test_a_lost_template_is_looked_for_near_its_last_scale_first() -> None:
    scales = ScaleSearch((64, 64), (16, 16), 2.0)
    scales.found(1.6, frame(640, 480))
    assert scales.tracked(frame(640, 480)) == (40, 40)
    scales.lost()
    assert scales.tracked(frame(640, 480)) is None
    order = []
    for _ in range(SCANNED):
        order.append(scales.next(frame(640, 480)))
        scales.lost()
    assert order[:3] == [(45, 45), (32, 32), (54, 54)]  # 1.68 is what has just been tried
    assert len(set(order)) == SCANNED


@pytest.mark.parametrize(
    "region", [Region(160, 120, 320, 240), Region(209, 119, 280, 210), Region(0, 0, 560, 420)]
)
def test_in_another_region_a_pattern_is_found_at_once_with_the_same_size(
    make_tracker: Callable[..., PatternTracker], region: Region
) -> None:
    tracker = make_tracker()
    tracker.update(seen(1.0))
    tracker.region = region
    result = tracker.update(seen(1.0))
    assert (result.x, result.y) == pytest.approx(centre(1.0), abs=1.0)
    assert (result.width, result.height) == pytest.approx((160, 120), rel=0.02)
    assert result.scale == pytest.approx(1.0, rel=0.02)


def test_in_a_region_of_another_shape_a_pattern_keeps_its_own(
    make_tracker: Callable[..., PatternTracker],
) -> None:
    tracker = make_tracker()
    tracker.region = Region(140, 60, 420, 360)
    result = [tracker.update(seen(1.0), stamp) for stamp in np.arange(SCANNED + 1) / 10][-1]
    assert (result.width, result.height) == pytest.approx((160, 120), rel=0.01)


def test_a_pattern_from_a_file_has_the_shape_of_its_picture() -> None:
    tracker = PatternTracker()
    assert tracker.set_template(seen(1.0)[180:300, 270:390]).accepted
    result = [tracker.update(seen(1.0), stamp) for stamp in np.arange(SCANNED + 1) / 10][-1]
    assert (result.width, result.height) == pytest.approx((120, 120), rel=0.01)


def test_the_size_of_a_pattern_cut_out_of_a_region_is_that_in_the_camera_image() -> None:
    tracker, view = PatternTracker(), seen(1.0)
    tracker.region = Region(160, 120, 320, 240)
    assert tracker.set_template(view[180:240, 270:350], view=view).accepted
    tracker.region = WHOLE
    assert tracker.update(view).scale == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("scale", [1.0, 1.08, 1 / 1.08])
def test_about_its_own_size_a_template_is_left_to_the_model(scale: float) -> None:
    scales = ScaleSearch((64, 64), (16, 16), 2.0)
    scales.found(scale, frame(640, 480))
    assert scales.tracked(frame(640, 480)) is None


def test_sizes_are_whole_numbers_of_cells() -> None:
    scales = ScaleSearch((128, 128), (32, 32), 2.0)
    scales.found(1.5, frame(640, 480))
    assert scales.tracked(frame(640, 480)) == (86, 86)
    assert scale_of((86, 86), (128, 128)) == pytest.approx(128 / 86)


def frame(width: int, height: int) -> Frame:
    model = ImageInput("image", 64, 64, 1)
    return Frame.of(CameraImage(np.zeros((height, width), np.uint8)), 0.0, WHOLE, model)
