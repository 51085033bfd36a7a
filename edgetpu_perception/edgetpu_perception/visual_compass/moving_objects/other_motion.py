"""Finds a second motion in a picture, by aligning the texture that does not follow the first."""

from __future__ import annotations

import dataclasses

from edgetpu_perception.visual_compass.alignment_records import Key, RotationAlignment, View
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import Matrix, angle_between
from edgetpu_perception.visual_compass.view_recognition_limits import SIMILARITY_RANGE

MIN_DIFFERENCE_CELLS = 1.0
"""Least difference in cells at which two motions since a keyframe are distinguished.

Rows: compass, an object crosses, noise 8, ends within 1 deg.
"""

MIN_SUPPORT_SHARE = 0.1
"""Least support of the second motion as a share of that of the first. Rows: the same."""


class OtherMotion:
    """Finds a second motion in a picture: either of the two may be that of the camera."""

    def __init__(self, aligner: RotationAligner) -> None:
        self._aligner = aligner
        self._key: Key | None = None
        self._whole: Key | None = None
        """`_key` including the points that were left out of it."""
        self.least_difference = MIN_DIFFERENCE_CELLS / aligner.cells_per_radian
        """MIN_DIFFERENCE_CELLS, rad."""

    def find(
        self,
        found: RotationAlignment,
        key: Key,
        view: View,
        guess: Matrix,
        *,
        min_following: float,
        min_area_share: float,
    ) -> RotationAlignment | None:
        """Align the texture that does not follow `found`, from a guess; None if support is too low.

        `min_following`: least share of that texture that has to follow the result, 0..1. `min_area_share`:
        least area that follows the result, as a share of the area that follows either motion, 0..1.
        """
        aligner = self._aligner
        rest = aligner.not_following(found)
        if not aligner.any_in_view(rest, guess):
            return None
        other = aligner.align(dataclasses.replace(self._whole_key(key), standing=rest), view, guess)
        if (
            not other.converged
            or other.similarity < SIMILARITY_RANGE[1]
            or other.following < min_following
            or angle_between(other.rotation, found.rotation) < self.least_difference
        ):
            return None
        noise = min(found.agreement.noise, other.agreement.noise)
        supports, contradicts = (each.agreement.measure(noise)[2] for each in (other, found))
        if supports < MIN_SUPPORT_SHARE * contradicts:
            return None
        if aligner.area_share(other, found) < min_area_share:
            return None
        everything = dataclasses.replace(other.agreement, used=other.inside)
        following = everything.measure()[1]
        return dataclasses.replace(
            other, following=following, agreement=everything, influence=other.influence / max(following, 0.2)
        )

    def _whole_key(self, key: Key) -> Key:
        """The key with all points of its view."""
        if key.standing is None:
            return key
        if key is not self._key or self._whole is None:
            self._key, self._whole = key, self._aligner.key(key.view)
        return self._whole
