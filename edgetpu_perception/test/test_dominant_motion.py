"""Optical flow gives the motion of most of the picture, not that of moving objects."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import OpticalFlow
from edgetpu_perception.optical_flow.dominant_motion import NeighbourhoodMotions, all_follow
from edgetpu_perception.optical_flow.normal_equations import NormalEquations

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


@pytest.mark.parametrize("shift", [(0, 0), (7, -3)])
def test_a_person_of_high_contrast_does_not_move_a_dim_scene(shift: tuple[int, int]) -> None:
    scene, person = texture(1, 25.0), texture(2, 60.0)
    flow = OpticalFlow()
    flow.update(picture(scene, person, (0, 0), 80), 0.0)
    result = flow.update(picture(scene, person, shift, 92), 0.1)
    assert result.valid
    assert result.dx == pytest.approx(shift[0], abs=0.15)
    assert result.dy == pytest.approx(shift[1], abs=0.15)


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


def test_nearly_all_follow_a_motion_without_residual() -> None:
    assert all_follow(NormalEquations(equations(0.0)), (0.0, 0.0, 0.0), noise=0.01)


def test_not_all_follow_if_a_quarter_moves_by_itself() -> None:
    assert not all_follow(NormalEquations(equations(0.8)), (0.0, 0.0, 0.0), noise=0.01)


def test_the_dominant_motion_is_that_of_three_quarters() -> None:
    assert motions(equations(0.8)).dominant() == pytest.approx((0.0, 0.0), abs=0.15)


def test_only_what_follows_a_motion_has_weight() -> None:
    weights = motions(equations(0.8)).weights(0.0, 0.0).reshape(8, 8)
    assert weights[:, :6] == pytest.approx(1.0)
    assert weights[:, 6:].max() < 0.1


def test_the_share_counts_what_follows_and_has_texture() -> None:
    array = equations(0.8)
    array[:, :, :24] = 0.0
    found = motions(array)
    assert found.share(found.weights(0.0, 0.0)) == pytest.approx(0.375, abs=0.01)
