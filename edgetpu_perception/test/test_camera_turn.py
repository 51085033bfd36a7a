"""Turn and growth of the picture, found from the normal equations of its neighbourhoods."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.camera_turn import remove, turn_and_growth
from edgetpu_perception.optical_flow.normal_equations import NormalEquations


def equations(growth: float, turn: float, dx: float = 0.0) -> NDArray[np.float32]:
    """Equations of a channel of 48x48 cells that turns, grows and moves: float32 [4, 1, 48, 48]."""
    array = np.zeros((4, 1, 48, 48), np.float32)
    array[:2] = np.random.default_rng(5).normal(0, 1, (2, 1, 48, 48))
    y, x = np.mgrid[:48, :48] - 23.5
    array[3] = (dx + growth * x - turn * y) * array[0] + (growth * y + turn * x) * array[1]
    return array


@pytest.mark.parametrize(("growth", "turn"), [(0.0, 0.02), (0.01, 0.0), (-0.01, 0.01)])
def test_turn_and_growth_are_found_beside_a_shift(growth: float, turn: float) -> None:
    found = turn_and_growth(NormalEquations(equations(growth, turn, 0.3)), noise=0.01)
    assert found == pytest.approx((growth, turn, 1.0), abs=1e-3)


def test_what_they_explain_is_removed() -> None:
    array = equations(0.01, 0.02)
    remove(array, 0.01, 0.02)
    assert array[3] == pytest.approx(0.0, abs=1e-5)


def test_a_part_that_moves_does_not_follow_a_turn() -> None:
    array = equations(0.0, 0.0)
    array[3, :, :, 30:] = 0.8 * array[0, :, :, 30:]
    assert turn_and_growth(NormalEquations(array), noise=0.01)[2] < 0.75
