"""Shapes of one flat colour, as opposed to highlights of shaded objects."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.spot_tracker.flat_target import (
    SHADE_TOLERANCE,
    FlatTarget,
    cells_of_color,
    find_flat_target,
)

PEAK = (30, 20)
"""Column and row."""


def found_in(brightness: NDArray[np.float64]) -> FlatTarget | None:
    image = np.repeat(brightness.astype(np.uint8)[..., np.newaxis], 3, axis=2)
    return find_flat_target(cells_of_color(image, PEAK), cells_of_color(image, PEAK, SHADE_TOLERANCE), None)


def squared_distance() -> NDArray[np.float64]:
    row, column = np.mgrid[:64, :64].astype(np.float64)
    squared: NDArray[np.float64] = (column - PEAK[0]) ** 2 + (row - PEAK[1]) ** 2
    return squared


def test_a_disc_of_one_colour_is_a_target() -> None:
    target = found_in(np.where(squared_distance() < 36.0, 220.0, 60.0))
    assert target is not None
    assert (target.x, target.y) == (30.0, 20.0)
    assert target.confidence > 0.99


@pytest.mark.parametrize("radius", [10.0, 20.0, 30.0])
def test_the_highlight_of_a_ball_is_no_target(radius: float) -> None:
    shade = np.sqrt(np.maximum(1.0 - squared_distance() / radius**2, 0.0))
    assert found_in(60.0 + 160.0 * shade) is None
