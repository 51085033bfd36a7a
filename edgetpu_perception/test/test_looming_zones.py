"""Time to contact: the zones of the image and the model of each."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_perception.time_to_contact.looming import Looming
from testdata.pictures.approached_wall import Wall, watch


class TestZones:
    @pytest.mark.parametrize("level", [0, 100, 255])
    def test_of_a_uniform_image_are_zero(self, looming: Looming, level: int) -> None:
        assert looming.update(np.full((64, 64), level, np.uint8), 0.0).zones == (0.0,) * 9

    @pytest.mark.parametrize("zone", range(9))
    def test_locate_a_contrast_of_10_grey_levels(self, looming: Looming, zone: int) -> None:
        row, column = divmod(zone, 3)
        image = np.full((64, 64), 100, np.uint8)
        image[21 * row + 4 : 21 * row + 18, 21 * column + 8 : 21 * column + 14] += 10
        zones = looming.update(image, 0.0).zones
        assert zones[zone] > 1.0
        assert sum(zones) == zones[zone]

    def test_grow_with_the_contrast(self, looming: Looming) -> None:
        stripes = np.zeros((64, 64))
        stripes[:, ::8] = 1
        stripes[:, 1::8] = 1
        zones = np.array(
            [looming.update((20 + c * stripes).astype(np.uint8), 0.0).zones for c in range(0, 230, 10)]
        )
        assert (np.diff(zones, axis=0) > 0).all()

    def test_of_a_ramp_are_its_slope_squared(self, looming: Looming) -> None:
        ramp = np.tile(np.arange(0, 192, 3, dtype=np.uint8), (64, 1))
        result = looming.update(ramp, 0.0)
        assert result.zones == (9.0,) * 9
        assert result.tau == 1.0

    def test_tau_compares_the_centre_with_the_rest(self, looming: Looming) -> None:
        image = np.tile(np.arange(0, 128, 2, dtype=np.uint8), (64, 1))
        image[24:40, 24:40] += 60
        result = looming.update(image, 0.0)
        assert result.tau == pytest.approx(result.zones[4] / 4.0)
        assert result.tau > 10


class TestZoneModel:
    """The published looming model with zone energies as output."""

    @pytest.fixture
    def looming(self, golden) -> Looming:  # type: ignore[no-untyped-def]
        return Looming(CpuEngine(golden.model("looming_64x64_3x3.tflite")))

    def test_ignores_its_border(self, looming: Looming) -> None:
        for level in range(0, 256, 25):
            assert looming.update(np.full((64, 64), level, np.uint8), 0.0).zones == (0.0,) * 9

    def test_gives_energies_within_its_steps(self, looming: Looming) -> None:
        image = Wall(noise=0).seen(2.0)
        right = cv2.Sobel(image, cv2.CV_64F, 1, 0) / 8
        down = cv2.Sobel(image, cv2.CV_64F, 0, 1) / 8
        energy = right**2 + down**2
        blocks = [
            energy[max(21 * r, 1) : 21 * r + 21, max(21 * c, 1) : 21 * c + 21]
            for r in range(3)
            for c in range(3)
        ]
        true = np.array([block.mean() for block in blocks])
        # Squares below half a step of 71.6 are lost before the sum.
        assert np.abs(np.array(looming.update(image, 0.0).zones) - true).max() < 60

    def test_gives_no_time_to_contact(self, looming: Looming) -> None:
        wall = Wall()
        for result in watch(looming, lambda t: wall.seen(t), 0.5):
            assert not result.valid
            assert math.isnan(result.ttc)
            assert result.tau > 0
