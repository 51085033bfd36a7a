"""Cameras inside a panorama: where each sample of a lens with distortion looks."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

pytest.importorskip("skimage", reason="needs scikit-image")

from accuracy.scenes.panorama_turns import Panorama, Turntable, pinhole

PANORAMA = Panorama(np.zeros((4, 8), np.uint8))


@pytest.mark.parametrize(
    "distortion", [(), (-0.25, 0.06, 0.001, -0.001), (-0.3, 0.1, 0.0, 0.0), (0.3, 0.1, 0.0, 0.0)], ids=str
)
def test_a_lens_shows_at_a_sample_what_lies_in_its_direction(distortion: tuple[float, ...]) -> None:
    camera = pinhole(32, 24, 60.0, distortion)
    rays = Turntable(PANORAMA, camera, samples=2)._rays
    matrix = np.array([[camera.fx, 0, camera.cx], [0, camera.fy, camera.cy], [0, 0, 1]])
    coefficients = np.array(distortion or (0.0, 0.0, 0.0, 0.0))
    seen, _ = cv2.projectPoints(
        rays.reshape(-1, 3).astype(float), np.zeros(3), np.zeros(3), matrix, coefficients
    )
    row, column = np.mgrid[:48, :64] / 2 - 0.25
    np.testing.assert_allclose(seen.reshape(48, 64, 2), np.dstack((column, row)), atol=1e-5)


def test_a_lens_that_shows_nothing_at_its_corners_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shows something at every pixel; got Pinhole\(width=32"):
        Turntable(PANORAMA, pinhole(32, 32, 90.0, (-0.25, 0.0, 0.0, 0.0)))
