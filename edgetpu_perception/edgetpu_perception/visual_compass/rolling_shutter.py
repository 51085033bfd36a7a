"""Turns between views whose rows were exposed one after another, as most cameras do.

Each row shows the orientation at its own time. While the angular velocity is the same in both views of an
alignment, both are skewed alike, and nothing is lost. Where it changes, the turn between the stamps differs
from the turn between the rows that have texture, and the rows disagree, which shows the readout time.
"""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.alignment_records import Key, RotationAlignment
from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.moving_objects.point_agreement import PointAgreement
from edgetpu_perception.visual_compass.orientation_tracker_state import TrackedPose
from edgetpu_perception.visual_compass.robust_residuals import OUTLIER_DEVIATIONS
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, largest, to_matrix, to_vector
from edgetpu_perception.visual_compass.sideways_motion import EXPLAINED_SIGMAS

READOUT_SIGMA_S = 0.02
"""Standard deviation of the readout time of cameras, s: 0 with a global shutter, 10 to 30 ms without one.

Derived: the usual data sheets.
"""

CERTAIN_SIGMAS = 5.0
"""Readout time, in its standard deviations, above which it is used: most cameras without a rolling shutter
never show one. Derived: certain."""

LEAST_NOISE = 0.05
"""Noise that rounding leaves, grey levels, added to that of the residuals. Uncritical."""

MIN_SKEW_CELLS = 0.08
"""Skew in cells within READOUT_SIGMA_S below which views count as skewed alike; limits the time.

Derived: texture a quarter of the height off the middle is then moved by no more than DISAGREEMENT_CELLS.
"""

LONGEST_INTERVAL_S = 0.15
"""Time in s between two views up to which they show the angular velocity at the stamp of the later one.

Derived: half of the time over which accelerations persist; see ACCELERATION_MEMORY_S.
"""

SHORTEST_INTERVAL_S = 0.002
"""Time in s from which they do: with images that come in a burst, stamped as they arrive, noise would look
like a fast turn. Derived: cameras take up to 500 images per second.
"""

Floats = NDArray[np.float32]


class RollingShutter:
    """Learns how long the camera takes to read its rows, and turns views back to their stamps.

    The stamp of a view is the time of its middle row.
    """

    def __init__(self, aligner: RotationAligner) -> None:
        self._aligner = aligner
        self._information = 1.0 / READOUT_SIGMA_S**2
        self._pull = 0.0
        self._shortest = LONGEST_INTERVAL_S

    @property
    def readout(self) -> float:
        """Time from the first row to the last one, s; negative if the last is read first; 0 until certain.

        Never more than the shortest time between two views, as rows of one view are read before the next.
        """
        if self._pull**2 < CERTAIN_SIGMAS**2 * self._information:
            return 0.0
        return min(max(self._pull / self._information, -self._shortest), self._shortest)

    def follow(
        self, keyframe: Keyframe, alignment: RotationAlignment, last: TrackedPose, stamp: float, learns: bool
    ) -> RotationAlignment:
        """The alignment of a view, taken at `stamp` s, turned back to the stamp and with its velocity.

        `last`: the pose before; `learns`: whether only the shutter can make rows disagree. A view that comes
        less than SHORTEST_INTERVAL_S or more than LONGEST_INTERVAL_S after the last one is not turned back.
        """
        interval = stamp - last.pose.stamp
        if not SHORTEST_INTERVAL_S <= interval <= LONGEST_INTERVAL_S:
            return alignment
        self._shortest = min(self._shortest, interval)
        orientation = keyframe.orientation.dot(alignment.rotation.T)
        mean = to_vector(last.pose.orientation.T.dot(orientation)) / interval
        before = last.measured_velocity if last.heading is not None else mean
        velocity = mean + (mean - before) / 2.0  # both are of the middle between two stamps
        if keyframe.key.velocity is None:
            keyframe.key = dataclasses.replace(keyframe.key, velocity=mean)
        return self.corrected(keyframe.key, alignment, velocity, learns)

    def corrected(
        self, key: Key, alignment: RotationAlignment, velocity: Vector | None, learns: bool = False
    ) -> RotationAlignment:
        """An alignment turned back to the stamps, with the `velocity` of its view; unchanged if unknown."""
        if key.velocity is None or velocity is None:
            return alignment
        rotation = self.rotation(key, alignment, velocity, learns)
        return dataclasses.replace(alignment, rotation=rotation, velocity=velocity)

    def rotation(
        self, key: Key, alignment: RotationAlignment, velocity: Vector | None, learns: bool = False
    ) -> Matrix:
        """The rotation of an alignment, turned back to the stamps; unchanged if a velocity is unknown."""
        before, rotation = key.velocity, alignment.rotation
        if before is None or velocity is None:
            return rotation
        later = rotation.T.dot(velocity)
        change = largest(later - before) * READOUT_SIGMA_S * self._aligner.cells_per_radian
        if change >= MIN_SKEW_CELLS and (learns or self.readout):
            slope = self._slope(key, rotation, np.array((before, -later), np.float32))
            rows = key.jacobian.dot(alignment.stiffness * slope)
            right_side = rows.astype(np.float64)[:, np.newaxis]  # OpenCV 5 expects a column
            by_readout = cv2.solve(alignment.normal, right_side)[1].ravel()
            if learns:
                self._learn(slope - by_readout.astype(np.float32).dot(key.jacobian), alignment.agreement)
            rotation = rotation.dot(to_matrix(-self.readout * by_readout[:3]))
        return rotation

    def _learn(self, slope: Floats, agreement: PointAgreement) -> None:
        """Learn the readout time from the residuals, which change by `slope` with it: [channels * points].

        Weights are computed after the readout time known so far is allowed for; otherwise large residuals
        would not count.
        """
        readout = np.float32(self.readout)
        left = agreement.key - agreement.view - (slope * readout).reshape(agreement.key.shape)
        weight = left * left
        weight /= np.float32((OUTLIER_DEVIATIONS[0] * agreement.noise) ** 2 + 1e-2)
        weight += np.float32(1.0)
        weight = agreement.used / (weight * weight)
        weighted = slope * weight.ravel()
        variance = (EXPLAINED_SIGMAS * (agreement.noise + LEAST_NOISE)) ** 2
        information = float(weighted.dot(slope)) / variance
        self._information += information
        self._pull += float(weighted.dot(left.ravel())) / variance + information * float(readout)

    def _slope(self, key: Key, rotation: Matrix, velocities: Floats) -> Floats:
        """Change of the features with the readout time, per s: [channels * points].

        `velocities`: at the key and, with its sign changed, at the view, about the key's axes, rad/s: [2, 3].
        """
        before, later = velocities.dot(key.jacobian[:3]).reshape(2, *key.points.shape[1:])
        points = self._aligner.points
        lower = to_vector(rotation).astype(np.float32).dot(points.falls)
        slope: Floats = before * points.heights + later * (points.heights + lower)
        return slope.ravel()
