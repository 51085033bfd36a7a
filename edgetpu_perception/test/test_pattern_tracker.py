"""A patch is found again: where, how exactly, turned and scaled, and when not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.images.region import Region
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.pattern_tracker.match_selection import MIN_CERTAINTY
from edgetpu_perception.pattern_tracker.patch_alignment import PatchAlignment
from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult, PatternTracker
from testdata.pictures.patterns import SIZES, Image, cut, moved, photographs, pixels, texture
from testdata.same_results import same

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


def test_a_patch_is_found_where_it_was_cut_out(trained_tracker: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained_tracker
    result = tracker.update(image, 1.5)
    assert result.stamp == 1.5
    assert result.valid
    assert not result.ambiguous
    assert (result.x, result.y) == pytest.approx((27.5, 37.5), abs=1e-4)
    assert (result.width, result.height, result.scale) == pytest.approx((16, 16, 1), rel=1e-6)
    assert result.score == pytest.approx(1.0, abs=1e-6)
    assert result.confidence == 1.0
    assert result.runner_up_score < 0.8


@pytest.mark.parametrize(("x", "y"), [(0, 0), (48, 0), (0, 48), (48, 48)])
def test_the_whole_search_image_is_searched_up_to_its_corners(x: int, y: int) -> None:
    image = texture(2)
    tracker = PatternTracker()
    tracker.set_template(cut(image, x, y), view=image, accept_ambiguous=True)
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((x + 7.5, y + 7.5), abs=1e-4)


@pytest.mark.parametrize(("search", "side"), SIZES)
def test_any_patch_of_a_photograph_is_found(search: int, side: int) -> None:
    tracker = PatternTracker(search=(search, search), template=(side, side))
    hits = []
    for photo in photographs(search):
        for patch, x, y in photo.patches(side, 10):
            assert tracker.set_template(patch, accept_ambiguous=True, view=photo.image).accepted
            result = tracker.update(photo.image)
            hits.append(math.hypot(result.x - x, result.y - y) < 1)
    assert np.mean(hits) >= 0.975


@dataclass
class Trial:
    """A patch in an image that was turned, scaled, moved, lit otherwise and got noise."""

    result: MatchResult
    x: float
    y: float

    @property
    def found(self) -> bool:
        return self.result.valid and math.hypot(self.result.x - self.x, self.result.y - self.y) < 2


def trials(search: int, side: int, count: int) -> list[Trial]:
    """Of the patches that the tracker accepts of `count` from each photograph."""
    random = np.random.default_rng(7)
    tracker = PatternTracker(search=(search, search), template=(side, side))
    made = []
    for photo in photographs(search):
        for patch, x, y in photo.patches(side, count):
            if not tracker.set_template(patch, view=photo.image).accepted:
                continue
            # Rotated about the patch's centre, so that it stays in the image.
            matrix = cv2.getRotationMatrix2D((x, y), random.uniform(-5, 5), random.uniform(0.95, 1.05))
            matrix[:, 2] += random.uniform(-1, 1, 2)
            image = cv2.warpAffine(photo.image, matrix, (search, search), flags=cv2.INTER_CUBIC)
            image = image * random.uniform(0.8, 1.2) + random.uniform(-20, 20)
            result = tracker.update(pixels(image + random.normal(0, 3, image.shape)))
            made.append(Trial(result, *(matrix @ (x, y, 1)).tolist()))
    return made


@pytest.mark.parametrize(("search", "side"), SIZES)
def test_accepted_patches_are_found_turned_scaled_darkened_and_noisy(search: int, side: int) -> None:
    made = trials(search, side, 12)
    assert len(made) >= 15
    assert np.mean([trial.found for trial in made]) >= 0.96


def test_sigmas_cover_68_percent_of_errors() -> None:
    inside = []
    for trial in trials(64, 8, 25) + trials(64, 16, 25):
        if trial.result.valid:
            inside.append(abs(trial.result.x - trial.x) < trial.result.x_sigma)
            inside.append(abs(trial.result.y - trial.y) < trial.result.y_sigma)
    assert 0.60 <= np.mean(inside) <= 0.80


@pytest.mark.parametrize(("search", "side"), SIZES)
def test_patches_of_one_photograph_are_not_seen_in_another(search: int, side: int) -> None:
    tracker = PatternTracker(search=(search, search), template=(side, side))
    photos = photographs(search)
    refused = []
    for photo, other in zip(photos, photos[1:] + photos[:1], strict=True):
        for patch, _, _ in photo.patches(side, 12):
            if tracker.set_template(patch, view=photo.image).accepted:
                refused.append(not tracker.update(other.image).valid)
    assert np.mean(refused) >= 0.95


def test_a_position_between_pixels_is_found_to_a_few_hundredths() -> None:
    image = texture(4)
    tracker = PatternTracker()
    tracker.set_template(cut(image, 24, 20), view=image)
    errors = []
    for dx, dy in np.random.default_rng(0).uniform(-1, 1, (30, 2)):
        result = tracker.update(pixels(moved(image, dx, dy)))
        errors.append(math.hypot(result.x - 31.5 - dx, result.y - 27.5 - dy))
    assert math.sqrt(np.mean(np.square(errors))) < 0.03


def test_a_larger_image_gives_the_position_in_its_own_pixels() -> None:
    image = np.kron(texture(1), np.ones((5, 10), np.uint8))  # 640x320
    tracker = PatternTracker()
    tracker.set_template(image[30 * 5 : 46 * 5, 20 * 10 : 36 * 10], view=image)
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((279.5, 189.5), abs=1e-3)
    assert (result.width, result.height) == pytest.approx((160, 80), rel=1e-6)
    assert (result.offset_x, result.offset_y) == pytest.approx(
        (279.5 / 319.5 - 1, 189.5 / 159.5 - 1), abs=1e-5
    )


def test_a_patch_of_any_size_is_found_without_a_bias() -> None:
    tracker = PatternTracker()
    errors = []
    for seed in range(1, 13):  # the root mean square of three pictures' errors varies by 0.01 px
        picture = texture(seed, side=500, blur=6.0)
        view = picture[:258, :468]  # a model px is 7.3 px wide and 4.0 px high
        assert tracker.set_template(view[90:154, 200:317], view=view).accepted
        for dx, dy in ((0, 0), (5, 3), (9, 7), (2, 6)):
            result = tracker.update(picture[dy : dy + 258, dx : dx + 468].copy())
            errors.append((result.x + dx - 258.0, result.y + dy - 121.5))
    assert np.mean(errors, axis=0) == pytest.approx((0.0, 0.0), abs=0.02)
    assert np.sqrt(np.mean(np.square(errors), axis=0)) == pytest.approx((0.0, 0.0), abs=0.08)


def test_a_turned_patch_is_found_to_a_fraction_of_a_px_of_a_larger_image() -> None:
    image = texture(1, side=640, blur=8.0)[:480]  # as in the camera, not square
    tracker = PatternTracker()
    assert tracker.set_template(image[180:300, 240:400], view=image).accepted
    turn = cv2.getRotationMatrix2D((319.5, 239.5), -5.0, 1.03)
    turn[:, 2] += 6.3, -3.7
    later = cv2.warpAffine(image, turn, (640, 480), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    result = tracker.update(later)
    expected = turn @ (319.5, 239.5, 1.0)  # a model px is 10 px wide and 7.5 px high
    assert (result.x, result.y) == pytest.approx(tuple(expected), abs=0.3)
    assert result.x_sigma < 0.5
    assert result.y_sigma < 0.5


def match_leaving(unexplained: float) -> PatchAlignment:
    """An upright match of the same contrast that leaves this much unexplained."""
    return PatchAlignment(1.0 - unexplained, 30.0, 30.0, 1.0, 0.0, 1.0, 0.9, 0.1, 0.1)


def test_a_match_that_fits_badly_and_does_not_stand_out_is_no_match(
    trained_tracker: tuple[PatternTracker, Image],
) -> None:
    found = trained_tracker[0]._matcher
    assert found is not None
    left = 1.5 * found.expected.unexplained
    match = match_leaving(left)
    assert found.certainty(match, runner_up_score=0.0) > MIN_CERTAINTY
    assert found.certainty(match, runner_up_score=1.0 - left) == 0.0
    nearly_as_good = 1.0 - 1.4 * left  # the match is nearer to this one than to the patch
    assert found.certainty(match, runner_up_score=nearly_as_good) < MIN_CERTAINTY


def test_a_match_that_fits_badly_is_less_certain_the_further_it_is_turned(
    trained_tracker: tuple[PatternTracker, Image],
) -> None:
    found = trained_tracker[0]._matcher
    assert found is not None
    match = match_leaving(1.5 * found.expected.unexplained)
    turned = [match._replace(cosine=math.cos(angle), sine=math.sin(angle)) for angle in (0.0, 0.1, 0.3)]
    certainties = [found.certainty(each) for each in turned]
    assert certainties[0] > certainties[1] > MIN_CERTAINTY
    assert certainties[2] < MIN_CERTAINTY


def test_a_match_at_another_scale_than_the_last_one_is_less_certain(
    trained_tracker: tuple[PatternTracker, Image],
) -> None:
    found = trained_tracker[0]._matcher
    assert found is not None
    match = match_leaving(1.5 * found.expected.unexplained)
    assert found.certainty(match, other_scale=True) < found.certainty(match) < 1.0


def test_a_match_with_half_the_contrast_is_less_certain(
    trained_tracker: tuple[PatternTracker, Image],
) -> None:
    found = trained_tracker[0]._matcher
    assert found is not None
    match = match_leaving(found.expected.unexplained)
    assert found.certainty(match) == 1.0
    assert found.certainty(match._replace(gain=0.5)) < 1.0


def test_a_color_image_is_searched_by_its_brightness(trained_tracker: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained_tracker
    assert same(tracker.update(np.repeat(image[..., np.newaxis], 3, axis=2)), tracker.update(image))


def test_bearings_come_from_the_camera() -> None:
    image = texture(1)
    tracker = PatternTracker(camera=Pinhole(64, 64, 100, 50, 31.5, 31.5))
    tracker.set_template(cut(image, 20, 30), view=image)
    result = tracker.update(image)
    expected = math.atan(-4 / 100), math.atan(6 / 50)
    assert (result.bearing_x, result.bearing_y) == pytest.approx(expected, abs=1e-5)


def test_brightness_and_contrast_have_no_influence(trained_tracker: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained_tracker
    result = tracker.update(pixels(image * 0.5 + 60.0))
    assert result.score > 0.999
    assert (result.x, result.y) == pytest.approx((27.5, 37.5), abs=0.02)


def test_an_absent_pattern_is_not_valid(trained_tracker: tuple[PatternTracker, Image]) -> None:
    tracker, _ = trained_tracker
    images = [texture(seed) for seed in range(50, 90)]
    images += [np.zeros((64, 64), np.uint8), np.full((64, 64), 200, np.uint8)]
    for image in images:
        result = tracker.update(image)
        assert not result.valid
        assert result.confidence < 0.2
        assert math.isnan(result.x)
        assert math.isnan(result.x_sigma)
        assert math.isnan(result.bearing_x)


def test_a_second_copy_makes_a_match_ambiguous(trained_tracker: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained_tracker
    twice = image.copy()
    twice[5:21, 45:61] = cut(image, 20, 30)
    result = tracker.update(twice)
    assert result.valid
    assert result.ambiguous
    assert result.confidence == 0.5
    assert result.runner_up_score == pytest.approx(result.score, abs=1e-3)


def test_of_two_equal_matches_the_tracker_keeps_the_last_one() -> None:
    random = np.random.default_rng(3)
    image = texture(1)
    tracker = PatternTracker()
    tracker.set_template(cut(image, 20, 30), view=image)
    tracker.update(image)
    twice = image.astype(float)
    twice[5:21, 45:61] = cut(image, 20, 30)
    for _ in range(20):
        result = tracker.update(pixels(twice + random.normal(0, 4, twice.shape)))
        assert (result.x, result.y) == pytest.approx((27.5, 37.5), abs=0.5)


def test_of_two_equal_matches_the_tracker_keeps_the_last_one_in_another_region() -> None:
    image, tracker = texture(1, side=128), PatternTracker()
    tracker.region = Region(0, 0, 64, 64)
    tracker.set_template(cut(image, 20, 30), view=image)
    tracker.update(image)
    image = image.copy()
    image[30:46, 50:66] = cut(image, 20, 30)
    tracker.region = Region(17, 10, 64, 64)
    result = tracker.update(image)
    assert (result.x, result.y) == pytest.approx((27.5, 37.5), abs=0.5)


def test_preprocess_and_postprocess_equal_update(trained_tracker: tuple[PatternTracker, Image]) -> None:
    tracker, image = trained_tracker
    half = PatternTracker()
    half.set_template(cut(image, 20, 30), view=image)
    engine = CpuEngine(pattern.build(weights=half.weights))
    half.bind(engine.inputs, engine.outputs)
    frame = half.preprocess(image, 2.0)
    assert same(half.postprocess(frame, engine.run(frame.inputs)), tracker.update(image, 2.0))
