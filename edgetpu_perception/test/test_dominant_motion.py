"""Optical flow gives the motion of most of the picture, not that of moving objects."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import FlowResult, OpticalFlow
from edgetpu_perception.optical_flow.dominant_motion import (
    MAX_DEVIATION_CELLS,
    NARROWER_DEVIATIONS,
    NeighbourhoodMotions,
    chance_of_another,
)
from edgetpu_perception.optical_flow.normal_equations import NormalEquations
from edgetpu_perception.optical_flow.part_areas import picture_areas

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

WIDTH, HEIGHT = 320, 240


def texture(seed: int, contrast: float) -> NDArray[np.float32]:
    """Smooth random grey levels around 128, larger than the picture."""
    random = np.random.default_rng(seed)
    rough = cv2.GaussianBlur(random.normal(0, 1, (HEIGHT + 80, WIDTH + 80)).astype(np.float32), (0, 0), 6.0)
    return (128 + contrast * rough / rough.std()).astype(np.float32)


def picture(
    scene: NDArray[np.float32], person: NDArray[np.float32], shift: tuple[int, int], place: int
) -> NDArray[np.uint8]:
    """The scene moved by `shift` px, and a person of 60x150 px whose left edge is at `place`."""
    dx, dy = shift
    view = scene[40 - dy : 40 - dy + HEIGHT, 40 - dx : 40 - dx + WIDTH].copy()
    view[60:210, place : place + 60] = person[:150, :60]
    return np.clip(np.rint(view), 0, 255).astype(np.uint8)


def passed_by(scene: NDArray[np.float32], person: NDArray[np.float32], shift: tuple[int, int]) -> FlowResult:
    """The flow as a person passes by and the scene moves by `shift` px."""
    flow = OpticalFlow()
    flow.update(picture(scene, person, (0, 0), 80), 0.0)
    return flow.update(picture(scene, person, shift, 92), 0.1)


@pytest.mark.parametrize("shift", [(0, 0), (7, -3)])
def test_a_person_of_high_contrast_does_not_move_a_dim_scene(shift: tuple[int, int]) -> None:
    scene, person = texture(1, 25.0), texture(2, 60.0)
    result = passed_by(scene, person, shift)
    assert result.valid
    assert result.dx == pytest.approx(shift[0], abs=0.15)
    assert result.dy == pytest.approx(shift[1], abs=0.15)


@pytest.mark.parametrize(("seed", "shift"), [(1, (7, -3)), (3, (-9, 6)), (5, (0, 12))])
def test_the_motion_is_that_of_a_faint_scene_behind_a_strong_object(
    seed: int, shift: tuple[int, int]
) -> None:
    scene, person = texture(seed, 8.0), texture(seed + 1, 60.0)
    result = passed_by(scene, person, shift)
    assert result.valid
    assert result.dx == pytest.approx(shift[0], abs=0.3)
    assert result.dy == pytest.approx(shift[1], abs=0.3)


@pytest.mark.parametrize("seed", range(4))
def test_a_large_part_that_moves_slowly_does_not_move_the_scene(seed: int) -> None:
    scene, other = texture(10 + seed, 25.0), texture(20 + seed, 25.0)
    pictures = []
    for place in (80, 81):
        view = picture(scene, scene, (0, 0), 0)
        view[50:170, place : place + 130] = other[:120, :130]
        pictures.append(view)
    flow = OpticalFlow()
    flow.update(pictures[0], 0.0)
    result = flow.update(pictures[1], 0.1)
    assert result.valid
    # A third of the features by 1 px: 0.3 px if all of them count.
    assert result.dx == pytest.approx(0.0, abs=0.05)
    assert result.dy == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize(("degrees", "growth"), [(1.0, 1.0), (-1.0, 1.0), (0.0, 1.03), (0.7, 0.98)])
def test_a_picture_that_turns_and_grows_is_measured_in_its_middle(degrees: float, growth: float) -> None:
    scene = texture(1, 40.0)
    turned = cv2.getRotationMatrix2D(((WIDTH + 79) / 2, (HEIGHT + 79) / 2), degrees, growth)
    second = cv2.warpAffine(scene, turned, (WIDTH + 80, HEIGHT + 80), flags=cv2.INTER_CUBIC)
    flow = OpticalFlow()
    flow.update(np.rint(scene[40:-40, 40:-40]).clip(0, 255).astype(np.uint8), 0.0)
    result = flow.update(np.rint(second[40:-40, 40:-40]).clip(0, 255).astype(np.uint8), 0.1)
    assert result.valid
    assert result.dx == pytest.approx(0.0, abs=0.15)
    assert result.dy == pytest.approx(0.0, abs=0.15)


def test_two_scenes_of_which_no_part_is_the_same_are_not_valid() -> None:
    flow = OpticalFlow()
    person = texture(9, 50.0)
    flow.update(picture(texture(3, 30.0), person, (0, 0), 80), 0.0)
    assert not flow.update(picture(texture(4, 30.0), person, (0, 0), 200), 0.1).valid


def equations(dx: float) -> NDArray[np.float32]:
    """Equations of a channel of 48x48 cells, of which the columns from 36 on moved by `dx` cells.

    Float32 [4, 1, 48, 48]; the contrast is the same.
    """
    array = np.zeros((4, 1, 48, 48), np.float32)
    array[:2] = np.random.default_rng(5).normal(0, 1, (2, 1, 48, 48))
    array[3, :, :, 36:] = np.float32(dx) * array[0, :, :, 36:]
    return array


def motions(array: NDArray[np.float32]) -> NeighbourhoodMotions:
    return NeighbourhoodMotions(NormalEquations(array), contrast=0.0, noise=0.01)


def kept(array: NDArray[np.float32], dx: float) -> float:
    return motions(array).kept_deviation(dx, 0.0)


def test_all_keep_the_narrowest_deviation_from_a_motion_without_residual() -> None:
    assert kept(equations(0.0), 0.0) == NARROWER_DEVIATIONS[-1]


def test_a_quarter_that_moves_slowly_keeps_a_wider_deviation() -> None:
    assert kept(equations(0.1), 0.0) == MAX_DEVIATION_CELLS


def test_a_quarter_that_moves_by_itself_keeps_none() -> None:
    assert kept(equations(0.8), 0.0) == math.inf


def test_no_part_keeps_a_step_between_two_motions() -> None:
    assert kept(equations(0.5), 0.25) == math.inf


def test_a_majority_is_certain_if_it_is_large() -> None:
    assert chance_of_another(0.5, 81) == 0.5
    assert chance_of_another(0.75, 81) < 1e-5
    assert chance_of_another(0.25, 81) > 1 - 1e-5


def test_a_narrower_deviation_takes_weight_from_what_moves_slowly() -> None:
    found = motions(equations(0.1))
    assert found.within(MAX_DEVIATION_CELLS).weights(0.0, 0.0) == pytest.approx(1.0)
    weights = found.within(NARROWER_DEVIATIONS[-1]).weights(0.0, 0.0).reshape(8, 8)
    assert weights[:, :6] == pytest.approx(1.0)
    assert weights[:, 6:].max() < 0.1


def test_the_dominant_motion_is_that_of_three_quarters() -> None:
    assert motions(equations(0.8)).within(MAX_DEVIATION_CELLS).dominant() == pytest.approx(
        (0.0, 0.0), abs=0.15
    )


def test_only_what_follows_a_motion_has_weight() -> None:
    weights = motions(equations(0.8)).within(MAX_DEVIATION_CELLS).weights(0.0, 0.0).reshape(8, 8)
    assert weights[:, :6] == pytest.approx(1.0)
    assert weights[:, 6:].max() < 0.1


def test_the_share_counts_what_follows_and_has_texture() -> None:
    array = equations(0.8)
    array[:, :, :24] = 0.0
    found = motions(array)
    followers = found.within(MAX_DEVIATION_CELLS)
    areas = picture_areas(48, 48, 48, 48).nearest
    assert followers.share(followers.weights(0.0, 0.0), areas) == pytest.approx(0.375, abs=0.01)
    assert found.rather_textured == 0.5


def test_the_rival_is_the_motion_of_the_rest_and_no_step_towards_it() -> None:
    areas = picture_areas(48, 48, 48, 48).nearest
    rival, area = motions(equations(0.9)).rival(0.0, 0.0, areas, near=False)
    assert rival == pytest.approx((0.9, 0.0), abs=0.1)
    assert area == pytest.approx(0.25, abs=0.02)
