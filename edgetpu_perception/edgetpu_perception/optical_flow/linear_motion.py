"""Motion that changes along the picture, as of a camera that rolls, drives ahead or sees a slanted plane.

A part that follows one shift may then lie anywhere. Without these changes the picture follows one shift
again, that of its middle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.dominant_motion import (
    MAX_DEVIATION_CELLS,
    common_residual,
    follow,
    unexplained,
)
from edgetpu_perception.optical_flow.normal_equations import Floats, NormalEquations

DEVIATION_CELLS = MAX_DEVIATION_CELLS / 2
"""Deviation, cells, from which on a neighbourhood does not follow the linear motion.

Derived: a linear motion comes to within about half of the difference of a part that moves independently.
"""

DEVIATION_SHARE = 0.1
"""The same as a share of the difference from the motion of the middle.

Least squares of gradients fall short over more than a cell. Chosen on photographs that roll by 3 deg.
"""

STEPS = 4
"""Least-squares steps in which the part that follows is settled. Uncritical from 3 on."""

_UNKNOWNS = 7
"""Unknowns: dx, dy, each with its change along x and y, and contrast. Given by the equations."""

_TRIANGLE = np.triu_indices(_UNKNOWNS)
"""Indices of the upper triangle of a matrix, row by row. Given by _UNKNOWNS."""


def linear_motion(equations: NormalEquations, noise: float) -> tuple[NDArray[np.float64], float]:
    """Change of dx and dy along x and y, [2, 2], and the share of neighbourhoods that follow then, 0..1.

    `noise`: standard deviation of a feature from rounding.
    """
    xx, xy, xc, xr, yy, yc, yr, cc, cr, _ = equations.sums
    x, y = equations.centers
    places = np.stack((np.ones(len(x)), x, y))
    # Products of 1, x and y: each derivative to a change is one to dx or dy times the place.
    pairs = places[:, np.newaxis] * places
    matrix = np.empty((_UNKNOWNS, _UNKNOWNS, len(x)))
    matrix[:3, :3], matrix[:3, 3:6], matrix[3:6, 3:6] = pairs * xx, pairs * xy, pairs * yy
    matrix[:3, 6], matrix[3:6, 6], matrix[6, 6] = places * xc, places * yc, cc
    products = np.concatenate((matrix[_TRIANGLE], places * xr, places * yr, cr[np.newaxis]))
    slope = equations.slope
    common = common_residual(unexplained(equations, 0.0), noise * noise * equations.features)
    weights = np.ones(len(x))
    change = np.zeros((2, 2))
    for _ in range(STEPS):
        solution = _solution(products @ np.square(weights))
        contrast = float(solution[6])
        dx, dy = solution[:6].reshape(2, 3) @ places
        left = equations.left_by_each(dx, dy, contrast)
        change = solution[:6].reshape(2, 3)[:, 1:]
        deviation = DEVIATION_CELLS + DEVIATION_SHARE * np.hypot(*(change @ places[1:]))
        weights = follow(left / (common + np.square(deviation) * slope))
    return change, float(np.mean(weights))


def remove(equations: Floats, change: NDArray[np.float64]) -> None:
    """Take the difference that a linear motion explains from the equations, [4, channels, rows, columns]."""
    rows, columns = equations.shape[2:]
    x = np.arange(columns) - (columns - 1) / 2
    y = (np.arange(rows) - (rows - 1) / 2)[:, np.newaxis]
    for term, (along_x, along_y) in zip(equations[:2], change, strict=True):
        equations[3] -= (along_x * x + along_y * y).astype(np.float32) * term


def _solution(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares from the upper triangle of the normal matrix and the right side: [28 + 7]."""
    matrix = np.empty((_UNKNOWNS, _UNKNOWNS))
    rows, columns = _TRIANGLE
    matrix[rows, columns] = matrix[columns, rows] = sums[:28]
    solution: NDArray[np.float64] = np.linalg.lstsq(matrix, sums[28:], rcond=1e-9)[0].astype(
        np.float64, copy=False
    )
    return solution
