"""Before a plain road, optical flow does not take the motion of a car for that of the camera."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import FlowResult, OpticalFlow
from edgetpu_perception.optical_flow.dominant_motion import NeighbourhoodMotions
from edgetpu_perception.optical_flow.faint_part import FaintPart, faint_part
from edgetpu_perception.optical_flow.normal_equations import NormalEquations
from edgetpu_perception.optical_flow.part_areas import picture_areas

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

WIDTH, HEIGHT = 320, 240

NOISE = 2.0
"""Standard deviation of each px, grey levels."""

CAR = 12
"""Motion of the car to the right, px."""


def texture(seed: int, contrast: float) -> NDArray[np.float32]:
    """Smooth random grey levels around 128, larger than the picture."""
    random = np.random.default_rng(seed)
    rough = cv2.GaussianBlur(random.normal(0, 1, (HEIGHT + 80, WIDTH + 80)).astype(np.float32), (0, 0), 6.0)
    grey: NDArray[np.float32] = (128 + contrast * rough / rough.std()).astype(np.float32)
    return grey


def passed_by(seed: int, grain: float, camera: tuple[int, int]) -> FlowResult:
    """The flow as a car of 13 % of the picture passes by and the road moves by `camera` px.

    `grain`: standard deviation of the road, grey levels.
    """
    road, car = texture(seed, grain), texture(seed + 100, 60.0)
    random = np.random.default_rng(seed)
    flow = OpticalFlow()
    for time in range(2):
        left, top = 40 - camera[0] * time, 40 - camera[1] * time
        view = road[top : top + HEIGHT, left : left + WIDTH].copy()
        at = 100 + CAR * time
        view[70:170, at : at + 100] = car[:100, :100]
        view += random.normal(0, NOISE, view.shape)
        result = flow.update(np.clip(np.rint(view), 0, 255).astype(np.uint8), 0.1 * time)
    return result


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("camera", [(0, 0), (-5, 3)])
def test_a_road_with_a_third_of_the_noise_as_grain_shows_how_the_camera_moves(
    seed: int, camera: tuple[int, int]
) -> None:
    result = passed_by(seed, 0.7, camera)
    assert result.valid
    assert (result.dx, result.dy) == pytest.approx(camera, abs=1.0)
    assert abs(result.dx - camera[0]) < 2 * result.dx_sigma
    assert abs(result.dy - camera[1]) < 2 * result.dy_sigma


@pytest.mark.parametrize("seed", range(4))
def test_before_a_road_without_any_grain_the_motion_is_that_of_all_that_shows(seed: int) -> None:
    result = passed_by(seed, 0.0, (0, 0))
    assert result.valid
    assert (result.dx, result.dy) == pytest.approx((CAR, 0.0), abs=0.2)


def equations(
    before: NDArray[np.float32], after: NDArray[np.float32], random: np.random.Generator
) -> NDArray[np.float32]:
    """Equations of a whole shift between two frames, of gradients as strong as the frames: [4, 1, 48, 48]."""
    gradient = random.normal(0, 1, (2, *before.shape)) * np.abs(before + after)
    return np.stack([*gradient, before + after, 2 * (before - after)])[:, np.newaxis].astype(np.float32)


def compared(grain: float, seed: int = 1) -> FaintPart:
    """What faint texture of 48x48 cells says: a car in the last 12 columns moves, and the rest does not.

    `grain`: standard deviation of the rest; that of its noise is 1, and that of the car is 50.
    """
    random = np.random.default_rng(seed)

    def drawn() -> NDArray[np.float32]:
        cells = random.normal(0, grain, (48, 48))
        cells[:, 36:] = random.normal(0, 50, (48, 12))
        return cells.astype(np.float32)

    first, unrelated = drawn(), drawn()
    noise = random.normal(0, 1, (2, 48, 48)).astype(np.float32)
    with_car, still = unrelated.copy(), first.copy()
    with_car[:, 36:], still[:, 36:] = first[:, 36:], unrelated[:, 36:]
    normals = [
        NormalEquations(equations(first + noise[0], second + noise[1], random))
        for second in (with_car, still)
    ]
    motions = [NeighbourhoodMotions(normal, contrast=0.0, noise=0.01) for normal in normals]
    areas = picture_areas(48, 48, 48, 48)
    return faint_part((motions[0], motions[1]), (normals[0], normals[1]), (0.0, 0.0), 0.0, areas)


def test_the_faint_part_is_the_larger_one() -> None:
    part = compared(grain=1.0)
    assert part.step[:2] == pytest.approx((0.0, 0.0), abs=0.1)
    assert part.area_lead.lead > 0.2
    assert part.weights.reshape(8, 8)[:, 6:].max() < 0.01


@pytest.mark.parametrize(("grain", "correlation"), [(1.0, 0.5), (2.0, 0.8)])
def test_the_evidence_is_that_of_the_correlation(grain: float, correlation: float) -> None:
    # 48 flat neighbourhoods of 36 cells, a tenth of which are independent.
    expected = -172.8 * np.log(1 - correlation**2)
    part = compared(grain)
    assert part.evidence == pytest.approx(expected, rel=0.15)
    assert part.evidence_lead == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_no_evidence(seed: int) -> None:
    assert abs(compared(0.0, seed).evidence_lead) < 3.0
