"""A pattern that was cut out of a frontal view is found where it is when it is seen tilted."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.pattern_tracker import fine_alignment, plane_alignment
from edgetpu_perception.pattern_tracker.fine_alignment import MIN_GAIN_OF_TILT
from edgetpu_perception.pattern_tracker.patch_alignment import PatchAligner, PatchAlignment
from edgetpu_perception.pattern_tracker.pattern_tracker import PatternTracker
from edgetpu_perception.pattern_tracker.plane_alignment import PlaneAligner, PlaneAlignment
from edgetpu_perception.pattern_tracker.scale_search import ScaleSearch
from testdata.pictures.patterns import Image, pixels, texture

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

WIDTH, HEIGHT, FOCAL = 640, 480, 600.0
CAMERA = np.array([[FOCAL, 0.0, (WIDTH - 1) / 2], [0.0, FOCAL, (HEIGHT - 1) / 2], [0.0, 0.0, 1.0]])
WALL = texture(4, side=1200, blur=9.0)
"""Of a texel per px of a frontal view, in whose middle its own is."""
X, Y = 30.0, -20.0
"""Centre of the patch, px from the middle of the frontal view."""
LEFT, TOP = 270, 160
"""First px of the patch of 160x120 px."""


def projection(tilt: float, axis: float) -> NDArray[np.float64]:
    """From texels of the wall to px after a tilt about an axis through the patch, both in degrees."""
    direction = math.radians(axis)
    turned = cv2.Rodrigues(math.radians(tilt) * np.array([math.cos(direction), math.sin(direction), 0.0]))[0]
    middle = (len(WALL) - 1) / 2
    to_patch = np.array([[1.0, 0.0, -middle - X], [0.0, 1.0, -middle - Y], [0.0, 0.0, 1.0]])
    pose = np.column_stack([turned[:, 0], turned[:, 1], [X, Y, FOCAL]])
    matrix: NDArray[np.float64] = CAMERA @ pose @ to_patch
    return matrix


def seen(tilt: float, axis: float = 0.0) -> Image:
    """What the camera sees."""
    wall, size = WALL.astype(np.float32), (WIDTH, HEIGHT)
    return pixels(cv2.warpPerspective(wall, projection(tilt, axis), size, flags=cv2.INTER_CUBIC))


@pytest.fixture
def tracker() -> PatternTracker:
    made, view = PatternTracker(), seen(0.0)
    assert made.set_template(view[TOP : TOP + 120, LEFT : LEFT + 160], view=view).accepted
    return made


def true_scale(tilt: float, axis: float) -> float:
    """Square root of the growth of a small area at the centre of the patch."""
    middle = (len(WALL) - 1) / 2 + np.array([X, Y])
    corners = (middle + 0.1 * np.array([[0, 0], [1, 0], [0, 1]])).reshape(-1, 1, 2)
    first, right, down = cv2.perspectiveTransform(corners, projection(tilt, axis))[:, 0]
    area = np.linalg.det(np.stack([right - first, down - first]))
    return 10 * math.sqrt(float(area))


@pytest.mark.parametrize("axis", [0, 45, 90, 135, 180, 225, 270, 315])
@pytest.mark.parametrize("tilt", [10, 20])
def test_a_tilted_pattern_is_found_where_its_centre_is(
    tracker: PatternTracker, tilt: float, axis: float
) -> None:
    result = [tracker.update(seen(tilt, axis)) for _ in range(2)][-1]
    assert result.valid
    assert (result.x, result.y) == pytest.approx((LEFT + 79.5, TOP + 59.5), abs=0.1)
    assert max(result.x_sigma, result.y_sigma) < 0.05
    assert result.scale == pytest.approx(true_scale(tilt, axis), rel=0.003)


@pytest.mark.parametrize("axis", [0, 60, 120, 180, 240, 300])
def test_a_pattern_tilted_so_far_that_its_correlation_is_low_is_confirmed_in_the_camera_image(
    tracker: PatternTracker, axis: float
) -> None:
    result = [tracker.update(seen(40.0, axis)) for _ in range(2)][-1]
    assert result.valid
    assert (result.x, result.y) == pytest.approx((LEFT + 79.5, TOP + 59.5), abs=0.2)
    assert result.scale == pytest.approx(true_scale(40.0, axis), rel=0.01)


def test_a_pattern_that_tilts_more_and_more_stays_valid(tracker: PatternTracker) -> None:
    for tilt in range(0, 50, 5):
        result = tracker.update(seen(tilt, 30.0))
        assert result.valid
        assert (result.x, result.y) == pytest.approx((LEFT + 79.5, TOP + 59.5), abs=0.2)


@pytest.mark.parametrize("axis", [0, 60, 120])
def test_a_tilt_does_not_count_as_another_scale(axis: float) -> None:
    made, view = PatternTracker(scale_range=1.0), seen(0.0)
    made.set_template(view[TOP : TOP + 120, LEFT : LEFT + 160], view=view)
    assert made.update(seen(40.0, axis)).valid


def test_a_tilted_pattern_that_is_turned_by_more_than_20_degrees_is_not_confirmed(
    tracker: PatternTracker,
) -> None:
    for _ in range(2):
        assert tracker.update(seen(35.0, 60.0)).valid
        assert not tracker.update(turned(seen(35.0, 60.0), 25.0)).valid


def turned(image: Image, degrees: float) -> Image:
    """The image turned about the centre of the patch."""
    about = cv2.getRotationMatrix2D((LEFT + 79.5, TOP + 59.5), degrees, 1.0)
    return pixels(cv2.warpAffine(image.astype(np.float32), about, (WIDTH, HEIGHT), flags=cv2.INTER_CUBIC))


def test_a_pattern_that_stays_tilted_is_not_looked_for_at_other_scales(
    tracker: PatternTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("another scale")

    assert tracker.update(seen(40.0, 30.0)).valid
    monkeypatch.setattr(ScaleSearch, "next", refuse)
    assert tracker.update(seen(41.0, 30.0)).valid


def board(fields: NDArray[np.float64], tilt: float, x: float = 0.0) -> Image:
    """Fields of 20 px on a white wall, 160x120 px at (X + x, Y) from the middle of a frontal view."""
    wall = np.full(WALL.shape, 230.0, np.float32)
    top, left = (len(wall) - 120) // 2 + int(Y), (len(wall) - 160) // 2 + int(X + x)
    wall[top : top + 120, left : left + 160] = np.kron(fields, np.ones((20, 20)))
    size = WIDTH, HEIGHT
    return pixels(cv2.warpPerspective(wall, projection(tilt, 90.0), size, flags=cv2.INTER_AREA))


def test_a_tilted_board_is_confirmed_and_one_with_half_of_the_same_fields_is_not() -> None:
    random = np.random.default_rng(5)
    fields = np.where(random.random((6, 8)) < 0.5, 25.0, 230.0)
    others = np.where(random.random((6, 8)) < 0.5, fields, 255.0 - fields)
    made, view = PatternTracker(), board(fields, 0.0)
    assert made.set_template(view[TOP : TOP + 120, LEFT : LEFT + 160], view=view).accepted
    assert [made.update(board(others, 40.0)).valid for _ in range(4)] == [False] * 4
    assert [made.update(board(fields, 40.0)) for _ in range(2)][-1].valid


def test_a_pattern_that_is_not_tilted_takes_no_alignment_in_perspective(
    tracker: PatternTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> PlaneAlignment:
        raise AssertionError("aligned in perspective")

    monkeypatch.setattr(PlaneAligner, "align", refuse)
    assert tracker.update(seen(0.0)).valid
    with pytest.raises(AssertionError, match="perspective"):
        tracker.update(seen(20.0))


def patch_and_aligner() -> tuple[NDArray[np.float32], PlaneAligner]:
    """A scene of 60x60 px and an aligner for 24x32 px around (29.5, 29.5)."""
    scene = texture(3, side=60, blur=4.0).astype(np.float32)
    patch = scene[18:42, 14:46]
    return scene - 128, PlaneAligner(patch, np.ones(patch.shape, bool), 0.01)


def test_sigmas_of_an_alignment_in_perspective_are_those_of_its_errors() -> None:
    random = np.random.default_rng(1)
    scene, aligner = patch_and_aligner()
    z = []
    for _ in range(100):
        noisy = scene + random.normal(0.0, 10.0, scene.shape).astype(np.float32)
        found = aligner.align(noisy, [aligner.upright(29.5, 29.5, 1.0, 0.0)])
        z += [(found.to_image[0, 2] - 29.5) / found.x_sigma, (found.to_image[1, 2] - 29.5) / found.y_sigma]
    assert np.sqrt(np.mean(np.square(z))) == pytest.approx(1.0, abs=0.15)


def test_sigmas_of_a_picture_without_noise_are_more_than_zero() -> None:
    scene, aligner = patch_and_aligner()
    found = aligner.align(scene, [aligner.upright(29.5, 29.5, 1.0, 0.0)])
    assert 0.0 < found.x_sigma < 0.01
    assert 0.0 < found.y_sigma < 0.01


def test_an_untilted_match_tells_how_far_it_is_off_for_a_small_tilt() -> None:
    scene, plane = patch_and_aligner()
    place = plane.upright(29.5, 29.5, 1.0, 0.0)
    tilt = np.array([[1.02, 0.0, 0.0], [0.0, 0.98, 0.0], [0.03, 0.02, 1.0]])
    tilted = cv2.warpPerspective(scene, place @ tilt @ np.linalg.inv(place), (60, 60), flags=cv2.INTER_CUBIC)
    patch = scene[18:42, 14:46] + 128
    found = PatchAligner(patch, np.ones(patch.shape, bool), 1.5).align([tilted], 29.5, 29.5)
    hidden = plane.hidden_tilt(tilted, plane.upright(found.x, found.y, found.cosine, found.sine))
    error = abs(found.x - 29.5), abs(found.y - 29.5)
    assert max(error) > 0.1
    assert (hidden.x, hidden.y) == pytest.approx(error, abs=0.25 * max(error))
    assert hidden.gain > MIN_GAIN_OF_TILT


def test_a_match_without_a_tilt_is_not_off_for_one() -> None:
    scene, plane = patch_and_aligner()
    hidden = plane.hidden_tilt(scene, plane.upright(29.5, 29.5, 1.0, 0.0))
    assert hidden == pytest.approx((0.0, 0.0, 0.0), abs=0.01)


@pytest.mark.parametrize(
    ("distance", "sigma", "nearer"),
    [
        (0.0, 0.9, True),  # explains more than it adds
        (0.0, 1.1, False),
        (4.0, 2.9, True),  # 4 px are more than twice what noise makes of them, 2.7
        (4.0, 3.1, False),
    ],
)
def test_a_tilted_match_is_taken_if_it_is_expected_to_be_nearer_to_the_truth(
    distance: float, sigma: float, nearer: bool
) -> None:
    upright = PatchAlignment(1.0, 30.0, 20.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0)
    tilted = upright._replace(x=30.0 + distance, x_sigma=sigma, y_sigma=1.0)
    assert fine_alignment.is_nearer(tilted, upright) == nearer


def test_of_several_starts_the_best_one_is_taken() -> None:
    scene, aligner = patch_and_aligner()
    far, near = aligner.upright(26.0, 29.5, 1.0, 0.0), aligner.upright(29.4, 29.6, 1.0, 0.0)
    found = aligner.align(scene, [far, near])
    assert found.to_image[:2, 2] == pytest.approx((29.5, 29.5), abs=0.01)
    assert found.score == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("make", [np.zeros, np.ones])
def test_an_even_image_has_no_alignment(make: Callable[[tuple[int, int], type], NDArray[np.float32]]) -> None:
    _, aligner = patch_and_aligner()
    found = aligner.align(make((60, 60), np.float32), [aligner.upright(29.5, 29.5, 1.0, 0.0)])
    assert (found.score, found.x_sigma, found.y_sigma) == (-1.0, math.inf, math.inf)


def test_an_alignment_ends_before_a_patch_is_seen_edge_on_or_far_away() -> None:
    random = np.random.default_rng(2)
    _, aligner = patch_and_aligner()
    for _ in range(50):
        noise = random.normal(0.0, 50.0, (60, 60)).astype(np.float32)
        found = aligner.align(noise, [aligner.upright(29.5, 29.5, 1.0, 0.0)])
        assert np.abs(found.to_image[:2, 2] - 29.5).max() <= plane_alignment.REACH_PX
        assert np.linalg.det(aligner.local(found.to_image)) > plane_alignment.LEAST_SIZE
