"""The normal equations of a shift, summed over neighbourhoods, agree with least squares over all cells."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.normal_equations import NormalEquations, matrix

ROWS, COLUMNS = 18, 27
NEIGHBOURHOODS = 3 * 4
"""About 6 cells each: 18 / 6 rows of them, 27 / 6 columns, rounded."""


def random_equations(channels: int = 2) -> NDArray[np.float32]:
    return np.random.default_rng(3).normal(0, 1, (4, channels, ROWS, COLUMNS)).astype(np.float32)


def of_all_cells(
    array: NDArray[np.float32], weights: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Matrix and right side of the weighted equations: [n, 3] and [n]."""
    flat = (array * weights).reshape(4, -1).astype(np.float64)
    return flat[:3].T, flat[3]


@pytest.mark.parametrize("channels", [1, 2])
def test_the_solution_is_that_of_least_squares_over_the_cells(channels: int) -> None:
    array = random_equations(channels)
    equations = NormalEquations(array)
    weights = np.random.default_rng(4).uniform(0.1, 1.0, NEIGHBOURHOODS)
    a, b = of_all_cells(array, equations.spread(weights))
    step, inverse = equations.solve(weights, roughness=0.0)
    assert step == pytest.approx(np.linalg.lstsq(a, b)[0], rel=1e-4)
    assert matrix(inverse) == pytest.approx(np.linalg.inv(a.T @ a), rel=1e-4, abs=1e-8)


def test_the_bias_of_noise_is_taken_off_the_normal_matrix() -> None:
    array = random_equations()
    a, b = of_all_cells(array, np.ones((ROWS, COLUMNS), np.float32))
    unexplained = np.square(b - a @ np.linalg.lstsq(a, b)[0]).sum()
    normal = a.T @ a - np.diag([0.5, 0.5, 1.0]) * unexplained / 4
    step, _ = NormalEquations(array).solve(np.ones(NEIGHBOURHOODS), roughness=0.5)
    assert step == pytest.approx(np.linalg.solve(normal, a.T @ b), rel=1e-4)


def test_squares_left_are_those_of_the_cells_of_each_neighbourhood() -> None:
    array = random_equations()
    step = 0.3, -0.2, 0.1
    residual = array[3] - np.tensordot(step, array[:3], 1)
    left = NormalEquations(array).left_by(step).reshape(3, 4)
    assert left[1, 0] == pytest.approx(np.square(residual[:, 6:12, :7]).sum(), rel=1e-4)
    assert left.sum() == pytest.approx(np.square(residual).sum(), rel=1e-4)


def test_each_cell_gets_the_value_of_its_neighbourhood() -> None:
    spread = NormalEquations(random_equations()).spread(np.arange(12.0))
    assert spread.shape == (ROWS, COLUMNS)
    assert spread[0, :8].tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    assert spread[17, 26] == 11
