from __future__ import annotations

import numpy as np
import pytest

from edgetpu_perception.pinhole import Pinhole
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
