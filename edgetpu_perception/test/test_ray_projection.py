from __future__ import annotations

import numpy as np
import pytest

from edgetpu_perception.camera_intrinsics import CameraError, Pinhole
from edgetpu_perception.visual_compass.compared_points import ComparedPoints
from edgetpu_perception.visual_compass.compass_features import FeatureGrid
from edgetpu_perception.visual_compass.ray_projection import Projection

COLUMNS, ROWS = (each.ravel().astype(np.float64) for each in np.meshgrid(np.arange(2, 14), np.arange(2, 14)))


@pytest.mark.parametrize(
    "camera",
    [
        Pinhole(640, 480, 300, 300, 319.5, 239.5),
        Pinhole(640, 480, 300, 300, 319.5, 239.5, (-0.1, 0.01, 0.001, 0.0)),
        Pinhole(640, 480, 300, 300, 319.5, 239.5, fisheye=True),
        Pinhole(640, 480, 300, 300, 319.5, 239.5, (-0.02, 0.01, -0.005, 0.001), fisheye=True),
    ],
    ids=["pinhole", "plumb_bob", "equidistant", "fisheye"],
)
def test_a_feature_is_seen_where_its_ray_points(camera: Pinhole) -> None:
    projection = Projection(camera, 64, 64, FeatureGrid(16, 16, 2.0, 4.0, 0.5, 0.0, 0.3))
    cells = projection.cells(np.eye(3), projection.rays(COLUMNS, ROWS), np.float64)
    assert np.abs(cells - np.stack([COLUMNS, ROWS])).max() < 2e-3


@pytest.mark.parametrize("height", [192, 144])
def test_no_feature_of_a_fisheye_picture_moves_faster_than_the_turn(height: int) -> None:
    focal_length = 192 / np.pi  # 180 degrees across, so that corners have no direction
    camera = Pinhole(192, height, focal_length, focal_length, 95.5, (height - 1) / 2, fisheye=True)
    grid = FeatureGrid(52, 52, 6.0, 1.0, 1.2, 0.002, 0.3)
    points = ComparedPoints.of(Projection(camera, 64, 64, grid), grid)
    most = 64 / min(192, height) * focal_length * np.pi / 2
    assert np.abs(points.turns).max() < most


def test_a_picture_of_what_is_beside_the_camera_only_is_refused() -> None:
    camera = Pinhole(640, 480, 200, 200, 2000.0, 239.5, fisheye=True)
    grid = FeatureGrid(52, 52, 6.0, 1.0, 1.2, 0.002, 0.3)
    with pytest.raises(CameraError, match="expected a picture with directions within 80 degrees"):
        ComparedPoints.of(Projection(camera, 64, 64, grid), grid)
