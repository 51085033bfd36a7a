"""A view, a key that views are aligned to, and the alignment of both."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.moving_objects.point_agreement import (
    MAX_DEVIATION_CELLS,
    TOLERATED_CELLS,
    PointAgreement,
)
from edgetpu_perception.visual_compass.rotations import Matrix, Vector

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class View:
    """Features of one image, prepared for alignment to a key."""

    planes: Floats
    """Every feature and its derivatives to x and y: [3, channels, rows * columns]."""

    @property
    def texture(self) -> float:
        """Root mean square of the features."""
        features = self.planes[0].ravel()
        return math.sqrt(float(features.dot(features)) / features.size)


@dataclass(frozen=True)
class Key:
    """A view that others are aligned to."""

    view: View
    points: Floats
    """The features and derivatives of `view` at the used points: [3, channels, points]."""
    jacobian: Floats
    """Derivatives of the features at the points with respect to a turn about x, y and z in rad, and to a
    loss of contrast: [4, channels * points]."""
    leverage: Floats
    """Factor that restores the residuals of each block, which the fit reduces: [4, blocks]."""
    contrast: float
    """Sum of squares of all features at the points."""
    spread: float
    """Evenness of the contrast, 0..1: effective number of blocks with contrast over the number of blocks."""
    slack: Floats
    """Squared residual that a deviation by MAX_DEVIATION_CELLS explains: [channels, points]."""
    standing: Floats | None
    """1 for points to use, 0 for those that moved independently: [points]; None to use all."""
    velocity: Vector | None = None
    """Angular velocity of the camera at the stamp, about its optical axes, rad/s; None if it is unknown."""

    @functools.cached_property
    def tolerated(self) -> Floats:
        """Squared residual up to which a point shows no other motion, whatever the noise: [channels, points].

        Applies while little of the picture moves independently; see TOLERATED_CELLS.
        """
        return np.float32((TOLERATED_CELLS / MAX_DEVIATION_CELLS) ** 2) * self.slack


@dataclass(frozen=True)
class Growth:
    """How the picture has grown since a key: forward motion of the camera over the scene's distance."""

    blocks: Vector
    """Forward motion over the distance of each block: [blocks]. Forward is as half-way through the turn."""
    mean: float
    """Forward motion over the distance of the scene."""
    variance: float
    """Variance of `mean`, from the residuals."""
    apparent_turn: float
    """Standard deviation of the apparent turn due to sideways motion, rad."""


@dataclass(frozen=True)
class RotationAlignment:
    """Rotation of the camera between a key and a view."""

    rotation: Matrix
    """From the key's optical frame to the view's."""
    influence: NDArray[np.float64]
    """Contribution of each block of residuals to the rotation, rad about the axes of the key's optical
    frame: [3, blocks]. Blocks are independent."""
    similarity: float
    """Normalised correlation over the overlap, -1..1."""
    overlap: float
    """Share of the key that is in view, 0..1."""
    contrast: float
    """Share of the key's squared contrast that is in view, 0..1."""
    converged: bool
    following: float
    """Share of the visible texture in the overlap that follows this rotation, 0..1."""
    tail: float
    """Standard deviation of all residuals over the one that the smallest imply; see TAIL_RANGE."""
    agreement: PointAgreement
    inside: Floats
    """1 for points of the key that are in view, else 0: [points]."""
    normal: Matrix
    """Normal equations of the rotation about the axes of the key's optical frame in rad, and of the contrast:
    [4, 4]."""
    certainty: float
    """Share of the slopes of the features that is not noise, 0..1."""
    stiffness: Floats
    """Of each residual; see `robust_pull`: [channels * points]."""
    growth: Growth | None = None
    """How the picture has grown; None if the camera was assumed only to turn."""
    velocity: Vector | None = None
    """Angular velocity of the camera at the view's stamp, as `Key.velocity`."""
    whole_noise: float = 0.0
    """Noise including what moves by itself, if that of the agreement was limited to less; else 0."""
    doubt: float = 0.0
    """Variance of the turn about the vertical, as another motion may be the camera's, rad^2."""

    @property
    def information(self) -> Matrix:
        """Inverse covariance of rotation and contrast for residuals with a deviation of 1: [4, 4]."""
        return self.normal * self.certainty**2

    def certainty_about(self, axis: Vector) -> float:
        """Information on a turn about an axis of the key's frame over that on the best known axis.

        Nearly 0 where all edges run along the image motion of such a turn: a horizon shows no yaw.
        """
        variance = self.explained(1.0, axis)
        return 1.0 / (variance * max(self.information.diagonal().tolist()[:3])) if variance > 0.0 else 0.0

    def explained(self, noise: float, axis: Vector) -> float:
        """Variance of a turn about an axis of the key's frame, rad^2; `noise`: sigma of the residuals."""
        return noise * noise * float(axis.dot(self._covariance).dot(axis))

    @functools.cached_property
    def _covariance(self) -> Matrix:
        """Covariance of the rotation for residuals with a standard deviation of 1: [3, 3]."""
        return np.asarray(cv2.invert(self.information)[1])[:3, :3]
