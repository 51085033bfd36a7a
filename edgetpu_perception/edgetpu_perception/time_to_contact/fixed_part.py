"""Search for a part of the image that is fixed to the camera: it stands still while the rest moves.

Parts of the robot itself are fixed to its camera. As they are known not to move in the image, they are found
even where a free motion would adapt to them and to the rest at once.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.homography_alignment import Map
from edgetpu_perception.time_to_contact.independent_motion import CELL_ELEMENTS, SQUARE_SIDES_CELLS
from edgetpu_perception.time_to_contact.surface_tracker_limits import (
    COUNTED_VARIANCES,
    ESTABLISHED_EVIDENCE,
    NOISE_CORRELATION,
    WINDOW_ELEMENTS,
)

_MIN_GAIN = 1.0
"""Mean gain of a neighbourhood, in variances of a residual, above which its element counts as evidence.

Derived: even among all neighbourhoods of a map noise alone hardly ever gains as much, whatever the motion.
"""

_MIN_SIZE = (SQUARE_SIDES_CELLS[0] * CELL_ELEMENTS) ** 2
"""Least number of such elements. A smaller part, such as a speck, is an outlier of the main surface.

Derived: the smallest square that may have a motion of its own.
"""


class FixedPartSearch:
    """Looks for a part that is fixed to the camera, in one image or, to be more certain, in two in a row.

    In a single image, fine texture that has moved for only a short time may seem to stand still in places.
    """

    def __init__(self) -> None:
        self._before: NDArray[np.bool_] | None = None

    def find(
        self, moving: Map, standing: Map, inside: NDArray[np.bool_], *, twice: bool
    ) -> tuple[NDArray[np.bool_], float] | None:
        """The part and its evidence, as of `fixed_part`; None if the evidence is not sufficient.

        `twice`: only evidence within the part that the last search found counts.
        """
        before, self._before = self._before, None
        part, evidence = fixed_part(moving, standing, inside)
        if evidence < ESTABLISHED_EVIDENCE:
            return None
        self._before = part
        if twice:
            evidence = 0.0 if before is None else fixed_part(moving, standing, inside & before)[1]
        return (part, evidence) if evidence >= ESTABLISHED_EVIDENCE else None


def fixed_part(moving: Map, standing: Map, inside: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], float]:
    """Elements that standing still explains best, bool [rows, columns], and the chi-square that it gains.

    `moving`, `standing`: squared residuals over their variance, of the motions known so far and of no motion;
    `inside`: elements that both the image and the keyframe have.
    """
    gain = (np.minimum(moving, COUNTED_VARIANCES) - np.minimum(standing, COUNTED_VARIANCES)) * inside
    around = cv2.blur(gain, (WINDOW_ELEMENTS, WINDOW_ELEMENTS))
    certain = gain[around > _MIN_GAIN]
    evidence = float(certain.sum()) / NOISE_CORRELATION**2 if certain.size >= _MIN_SIZE else 0.0
    return around > 0, evidence
