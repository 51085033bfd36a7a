"""Turn and growth of the picture about its middle, as of a camera that rolls or drives ahead.

Each place then moves differently, and a part that follows one shift may lie anywhere. Without turn and growth
the picture follows one shift again, that of its middle.
"""

from __future__ import annotations

import math

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
"""Deviation, cells, from which on a neighbourhood does not follow shift, turn and growth together.

Derived: two more unknowns explain half of what an independent motion of a part differs by.
"""

DEVIATION_SHARE = 0.1
"""The same as a share of its own turn and growth.

Least squares of gradients fall short over more than a cell. Chosen on photographs that roll by 3 deg.
"""

STEPS = 4
"""Least-squares steps in which the part that follows is settled. Uncritical from 3 on."""

_UNKNOWNS = 5
"""Unknowns: dx, dy, contrast, growth, turn. Given by the equations."""

_TRIANGLE = np.triu_indices(_UNKNOWNS)
"""Indices of the upper triangle of a matrix, row by row. Given by _UNKNOWNS."""


def turn_and_growth(equations: NormalEquations, noise: float) -> tuple[float, float, float]:
    """Growth, turn (rad, from x to y), and the share of neighbourhoods that follow with them, 0..1.

    `noise`: standard deviation of a feature from rounding.
    """
    xx, xy, xc, xr, yy, yc, yr, cc, cr, _ = equations.sums
    x, y = equations.centers
    # The derivatives to growth and turn are made of those to dx and dy.
    gx, gy, gc, gr = x * xx + y * xy, x * xy + y * yy, x * xc + y * yc, x * xr + y * yr
    tx, ty, tc, tr = x * xy - y * xx, x * yy - y * xy, x * yc - y * xc, x * yr - y * xr
    gg, gt, tt = x * gx + y * gy, x * gy - y * gx, x * ty - y * tx
    products = np.stack((xx, xy, xc, gx, tx, yy, yc, gy, ty, cc, gc, tc, gg, gt, tt, xr, yr, cr, gr, tr))
    slope, distance = equations.slope, np.hypot(x, y)
    common = common_residual(unexplained(equations, 0.0), noise * noise * equations.features)
    weights = np.ones(len(x))
    growth = turn = 0.0
    for _ in range(STEPS):
        dx, dy, contrast, growth, turn = _solution(products @ np.square(weights))
        left = equations.left_by_each(dx + growth * x - turn * y, dy + growth * y + turn * x, contrast)
        deviation = DEVIATION_CELLS + DEVIATION_SHARE * math.hypot(growth, turn) * distance
        weights = follow(left / (common + np.square(deviation) * slope))
    return growth, turn, float(np.mean(weights))


def remove(equations: Floats, growth: float, turn: float) -> None:
    """Take the difference that growth and turn explain from the equations, [4, channels, rows, columns]."""
    rows, columns = equations.shape[2:]
    x = np.arange(columns, dtype=np.float32) - np.float32((columns - 1) / 2)
    y = (np.arange(rows, dtype=np.float32) - np.float32((rows - 1) / 2))[:, np.newaxis]
    dx, dy = growth * x - turn * y, growth * y + turn * x
    equations[3] -= dx.astype(np.float32) * equations[0] + dy.astype(np.float32) * equations[1]


def _solution(sums: NDArray[np.float64]) -> list[float]:
    """Least squares from the upper triangle of the normal matrix and the right side: [15 + 5]."""
    matrix = np.empty((_UNKNOWNS, _UNKNOWNS))
    rows, columns = _TRIANGLE
    matrix[rows, columns] = matrix[columns, rows] = sums[:15]
    solution: list[float] = np.linalg.lstsq(matrix, sums[15:], rcond=1e-9)[0].tolist()
    return solution
