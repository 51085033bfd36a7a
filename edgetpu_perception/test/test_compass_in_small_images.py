"""The visual compass in images of fewer px than the model's input, such as a thermal camera's."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_perception.algorithm import ImageInput
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.optical_flow.magnification import NONE, Magnification
from edgetpu_perception.visual_compass.compass_features import CompassFeatures, compass_features
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from testdata.pictures.turning_camera import FRAME, World, degrees, rms

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

SAMPLES = 3
"""Samples of the world along each side of a px."""

RATE = 90.0
"""deg/s"""

SETTLED = 6
"""Images at the start that do not count: the filter has no rate at first."""


def camera(side: int) -> Pinhole:
    """A camera of side x side px that sees 75 deg."""
    focal, middle = side / 2 / math.tan(math.radians(75) / 2), (side - 1) / 2
    return Pinhole(side, side, focal, focal, middle, middle)


def errors_and_sigmas(side: int, field: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Errors and sigmas of a field in a turn by 180 deg, deg or deg/s, with noise of 2 grey levels."""
    world, compass = World(camera(SAMPLES * side), seed), VisualCompass(camera=camera(side))
    world.waves *= 1.5  # as fine as the px show
    yaws, results = RATE * FRAME * np.arange(61), []
    for number, yaw in enumerate(yaws.tolist()):
        fine = world.image(yaw, noise=0.0)
        px = cv2.resize(fine, (side, side), interpolation=cv2.INTER_AREA) + world.random.normal(
            0, 2, (side, side)
        )
        image = np.clip(np.rint(px), 0, 255).astype(np.uint8)
        results.append(compass.update(image, number * FRAME))
    seen = results[SETTLED:]
    assert all(result.valid for result in seen)
    truth = yaws[SETTLED:] if field == "yaw" else RATE
    return degrees(seen, field) - truth, degrees(seen, f"{field}_sigma")


def reader(width: int, height: int) -> CompassFeatures:
    engine = CpuEngine(features.build())
    return compass_features(ImageInput.of(engine.inputs), engine.outputs, width, height)


def test_px_do_not_hold_the_rate() -> None:
    errors, sigmas = errors_and_sigmas(20, "yaw_rate", 7)
    assert rms(errors) < 0.8
    assert 0.5 < np.mean(np.abs(errors) < sigmas) < 0.9


def test_sigmas_of_the_yaw_are_honest() -> None:
    errors, sigmas = np.hstack([errors_and_sigmas(24, "yaw", seed) for seed in (7, 8, 9)])
    assert rms(errors) < 0.15
    assert 0.5 < np.mean(np.abs(errors) < sigmas) < 0.9


def test_averages_of_features_leave_out_the_border() -> None:
    grid = reader(16, 16).grid
    assert grid.magnification == Magnification(4.0, 4.0)
    assert (grid.rows, grid.columns, grid.first) == (44, 44, 10)
    assert grid.blurs.tolist() == [1.2 + 79 / 12] * 2


def test_each_axis_has_a_blur_of_its_own() -> None:
    grid = reader(640, 16).grid
    assert grid.magnification == (1.0, 4.0)
    assert grid.blurs.tolist() == [1.2, 1.2 + 79 / 12]


def test_features_of_images_that_are_hardly_enlarged_are_taken_as_they_are() -> None:
    grid = reader(40, 37).grid
    assert grid.magnification == NONE
    assert (grid.rows, grid.columns, grid.first) == (52, 52, 6)
    assert grid.blurs.tolist() == [1.2, 1.2]


def test_an_image_of_two_px_has_half_of_the_features() -> None:
    grid = reader(2, 2).grid
    assert (grid.rows, grid.columns, grid.first) == (26, 26, 19)
