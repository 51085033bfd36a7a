"""Linear change of the motion along the picture, found from the normal equations of its neighbourhoods."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.linear_motion import linear_motion, remove
from edgetpu_perception.optical_flow.normal_equations import NormalEquations

TURN_AND_GROWTH = np.array([[0.01, -0.02], [0.02, 0.01]])
SLANT = np.array([[0.0, 0.015], [0.0, 0.0]])


def equations(change: NDArray[np.float64], dx: float = 0.0) -> NDArray[np.float32]:
    """Equations of a channel of 48x48 cells whose motion changes along x and y: float32 [4, 1, 48, 48]."""
    array = np.zeros((4, 1, 48, 48), np.float32)
    array[:2] = np.random.default_rng(5).normal(0, 1, (2, 1, 48, 48))
    y, x = np.mgrid[:48, :48] - 23.5
    for term, (along_x, along_y), shift in zip(array[:2], change, (dx, 0.0), strict=True):
        array[3] += (shift + along_x * x + along_y * y) * term
    return array


@pytest.mark.parametrize("change", [TURN_AND_GROWTH, -TURN_AND_GROWTH, SLANT])
def test_a_linear_motion_is_found_beside_a_shift(change: NDArray[np.float64]) -> None:
    found, following = linear_motion(NormalEquations(equations(change, 0.3)), common=0.01)
    assert found == pytest.approx(change, abs=1e-3)
    assert following == pytest.approx(1.0, abs=1e-3)


def test_what_it_explains_is_removed() -> None:
    array = equations(TURN_AND_GROWTH)
    remove(array, TURN_AND_GROWTH)
    assert array[3] == pytest.approx(0.0, abs=1e-5)


def test_a_part_that_moves_does_not_follow_it() -> None:
    array = equations(np.zeros((2, 2)))
    array[3, :, :, 30:] = 0.8 * array[0, :, :, 30:]
    assert linear_motion(NormalEquations(array), common=0.01)[1] < 0.75


def test_overlaps_of_every_size_keep_no_memory_for_each() -> None:
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        for rows in range(14, 33):
            for columns in range(14, 33):
                linear_motion(NormalEquations(rng.standard_normal((4, 1, rows, columns), np.float32)), 1.0)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 150_000  # the places of all 361 have 500 kB
