"""Rotations of a rigid body: 3x3 matrices, rotation vectors in rad, and the part about one axis."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

OPTICAL_AXIS = np.array((0.0, 0.0, 1.0))
"""Direction in which a camera looks, in its optical frame. Given by REP-103."""


def to_matrix(vector: Vector) -> Matrix:
    """Rotation by |vector| rad about the vector, right-handed."""
    matrix: Matrix = cv2.Rodrigues(vector)[0]
    return matrix


def to_vector(matrix: Matrix) -> Vector:
    """Rotation vector of a matrix, 0..pi long."""
    vector: Vector = cv2.Rodrigues(matrix)[0].ravel()
    return vector


def orthonormal(matrix: Matrix) -> Matrix:
    """The rotation nearest to an almost orthonormal matrix, against rounding errors of products."""
    return to_matrix(to_vector(matrix))


def trace(matrix: Matrix) -> float:
    """Sum of the diagonal of a 3x3 matrix, in a fifth of the time of NumPy's."""
    return float(matrix[0, 0] + matrix[1, 1] + matrix[2, 2])


def largest(vector: Vector) -> float:
    """Largest magnitude of the components, in a fourth of the time of NumPy's."""
    return float(max(map(abs, vector.tolist())))


def angle_between(a: Matrix, b: Matrix) -> float:
    """Angle of the rotation from one orientation to the other, rad."""
    cosine = (float(np.vdot(a, b)) - 1.0) / 2.0
    return math.acos(min(max(cosine, -1.0), 1.0))


def twist_angle(matrix: Matrix, axis: Vector) -> float:
    """Angle of a rotation's twist about a unit axis, -pi..pi; the rest is about perpendicular axes."""
    x, y, z = (
        float(matrix[2, 1] - matrix[1, 2]),
        float(matrix[0, 2] - matrix[2, 0]),
        float(matrix[1, 0] - matrix[0, 1]),
    )
    # The quaternion's vector part over its scalar part, both multiplied by four times the scalar part.
    along = x * axis[0] + y * axis[1] + z * axis[2]
    angle = 2.0 * math.atan2(along, 1.0 + trace(matrix))
    return math.remainder(angle, 2.0 * math.pi)


def horizontal_part(vector: Vector, up: Vector) -> Vector:
    """Unit vector along the horizontal part of a unit vector; the vector itself if it is vertical."""
    level = vector - vector.dot(up) * up
    length = math.sqrt(float(level.dot(level)))
    return level / length if length > 1e-6 else vector
