"""Weighs the motion that an alignment follows against the one that is expected, such as none.

The noise of an alignment is measured on the quietest features. Where most features move by themselves, it is
theirs, and whatever moves most is followed; the still part of the picture hardly pulls. If the noise is
limited to that of earlier views without objects, an alignment that starts at the expected motion stays there
if part of the picture shows exactly this motion.

Of the two motions, the one that fits the larger area is taken. What fits both, such as a plain table, or
neither may follow either. So their difference is added to the sigma, by the probability that the other one is
the camera's.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from edgetpu_perception.optical_flow.part_areas import AreaLead
from edgetpu_perception.visual_compass.alignment_records import RotationAlignment, View
from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.moving_objects.dominant_object import MIN_AREA_SHARE
from edgetpu_perception.visual_compass.moving_objects.mixed_motions import LEAST_NOISE
from edgetpu_perception.visual_compass.moving_objects.point_agreement import ALL_FOLLOW, MAX_DEVIATION_CELLS
from edgetpu_perception.visual_compass.moving_objects.undetected_object import ForegroundPull
from edgetpu_perception.visual_compass.orientation_tracker_state import Pose
from edgetpu_perception.visual_compass.rotation_alignment import (
    MAX_GUESS_ERROR_CELLS,
    MIN_GAIN,
    RotationAligner,
)
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, largest, to_vector
from edgetpu_perception.visual_compass.view_recognition_limits import SIGMA_RANGE_CELLS

MAX_MISFIT = 0.5
"""Mean misfit of the features around a point, 0..1, up to which they fit a motion. Derived: half."""

HALF = 0.5
"""Least area that fits the expected motion alone, as a share of the area that fits one of the two alone.

Derived: half. For a camera that stood still before something moved it is MIN_AREA_SHARE, as for any steady
course.
"""

UNDECIDED = 0.5
"""Probability of each of two motions that are too similar to compare. Derived: either may be the camera's."""

_STILL = np.eye(3)


class ExpectedMotion:
    """Decides between an alignment and the expected motion, where much of the picture moves by itself."""

    def __init__(self, aligner: RotationAligner, up: Vector, foreground: ForegroundPull) -> None:
        """`up`: vertical unit vector in the world. `foreground`: knows the noise of earlier views."""
        self._aligner = aligner
        self._up = up
        self._foreground = foreground

    def or_rest(
        self, mixed: RotationAlignment, found: RotationAlignment, before: Pose, view: View, rests: bool
    ) -> RotationAlignment:
        """Weigh an alignment against no turn since the keyframe, if that is expected; see `weighed`.

        `before`: the last pose, which is near the keyframe while the camera stands still. `rests`: whether it
        stood still before something moved; any other camera is not expected to stop.
        """
        turned = math.sqrt(float(before.turn.dot(before.turn)))
        if not rests or turned * self._aligner.cells_per_radian > MAX_GUESS_ERROR_CELLS:
            return found
        return self.weighed(mixed, found, _STILL, before.keyframe, view, MIN_AREA_SHARE)

    def weighed(
        self,
        mixed: RotationAlignment,
        found: RotationAlignment,
        expected: Matrix,
        keyframe: Keyframe,
        view: View,
        least_share: float = HALF,
    ) -> RotationAlignment:
        """The better one of an alignment and of the expected motion, with the doubt that it is the camera's.

        `mixed`: the alignment at its own noise. `found`: the same, or what was separated from it. `expected`:
        rotation from the keyframe to the view. `least_share`: see HALF.
        """
        aligner = self._aligner
        if aligner.ahead is not None or mixed.following >= ALL_FOLLOW:
            return found
        axis = self._up.dot(keyframe.orientation)
        cells = aligner.cells_per_radian
        apart = to_vector(found.rotation.dot(expected.T))
        if (
            largest(apart) * cells < MAX_DEVIATION_CELLS
            and _sigma(found, axis) * cells < SIGMA_RANGE_CELLS[0]
        ):
            return dataclasses.replace(found, doubt=UNDECIDED * float(axis.dot(apart)) ** 2)
        noise = max(self._foreground.noise, LEAST_NOISE)
        other = aligner.align(keyframe.key, view, expected, most_noise=noise)
        if not other.converged:
            return found
        apart = to_vector(found.rotation.dot(other.rotation.T))
        square = float(axis.dot(apart)) ** 2
        if largest(apart) * cells < MAX_DEVIATION_CELLS:
            better, chance = min(found, other, key=lambda each: _sigma(each, axis)), UNDECIDED
        else:
            fits_found, fits_other = areas_of_one_motion(aligner, found, other)
            if fits_other == 0.0 or fits_other < least_share * (fits_found + fits_other):
                better, chance = found, chance_of_other(fits_found, fits_other, aligner.blocks)
            else:
                better, chance = other, chance_of_other(fits_other, fits_found, aligner.blocks)
        if better is found:
            return dataclasses.replace(found, doubt=chance * square)
        # Comparable with other views only at the noise of the whole view.
        similarity, following, _ = other.agreement.measure(mixed.agreement.noise)
        return dataclasses.replace(
            other,
            similarity=similarity,
            following=following,
            whole_noise=mixed.agreement.noise,
            doubt=chance * square,
        )


def _sigma(alignment: RotationAlignment, axis: Vector) -> float:
    """Standard deviation of the turn about an axis of the key's frame, rad."""
    influence = axis.dot(alignment.influence)
    return math.sqrt(float(influence.dot(influence)))


def areas_of_one_motion(
    aligner: RotationAligner, one: RotationAlignment, other: RotationAlignment
) -> tuple[float, float]:
    """Areas that fit only the first, and only the second of two alignments, as shares of the picture."""
    of_one, of_other = aligner.misfits(one, other)
    gain = of_other - of_one
    fits_one = (gain > MIN_GAIN) & (of_one < MAX_MISFIT)
    fits_other = (gain < -MIN_GAIN) & (of_other < MAX_MISFIT)
    return float(fits_one.mean()), float(fits_other.mean())


def chance_of_other(one: float, other: float, parts: int) -> float:
    """Probability that the second of two motions has the larger area.

    `one`, `other`: areas that fit only the one or the other, as shares of the picture. `parts`: number of
    parts of the picture that count as independent.
    """
    seen = one + other
    # The rest is between two opposite bounds, with a variance of a third of their square.
    return AreaLead(one - other, math.sqrt(seen * seen / parts + (1.0 - seen) ** 2 / 3.0)).chance
