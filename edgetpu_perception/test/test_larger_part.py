"""Of two parts of the picture that move apart, optical flow measures the larger one, and says how surely."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import FlowResult, OpticalFlow
from edgetpu_perception.optical_flow.dominant_motion import NeighbourhoodMotions
from edgetpu_perception.optical_flow.larger_part import (
    LargerPart,
    larger_part,
    lead_of_first,
    pull_of_contrast,
    settled_pair,
)
from edgetpu_perception.optical_flow.normal_equations import NormalEquations
from edgetpu_perception.optical_flow.part_areas import AreaLead, picture_areas

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

WIDTH, HEIGHT = 320, 240


def texture(seed: int, contrast: float) -> NDArray[np.float32]:
    """Smooth random grey levels around 128."""
    random = np.random.default_rng(seed)
    rough = cv2.GaussianBlur(random.normal(0, 1, (HEIGHT, WIDTH)).astype(np.float32), (0, 0), 6.0)
    return (128 + contrast * rough / rough.std()).astype(np.float32)


def passed_by(seed: int, object_contrast: float, box: tuple[int, int, int, int], step: int) -> FlowResult:
    """The flow as an object moves right by `step` px before a scene that stands still.

    `box`: left, top, width and height of the object, px. The scene has a contrast of 20 grey levels.
    """
    scene, other = texture(seed, 20.0), texture(seed + 100, object_contrast)
    left, top, width, height = box
    flow = OpticalFlow()
    for time in range(2):
        view = scene.copy()
        at = left + time * step
        view[top : top + height, at : at + width] = other[:height, :width]
        result = flow.update(np.clip(np.rint(view), 0, 255).astype(np.uint8), 0.1 * time)
    return result


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", [1, 3])
def test_an_object_of_three_times_the_contrast_is_not_taken_for_the_scene(seed: int, step: int) -> None:
    # 24 % of the picture.
    result = passed_by(seed, 60.0, (100, 50, 130, 140), step)
    assert result.valid
    assert (result.dx, result.dy) == pytest.approx((0.0, 0.0), abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_an_object_that_fills_half_of_the_features_is_not_taken_for_the_scene(seed: int) -> None:
    # 36 % of the picture, and 53 % of what the features cover.
    result = passed_by(seed, 20.0, (70, 40, 174, 159), 2)
    assert result.valid
    assert (result.dx, result.dy) == pytest.approx((0.0, 0.0), abs=0.1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("box", [(60, 40, 180, 140), (80, 40, 150, 150), (90, 60, 170, 180)])
@pytest.mark.parametrize("step", [3, 4])
def test_an_object_of_a_third_is_not_taken_for_the_scene(
    seed: int, box: tuple[int, int, int, int], step: int
) -> None:
    # 29 to 40 % of the picture, which move by nearly a cell of the features.
    result = passed_by(seed, 40.0, box, step)
    assert result.valid
    assert (result.dx, result.dy) == pytest.approx((0.0, 0.0), abs=0.15)


@pytest.mark.parametrize("seed", range(4))
def test_sigma_has_the_distance_of_two_parts_of_the_same_size(seed: int) -> None:
    result = passed_by(seed, 20.0, (0, 0, 226, 170), 2)
    assert result.valid
    # 2 px with a probability of 1/2: 1.4 px. The half is for the doubt about the areas.
    assert result.dx_sigma > 0.7


@pytest.mark.parametrize("seed", range(4))
def test_a_third_that_moves_fast_is_not_surely_taken_for_the_scene(seed: int) -> None:
    # 1.6 cells of the features. They see little else, so that it is not certain what the scene is.
    result = passed_by(seed, 40.0, (70, 40, 170, 150), 8)
    assert not result.valid or abs(result.dx) < 3 * result.dx_sigma


@pytest.mark.parametrize("seed", range(4))
def test_a_quarter_that_moves_fast_is_not_taken_for_the_scene(seed: int) -> None:
    result = passed_by(seed, 40.0, (100, 50, 130, 140), 12)
    assert result.valid
    assert (result.dx, result.dy) == pytest.approx((0.0, 0.0), abs=0.1)
    # 12 px with a probability of a few ten-thousandths.
    assert 0.1 < result.dx_sigma < 0.4


def competing(moved: NDArray[np.bool_], dx: float) -> LargerPart | None:
    """The larger part of 8x8 neighbourhoods: some `moved` by `dx` cells and the others stand still."""
    cells = np.kron(moved, np.ones((6, 6), bool))
    array = np.zeros((4, 1, 48, 48), np.float32)
    array[:2] = np.random.default_rng(5).normal(0, 1, (2, 1, 48, 48))
    array[3, 0] = np.where(cells, np.float32(dx) * array[0, 0], 0.0)
    normal = NormalEquations(array)
    motions = NeighbourhoodMotions(normal, contrast=0.0, noise=0.01)
    areas = picture_areas(48, 48, 48, 48)
    steps = settled_pair(motions, normal, 0.0, (0.2, 0.0), (0.5, 0.0))
    return larger_part(motions, normal, steps, areas, 0.12)


def test_the_motion_of_the_larger_part_wins() -> None:
    columns = np.tile(np.arange(8), (8, 1))
    found = competing(columns >= 5, 0.6)
    assert found is not None
    assert found.step[:2] == pytest.approx((0.0, 0.0), abs=0.01)
    assert found.side.reshape(8, 8) == pytest.approx((columns < 5).astype(float), abs=0.01)
    found = competing(columns >= 3, 0.6)
    assert found is not None
    assert found.step[:2] == pytest.approx((0.6, 0.0), abs=0.01)


def test_two_halves_are_in_doubt_by_half_of_their_squared_distance() -> None:
    found = competing(np.tile(np.arange(8), (8, 1)) >= 4, 0.6)
    assert found is not None
    assert found.doubt == pytest.approx((0.5 * 0.6**2, 0.0), abs=0.005)


def lead_of_still(first: int, last: int) -> AreaLead | None:
    """The lead of what stands still over columns `first` to `last` of 8 that move by two cells."""
    columns = np.tile(np.arange(8), (8, 1))
    moved = np.kron((columns >= first) & (columns <= last), np.ones((6, 6), bool))
    motions, normals = [], []
    for whole in (0, 2):
        array = np.zeros((4, 1, 48, 48), np.float32)
        array[:2] = np.random.default_rng(5).normal(0, 1, (2, 1, 48, 48))
        array[3, 0] = np.where(moved, 2 - whole, -whole) * array[0, 0]
        normals.append(NormalEquations(array))
        motions.append(NeighbourhoodMotions(normals[-1], contrast=0.0, noise=0.01))
    steps = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    return lead_of_first((motions[0], motions[1]), normals[0], steps, picture_areas(48, 48, 48, 48))


def test_motions_near_different_whole_shifts_are_compared_by_area() -> None:
    small, large = lead_of_still(5, 7), lead_of_still(2, 7)
    assert small is not None
    assert large is not None
    assert small.lead == pytest.approx(0.25, abs=0.2)
    assert large.lead == pytest.approx(-0.5, abs=0.2)
    assert small.chance < 0.5 < large.chance


def test_a_motion_that_nothing_follows_is_no_part() -> None:
    assert lead_of_still(8, 8) is None


def test_scattered_neighbourhoods_are_not_a_part() -> None:
    assert competing(np.random.default_rng(1).permutation(64).reshape(8, 8) < 24, 0.6) is None


def test_less_than_a_tenth_of_the_picture_is_not_a_part() -> None:
    corner = np.zeros((8, 8), bool)
    corner[:2, :3] = True
    assert competing(corner, 0.6) is None


def pull(contrast: float, dx: float) -> tuple[float, float]:
    """Variances for 8x8 neighbourhoods, of which two columns of a `contrast` move by `dx` cells."""
    random = np.random.default_rng(6)
    moved = np.kron(np.tile(np.arange(8) >= 6, (8, 1)), np.ones((6, 6), bool))
    array = np.zeros((4, 1, 48, 48), np.float32)
    array[:2] = np.where(moved, contrast, 1.0) * random.normal(0, 1, (2, 1, 48, 48))
    array[3, 0] = np.where(moved, dx * array[0, 0], 0.0) + random.normal(0, 0.2, (48, 48))
    normal = NormalEquations(array)
    motions = NeighbourhoodMotions(normal, contrast=0.0, noise=0.01)
    step, _ = normal.solve(None, 0.0)
    return pull_of_contrast(motions, normal, 0.0, step[:2])


def test_contrast_that_moves_with_the_rest_pulls_nothing() -> None:
    assert pull(8.0, 0.0) == (0.0, 0.0)


def test_a_motion_of_what_has_contrast_alone_is_in_doubt() -> None:
    # Least squares go by contrast: 64 * 2 of 64 * 2 + 6. A quarter of the neighbourhoods has a quarter of it.
    along, across = pull(8.0, 0.1)
    assert along == pytest.approx((0.1 * (128 / 134 - 0.25)) ** 2, rel=0.2)
    assert across == 0.0
