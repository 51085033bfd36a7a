"""Optical flow does not take a motion by one period of a repeating texture for another one."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import OpticalFlow
from edgetpu_perception.optical_flow.repeating_texture import aliases
from edgetpu_perception.optical_flow.shift_registration import ShiftScores

Image = NDArray[np.uint8]

PERIOD = 40
"""Period of the tiles along both axes, px."""


def tiles(x: float, y: float, poster: int | None = None) -> Image:
    """A tiled wall of 320x240 px that has moved by (x, y) px, slightly blurred.

    `poster`: left edge of a poster of 120x120 px on the wall, px, before the motion; None if there is none.
    """
    columns, rows = np.meshgrid(np.arange(960), np.arange(720))
    wall = np.where((columns % PERIOD < 6) | (rows % PERIOD < 6), 80, 160).astype(np.uint8)
    if poster is not None:
        random = np.random.default_rng(3).integers(60, 180, (12, 12)).astype(np.uint8)
        wall[300:420, 320 + poster : 440 + poster] = np.kron(random, np.ones((10, 10), np.uint8))
    view = cv2.warpAffine(
        cv2.GaussianBlur(wall, (0, 0), 3.0), np.array([[1.0, 0.0, x - 320], [0.0, 1.0, y - 240]]), (320, 240)
    )
    return view.astype(np.uint8, copy=False)


@pytest.mark.parametrize(("dx", "dy"), [(0, 0), (27, 3), (-12, 22)])
def test_no_motion_of_equal_tiles_is_told(dx: int, dy: int) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    flow = OpticalFlow()
    flow.update(tiles(0, 0), 0.0)
    assert not flow.update(tiles(dx, dy), 0.1).valid


@pytest.mark.parametrize(("dx", "dy"), [(0, 0), (27, 3), (-12, 22)])
def test_what_does_not_repeat_decides(dx: int, dy: int) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    flow = OpticalFlow()
    flow.update(tiles(0, 0, poster=100), 0.0)
    result = flow.update(tiles(dx, dy, poster=100), 0.1)
    assert result.valid
    assert (result.dx, result.dy) == pytest.approx((dx, dy), abs=0.3)


def test_the_motion_before_decides_while_it_goes_on() -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    flow = OpticalFlow()
    flow.update(tiles(0, 0, poster=210), 0.0)
    # The poster is out of view after four images; the fifth one is skipped.
    for image in (1, 2, 3, 4, 6, 7):
        result = flow.update(tiles(27.5 * image, 0, poster=210), 0.1 * image)
        moved = 27.5 * 10 * (result.stamp - result.previous_stamp)
        assert (result.dx, result.dy) == pytest.approx((moved, 0.0), abs=0.3)


def test_a_motion_between_two_periods_is_not_told() -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    flow = OpticalFlow()
    flow.update(tiles(0, 0, poster=250), 0.0)
    for image in (1, 2, 3, 4):
        assert flow.update(tiles(20 * image, 0, poster=250), 0.1 * image).valid
    # Half a period farther than before: by 40 px or by none.
    assert not flow.update(tiles(120, 0, poster=250), 0.5).valid
    assert not flow.update(tiles(140, 0, poster=250), 0.6).valid


def scores(*peaks: tuple[int, int, float]) -> ShiftScores:
    """Scores of shifts up to 16 cells of maps of 40x40, with round peaks (row, column, correlation)."""
    rows, columns = np.mgrid[:33, :33]
    correlation = np.zeros((33, 33), np.float32)
    for row, column, height in peaks:
        away = np.hypot(rows - row, columns - column)
        correlation = np.maximum(correlation, height * np.exp(-np.square(away) / 4)).astype(np.float32)
    overlap = (40 - abs(rows - 16)) * (40 - abs(columns - 16))
    evidence = (-overlap * np.log1p(-np.square(correlation))).astype(np.float32)
    return ShiftScores(correlation, evidence)


def test_a_second_peak_as_high_as_the_first_is_an_alias_without_lead() -> None:
    found = aliases(scores((16, 16, 0.99), (16, 24, 0.99)), (16, 16), 0.1, 60.0)
    assert found == {(16, 24): pytest.approx(0.0)}


def test_a_lower_peak_is_behind_by_the_evidence_of_its_own_overlap() -> None:
    found = aliases(scores((16, 16, 0.9), (16, 24, 0.7)), (16, 16), 0.1, 60.0)
    # 40 * 32 features.
    assert found == {(16, 24): pytest.approx(128 * (np.log(1 - 0.49) - np.log(1 - 0.81)), rel=0.01)}


def test_peaks_of_two_parts_of_the_picture_are_no_aliases() -> None:
    assert not aliases(scores((16, 16, 0.6), (16, 24, 0.38)), (16, 16), 0.1, 10.0)


def test_peaks_by_chance_are_no_aliases() -> None:
    assert not aliases(scores((16, 16, 0.99), (16, 24, 0.3)), (16, 16), 0.1, 60.0)
