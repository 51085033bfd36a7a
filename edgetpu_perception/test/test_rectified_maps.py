"""Time to contact through lenses with distortion."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.camera_intrinsics import Pinhole, undistorted
from edgetpu_perception.time_to_contact.homography_alignment import Grid
from edgetpu_perception.time_to_contact.looming import Looming
from edgetpu_perception.time_to_contact.rectified_maps import FARTHEST, RectifiedMaps

SIDE = 128
BARREL = (-0.3, 0.1, 0.0, 0.0)
LENSES = {
    "plumb_bob": Pinhole(SIDE, SIDE, 77, 77, 63.5, 63.5, BARREL),
    "plumb_bob off centre": Pinhole(SIDE, SIDE, 90, 70, 50, 75, BARREL),
    "fisheye": Pinhole(SIDE, SIDE, 61, 61, 63.5, 63.5, fisheye=True),
}
"""Fields of view of 90 and of 120 degrees."""


def directions(camera: Pinhole) -> NDArray[np.float64]:
    """Where each px looks, in the plane z = 1: [2, SIDE, SIDE]."""
    v, u = np.mgrid[:SIDE, :SIDE].astype(np.float64)
    seen = np.stack([(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy])
    if camera.fisheye:
        angle = np.hypot(*seen)
        return seen * np.tan(angle) / angle
    points = seen.reshape(2, -1).T.reshape(-1, 1, 2)
    plane = undistorted(points, np.eye(3), np.array(camera.distortion))
    return plane.reshape(-1, 2).T.reshape(2, SIDE, SIDE)


def wall(camera: Pinhole, distance: float) -> NDArray[np.uint8]:
    """What a camera sees of a wall with waves of all sizes, at a distance, m."""
    random, (x, y) = np.random.default_rng(3), directions(camera) * distance
    grey = np.full((SIDE, SIDE), 128.0)
    for _ in range(60):
        turn, phase = random.uniform(0, 2 * np.pi, 2)
        length = np.exp(random.uniform(np.log(0.8), np.log(14.0)))
        grey += 4.5 * np.cos(length * (np.cos(turn) * x + np.sin(turn) * y) + phase)
    return np.clip(np.rint(grey), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", LENSES)
def test_an_approach_is_measured_through_any_lens(name: str) -> None:
    """Without regard to the lens the rate is 0.87 to 0.64 of the true one."""
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    looming = Looming(camera=LENSES[name])
    results = [looming.update(wall(LENSES[name], 4.0 - t), t) for t in (np.arange(30) / 30).tolist()]
    rates = [r.expansion_rate * (4.0 - r.stamp) for r in results[15:]]
    assert np.median(rates) == pytest.approx(1.0, abs=0.02)
    assert results[-1].approaching


def grid_of(camera: Pinhole) -> Grid:
    return Grid(60, 60, (camera.fx * 60 / SIDE, camera.fy * 60 / SIDE), (camera.cx / 2.14, camera.cy / 2.14))


def maps_of(camera: Pinhole) -> RectifiedMaps:
    made = RectifiedMaps.of(grid_of(camera), camera)
    assert made is not None
    return made


@pytest.mark.parametrize("name", LENSES)
def test_slopes_are_those_of_the_rectified_brightness(name: str) -> None:
    row, column = np.mgrid[:60, :60].astype(np.float32)
    brightness = 40 * np.sin(column / 7) * np.cos(row / 9)
    slope_x = 40 / 7 * np.cos(column / 7) * np.cos(row / 9)
    slope_y = -40 / 9 * np.sin(column / 7) * np.sin(row / 9)
    here, right, down = maps_of(LENSES[name]).apply(brightness, slope_x, slope_y)
    inner = slice(2, -2), slice(2, -2)
    for found, axis in ((down, 0), (right, 1)):
        assert (
            np.abs(found - np.gradient(here, axis=axis))[inner].max() < 0.4
        )  # cv2.remap rounds positions to 1/32


@pytest.mark.parametrize("name", LENSES)
def test_no_element_is_outside_of_the_picture(name: str) -> None:
    maps = maps_of(LENSES[name])
    seen = maps.to_source(maps.grid.x.ravel(), maps.grid.y.ravel())
    assert seen.min() > -0.5
    assert seen.max() < 59.5


def test_a_part_is_told_where_the_picture_shows_it() -> None:
    grid = grid_of(LENSES["fisheye"])
    found = maps_of(LENSES["fisheye"]).part((14.75, 14.75, 44.25, 44.25))  # half of a view of FARTHEST
    half = grid.focal[0] * np.arctan(FARTHEST / 2)
    column, row = grid.to_map[:2, 2]
    assert found == pytest.approx((column - half, row - half, column + half, row + half), abs=0.01)


def test_a_lens_without_distortion_is_left_alone() -> None:
    camera = Pinhole(SIDE, SIDE, 90, 90, 63.5, 63.5, (0.0,) * 5)
    assert RectifiedMaps.of(grid_of(camera), camera) is None


def test_the_border_of_a_lens_of_180_degrees_is_left_out() -> None:
    camera = Pinhole(SIDE, SIDE, 40, 40, 63.5, 63.5, fisheye=True)
    assert float(maps_of(camera).grid.x.max()) == pytest.approx(FARTHEST)


def test_what_folds_back_is_left_out() -> None:
    camera = Pinhole(SIDE, SIDE, 60, 60, 63.5, 63.5, (-0.3, 0.0, 0.0, 0.0))
    grid = maps_of(camera).grid
    assert float(np.hypot(grid.x, grid.y).max()) <= np.sqrt(camera.fold) + 1e-6
