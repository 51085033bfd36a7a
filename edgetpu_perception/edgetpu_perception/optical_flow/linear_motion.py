"""Motion that changes along the picture, as of a camera that rolls, drives ahead or sees a slanted plane.

A part that follows one shift may then lie anywhere. Without these changes the picture follows one shift
again, that of its middle.
"""

from __future__ import annotations

import functools

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.dominant_motion import MAX_DEVIATION_CELLS, follow
from edgetpu_perception.optical_flow.normal_equations import (
    MIN_ENERGY,
    PAIRS,
    Floats,
    NormalEquations,
    centers,
)

DEVIATION_CELLS = MAX_DEVIATION_CELLS / 2
"""Deviation, cells, from which on a neighbourhood does not follow the linear motion.

Derived: a linear motion comes to within about half of the difference of a part that moves independently.
"""

DEVIATION_SHARE = 0.1
"""The same as a share of the difference from the motion of the middle.

Least squares of gradients fall short over more than a cell. Uncritical from 0.05 to 0.2; with 0, photographs
that roll by 3 deg are 1.6 px off (rms) instead of 0.2.
"""

STEPS = 3
"""Least-squares steps in which the part that follows is settled. Uncritical from 3 on."""

LEAST_SHARE = 1e-9
"""Added to the normal matrix, as a share of its largest element, so that stripes do not make it singular.

Derived: far above the rounding of its elements, far below what a texture adds.
"""

_UNKNOWNS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0))
"""Unknowns: dx, dy, each with its change along x and y, and contrast: a derivative (dx, dy, contrast) times a
position (1, x, y). Given by the equations."""

_PRODUCTS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""Products of two elements of a position. Given by _UNKNOWNS."""


def _element(first: tuple[int, int], second: tuple[int, int]) -> int:
    """Index in the moments of the product of two terms: a derivative (3: residual) times 1, x or y."""
    (one, here), (other, there) = first, second
    product = _PRODUCTS.index((min(here, there), max(here, there)))
    return product * len(PAIRS) + PAIRS.index((min(one, other), max(one, other)))


_SYSTEM = np.array([[_element(row, column) for column in (*_UNKNOWNS, (3, 0))] for row in _UNKNOWNS])
"""Elements of the normal matrix and its right side in the moments, [7, 8]. Given by _UNKNOWNS."""


def linear_motion(equations: NormalEquations, common: float) -> tuple[NDArray[np.float64], float]:
    """Change of dx and dy along x and y, [2, 2], and the share of neighbourhoods that follow then, 0..1.

    `common`: largest sum of squares that noise leaves in a neighbourhood.
    """
    positions, products = _positions(equations.rows, equations.columns, equations.side)
    slope, sums = equations.slope, equations.sums.T
    weights = np.ones(positions.shape[1])
    change = np.zeros((2, 2))
    for _ in range(STEPS):
        solution = _solution((products * np.square(weights)) @ sums)
        motion = solution[:6].reshape(2, 3)
        change = motion[:, 1:]
        along = change @ positions[1:]
        dx, dy = along + motion[:, :1]
        left = equations.left_by_each(dx, dy, float(solution[6]))
        deviation = DEVIATION_CELLS + DEVIATION_SHARE * np.hypot(*along)
        weights = follow(left / (common + np.square(deviation) * slope))
    return change, float(weights.sum()) / len(weights)


def remove(equations: Floats, change: NDArray[np.float64]) -> None:
    """Take the difference that a linear motion explains from the equations, [4, channels, rows, columns]."""
    rows, columns = equations.shape[2:]
    x = np.arange(columns) - (columns - 1) / 2
    y = (np.arange(rows) - (rows - 1) / 2)[:, np.newaxis]
    for term, (along_x, along_y) in zip(equations[:2], change, strict=True):
        equations[3] -= (along_x * x + along_y * y).astype(np.float32) * term


_POSITIONS_KEPT = 32
"""Sizes of overlaps whose positions are kept. Uncritical: a motion changes them little from image to image.
The 361 that a node meets in time take nearly a megabyte."""


@functools.lru_cache(maxsize=_POSITIONS_KEPT)
def _positions(rows: int, columns: int, side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """1, x and y of each neighbourhood's centre, cells, [3, n], and the products of two of them, [6, n]."""
    x, y = centers(rows, columns, side)
    positions = np.stack((np.ones(len(x)), x, y))
    return positions, np.stack([positions[i] * positions[j] for i, j in _PRODUCTS])


def _solution(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares, [7], from the products of two elements times those of the derivatives, [6, 10]."""
    system = moments.take(_SYSTEM)
    diagonal = system.reshape(-1)[:: len(_UNKNOWNS) + 2]
    diagonal += LEAST_SHARE * float(diagonal.max()) + MIN_ENERGY
    # NumPy takes three times as long for a matrix of this size.
    _, solution = cv2.solve(system[:, :-1], system[:, -1:], flags=cv2.DECOMP_CHOLESKY)
    flat: NDArray[np.float64] = solution.reshape(-1)
    return flat
