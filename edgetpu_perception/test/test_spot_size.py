"""How large the spot tracker says that a spot looks."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.images.region import Region
from edgetpu_perception import SpotTracker
from edgetpu_perception.spot_tracker.spot_tracker import SpotResult

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

WHITE, RED = (240, 240, 240), (220, 30, 30)
_FINE = 8
"""Points across a px, of which a disc on its edge covers a share."""


def disc(diameter: float, rgb: tuple[int, int, int], u: float = 170.6, v: float = 110.2) -> NDArray[np.uint8]:
    """A disc on grey, 240 px high and 320 px wide, with noise as a camera has it."""
    left, top = (max(0, int(middle - diameter / 2) - 1) for middle in (u, v))
    right, bottom = (int(middle + diameter / 2) + 2 for middle in (u, v))
    y, x = (np.mgrid[top * _FINE : bottom * _FINE, left * _FINE : right * _FINE] + 0.5) / _FINE - 0.5
    covered = np.hypot(x - u, y - v) < diameter / 2
    shares = covered.reshape(bottom - top, _FINE, right - left, _FINE).mean(axis=(1, 3))
    share = np.zeros((240, 320, 1))
    share[top:bottom, left:right, 0] = shares[: 240 - top, : 320 - left]
    noise = np.random.default_rng(0).normal(0, 2, (240, 320, 3))
    return np.clip(60 * (1 - share) + np.array(rgb) * share + noise, 0, 255).astype(np.uint8)


def seen(image: NDArray[np.uint8], color: str | None = None) -> SpotResult:
    """What a tracker that measures sizes makes of an image."""
    tracker = SpotTracker(color=color)
    tracker.measure_size = True
    result = tracker.update(image)
    assert result.valid
    return result


@pytest.mark.parametrize("diameter", [4, 6, 13, 26, 42, 80, 150])
@pytest.mark.parametrize(("rgb", "color"), [(WHITE, None), (RED, "red")], ids=["lamp", "red"])
def test_the_diameter_of_a_disc_is_right_within_a_third_of_a_pixel(
    diameter: float, rgb: tuple[int, int, int], color: str | None
) -> None:
    assert seen(disc(diameter, rgb), color).diameter == pytest.approx(diameter, abs=0.33)


def test_blur_leaves_the_diameter_as_it_is() -> None:
    assert seen(cv2.GaussianBlur(disc(20, WHITE), (0, 0), 2.0)).diameter == pytest.approx(20, abs=0.6)


def test_the_position_is_also_in_pixels() -> None:
    result = seen(disc(20, RED), "red")
    assert (result.u, result.v) == pytest.approx((170.6, 110.2), abs=0.3)


@pytest.mark.parametrize(("u", "v"), [(305.0, 110.2), (14.0, 110.2), (170.6, 226.0), (170.6, 13.0)])
def test_a_spot_that_a_border_cuts_off_has_the_diameter_of_what_is_seen_along_it(u: float, v: float) -> None:
    assert seen(disc(60, RED, u, v), "red").diameter == pytest.approx(60, abs=1.0)


@pytest.mark.parametrize(("u", "v"), [(320.0, 110.2), (305.0, 226.0)], ids=["by half", "by two borders"])
def test_a_spot_of_which_too_little_is_seen_has_no_diameter(u: float, v: float) -> None:
    assert math.isnan(seen(disc(60, RED, u, v), "red").diameter)


def test_the_edge_of_the_region_cuts_off_as_the_border_does() -> None:
    tracker = SpotTracker(color="red")
    tracker.measure_size = True
    tracker.region = Region(100, 60, 80, 120)  # up to column 180
    assert tracker.update(disc(30, RED)).diameter == pytest.approx(30, abs=1.0)
    assert math.isnan(tracker.update(disc(30, RED, u=180.0)).diameter)


def test_sizes_are_measured_only_on_request() -> None:
    assert math.isnan(SpotTracker().update(disc(20, WHITE)).diameter)
