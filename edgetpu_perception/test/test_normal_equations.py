"""Normal equations of a shift, summed over neighbourhoods."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.normal_equations import NormalEquations


def equations(seed: int) -> NDArray[np.float32]:
    """Derivatives and residuals at random: float32 [4, 2, 27, 30]."""
    return np.random.default_rng(seed).normal(0, 1, (4, 2, 27, 30)).astype(np.float32)


def test_a_changed_residual_gives_the_equations_made_anew() -> None:
    first, second = equations(1), equations(1)
    second[3] = equations(2)[3]
    changed = NormalEquations(first).with_residual(second)
    assert changed.sums == pytest.approx(NormalEquations(second).sums, abs=1e-6)


def test_the_equations_of_another_residual_stay_as_they_are() -> None:
    normal = NormalEquations(equations(1))
    before = normal.sums.copy()
    normal.with_residual(equations(2))
    assert np.array_equal(normal.sums, before)


def test_no_weights_are_equal_ones() -> None:
    normal = NormalEquations(equations(1))
    step, inverse = normal.solve(np.ones(normal.sums.shape[1]), 0.1)
    same_step, same_inverse = normal.solve(None, 0.1)
    assert same_step == pytest.approx(step)
    assert same_inverse == pytest.approx(inverse)


def test_the_agreement_is_that_of_the_cells() -> None:
    cells = equations(1)
    normal = NormalEquations(cells)
    weights = np.linspace(0.0, 1.0, normal.sums.shape[1])
    weighted: NDArray[np.float32] = np.multiply(cells, normal.spread(weights))
    left = weighted[3] - 0.3 * weighted[0] + 0.2 * weighted[1] - 0.1 * weighted[2]
    of_sum, of_difference = np.square(weighted[2]).sum(), np.square(left).sum() / 4
    assert normal.agreement((0.3, -0.2, 0.1), weights) == pytest.approx(
        (of_sum - of_difference) / (of_sum + of_difference), abs=1e-4
    )


def test_the_likeness_is_that_of_the_frames() -> None:
    random = np.random.default_rng(3)
    before, after = random.normal(0, 1, (2, 6, 6)).astype(np.float32)
    cells = np.zeros((4, 1, 6, 6), np.float32)
    cells[2:, 0] = before + after, 2 * (before - after)
    normal = NormalEquations(cells)
    products, powers = normal.likeness(np.square(cells[3]).sum(keepdims=True).reshape(1))
    assert products == pytest.approx([np.vdot(before, after)], rel=1e-4)
    assert powers == pytest.approx([(np.vdot(before, before) + np.vdot(after, after)) / 2], rel=1e-4)


def test_a_few_strong_cells_do_not_change_the_contrast_of_the_middle_neighbourhood() -> None:
    cells = equations(1)
    cells[3] = 0.2 * cells[2]
    cells[2:, :, :12, :12] *= 20.0
    cells[3, :, :12, :12] *= -2.0
    normal = NormalEquations(cells)
    assert normal.solve(None, 0.0)[0][2] < 0.0
    assert normal.median_contrast() == pytest.approx(0.2)


def test_frames_that_agree_nowhere_have_no_contrast() -> None:
    cells = equations(1)
    cells[3] *= 4.0
    assert NormalEquations(cells).median_contrast() is None
