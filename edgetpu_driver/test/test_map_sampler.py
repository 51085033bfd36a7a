"""Values between the cells of a map."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_operators.map_sampler import MapSampler

VALUES = np.random.default_rng(0).integers(0, 256, (5, 7, 6), dtype=np.uint8)
SCALE, ZERO = 0.01, 128


def real(y: float, x: float, channel: int) -> float:
    """Interpolated linearly by its definition."""
    total = 0.0
    for row in range(5):
        for column in range(7):
            weight = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column))
            total += weight * SCALE * (float(VALUES[row, column, channel]) - ZERO)
    return total


@pytest.mark.parametrize("position", [(0.0, 0.0), (1.25, 2.5), (3.999, 5.999), (2.0, 5.5)])
def test_a_value_between_cells_is_interpolated(position: tuple[float, float]) -> None:
    sampler = MapSampler(VALUES, SCALE, ZERO)
    assert sampler.at(position, 3) == pytest.approx(real(*position, 3))
    many = sampler.at_all(np.array([position[0]]), np.array([position[1]]), np.array([3]))
    assert many == pytest.approx([real(*position, 3)])


def test_the_values_of_cells_are_those_of_the_map() -> None:
    sampler = MapSampler(VALUES, SCALE, ZERO)
    found = sampler.at_cells(np.array([0, 9]), np.array([1, 5]))
    assert found == pytest.approx([real(0, 0, 1), real(1, 2, 5)])


def test_several_displacements_follow_each_other() -> None:
    sampler = MapSampler(VALUES, SCALE, ZERO)
    y, x = 1.25, 2.5
    for _ in range(4):
        y, x = y + real(y, x, 1), x + real(y, x, 4)
        y, x = min(max(y, 0), 4), min(max(x, 0), 6)
    assert sampler.displaced((1.25, 2.5), 1, 3, steps=4) == pytest.approx((y, x))


def test_a_displacement_ends_at_the_border() -> None:
    sampler = MapSampler(np.full((3, 4, 2), 10.0, np.float32), 1.0, 0)
    assert sampler.displaced((1.0, 1.0), 0, 1) == pytest.approx((2.0, 3.0))
    sampler = MapSampler(np.full((3, 4, 2), -10.0, np.float32), 1.0, 0)
    assert sampler.displaced((1.0, 1.0), 0, 1) == (0.0, 0.0)


def test_a_real_value_is_given_in_the_maps_own_steps() -> None:
    assert MapSampler(VALUES, SCALE, ZERO).steps(0.5) == pytest.approx(178)
