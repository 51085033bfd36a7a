"""Patches with structure finer than the squares that their alignment works on."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.pattern_tracker.fine_patch import FinePatch, aliasing_of, coarser, fine_patch
from edgetpu_perception.pattern_tracker.patch_alignment import SIGMA_GAIN, PatchAligner
from edgetpu_perception.pattern_tracker.pattern_tracker import PatternTracker
from testdata.pictures.patterns import Image, pixels, texture

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

SHIFTS = ((3, 2), (-5, 4), (7, -6), (2, 5), (-9, 0), (4, -11))
"""Of later pictures, px."""
PERIODS = (7, 8, 10, 12, 14)
"""Of boards, px; 160x120 px are averaged over squares of 5 px."""


def board(period: int) -> Image:
    """Checkerboard of 140x100 px at (330, 240) on even ground, in a scene larger than a picture."""
    scene = texture(2, side=680, blur=40.0)[:520].astype(np.float64)
    scene[180:300, 250:410] = 235
    y, x = np.indices((100, 140)) // (period / 2)
    scene[190:290, 260:400] = np.where((x + y) % 2 < 1, 20, 235)
    return pixels(scene)


def picture(scene: Image, dx: int, dy: int) -> Image:
    """What the camera sees, 640x480 px, after the content has moved."""
    return scene[20 - dy : 500 - dy, 20 - dx : 660 - dx].copy()


def waves(period: float, side: int = 5) -> NDArray[np.float32]:
    """Grey levels [120, 160] that vary along x."""
    columns = np.arange(32 * side)
    row = 128 + 100 * np.sin(2 * math.pi * (columns + 0.3) / period)
    return np.tile(row.astype(np.float32), (24 * side, 1))


def fine_of(patch: Image) -> FinePatch:
    """Of a patch in a picture of 640x480 px, of which the model sees 64x64 px."""
    fine = fine_patch(patch, np.ones(patch.shape, np.uint8), (64 / 480, 64 / 640), (0.0, 0.0))
    assert fine is not None
    return fine


@pytest.mark.parametrize("period", PERIODS)
def test_a_board_with_fields_as_fine_as_squares_is_found_where_it_is(period: int) -> None:
    scene, tracker = board(period), PatternTracker()
    view = picture(scene, 0, 0)
    assert tracker.set_template(view[160:280, 230:390], view=view, accept_ambiguous=True).accepted
    errors = []
    for dx, dy in SHIFTS:
        result = tracker.update(picture(scene, dx, dy))
        assert result.valid
        errors.append(math.hypot(result.x - 309.5 - dx, result.y - 219.5 - dy))
    assert max(errors) < 0.5


def test_a_template_of_as_many_px_as_a_patch_is_refined_in_squares_of_half_the_side() -> None:
    scene = texture(5, side=680, blur=6.0)[:520]
    view, tracker = picture(scene, 0, 0), PatternTracker(search=(128, 128), template=(32, 32))
    assert tracker.set_template(view[183:303, 243:403], view=view).accepted
    for dx, dy in SHIFTS:
        result = tracker.update(picture(scene, dx, dy))
        assert result.valid
        assert (result.x, result.y) == pytest.approx((243 + 79.5 + dx, 183 + 59.5 + dy), abs=0.1)


def test_squares_half_a_square_off_are_those_between_the_others_only_for_waves_that_are_longer() -> None:
    counting = np.ones((24, 32), bool)
    assert aliasing_of(waves(6.0), counting, 5) > 1.0
    assert aliasing_of(waves(10.0), counting, 5) > 0.5  # a wave of two squares vanishes half a square off
    assert aliasing_of(waves(40.0), counting, 5) < 0.05


def test_px_of_the_camera_need_no_squares_between_them() -> None:
    assert aliasing_of(waves(2.5, side=1), np.ones((24, 32), bool), 1) == 0.0


def test_only_structure_finer_than_squares_is_removed_and_aligned_in_squares_of_half_the_side() -> None:
    plain = fine_of(texture(1, side=160, blur=8.0)[:120])
    assert (plain.smooth, plain.values.shape) == (False, (24, 32))
    assert plain.finer is not None
    assert (plain.finer.smooth, plain.finer.finer, plain.finer.values.shape) == (True, None, (40, 53))
    fine = fine_of(pixels(0.8 * waves(6.0) + 0.2 * waves(80.0)))
    assert fine.smooth
    assert fine.values.shape == (24, 32)
    assert fine.values.std() == pytest.approx(0.2 * waves(80.0).std(), rel=0.05)
    assert fine.finer is not None
    assert (fine.finer.smooth, fine.finer.finer, fine.finer.values.shape) == (True, None, (40, 53))


@pytest.mark.parametrize(("shape", "offset"), [((24, 32), (0.0, 0.0)), ((25, 33), (-0.5 / 3.2, -0.5 / 2.4))])
def test_coarser_squares_are_averages_of_four_around_their_own_centre(
    shape: tuple[int, int], offset: tuple[float, float]
) -> None:
    values = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    coarse = coarser(FinePatch(values, np.ones(shape, bool), 3.2, 2.4, (0.0, 0.0)))
    assert coarse is not None
    assert (coarse.values.shape, coarse.x_scale, coarse.y_scale) == ((12, 16), 1.6, 1.2)
    assert coarse.values[0, 0] == values[:2, :2].mean()
    assert coarse.offset == pytest.approx(offset)


def test_few_squares_are_not_made_coarser() -> None:
    assert (
        coarser(FinePatch(np.ones((15, 32), np.float32), np.ones((15, 32), bool), 2, 2, (0.0, 0.0))) is None
    )


def test_sigmas_allow_for_noise_that_a_blur_has_made_alike_in_neighbours() -> None:
    random, blur = np.random.default_rng(1), 0.6
    scene = cv2.GaussianBlur(texture(3, side=40, blur=5.0).astype(np.float32), (0, 0), blur)
    patch = scene[8:32, 4:36]
    aligner = PatchAligner(patch, np.ones(patch.shape, bool), 1.5, sigma_floor=0.0, blur=blur)
    z = []
    for _ in range(100):
        noise = cv2.GaussianBlur(random.normal(0.0, 20.0, scene.shape).astype(np.float32), (0, 0), blur)
        found = aligner.align(aligner.levels(pixels(scene + noise)), 19.5, 19.5)
        z += [(found.x - 19.5) / found.x_sigma, (found.y - 19.5) / found.y_sigma]
    assert np.sqrt(np.mean(np.square(z))) == pytest.approx(1 / SIGMA_GAIN, abs=0.15)
