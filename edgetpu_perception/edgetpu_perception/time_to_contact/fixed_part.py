"""Search for a part of the image that is fixed to the camera: it stands still while the rest moves.

A robot's own parts are fixed to it. As their motion is known exactly, they are found where a free motion
would adapt to them and to the rest.
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
"""Mean gain of an element's neighbourhood, in its variance, that counts as evidence.

Derived: among so many neighbourhoods noise alone hardly ever gains as much, whatever the motion.
"""

_MIN_SIZE = (SQUARE_SIDES_CELLS[0] * CELL_ELEMENTS) ** 2
"""Least number of elements: the main surface leaves out a speck on the lens as an outlier.

Derived: the smallest square that may have a motion of its own.
"""


class FixedPartSearch:
    """Looks for a part that is fixed to the camera, in one image or, to be more certain, in two in a row.

    A single image of fine texture, compared over a short time, may seem to stand still in places.
    """

    def __init__(self) -> None:
        self._before: NDArray[np.bool_] | None = None

    def find(
        self, moving: Map, standing: Map, inside: NDArray[np.bool_], *, twice: bool
    ) -> tuple[NDArray[np.bool_], float] | None:
        """The part and its evidence as of `fixed_part`; `twice`: only if the last search found it, too."""
        before, self._before = self._before, None
        part, evidence = fixed_part(moving, standing, inside)
        if evidence < ESTABLISHED_EVIDENCE:
            return None
        self._before = part
        if twice:
            evidence = 0.0 if before is None else fixed_part(moving, standing, inside & before)[1]
        return (part, evidence) if evidence >= ESTABLISHED_EVIDENCE else None


def fixed_part(moving: Map, standing: Map, inside: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], float]:
    """Elements that no motion explains better, and the chi-square that they gain by standing still.

    `moving`, `standing`: squared residuals, in their variance, of the motions known so far and without any;
    `inside`: elements that both the image and the keyframe have.
    """
    gain = (np.minimum(moving, COUNTED_VARIANCES) - np.minimum(standing, COUNTED_VARIANCES)) * inside
    around = cv2.blur(gain, (WINDOW_ELEMENTS, WINDOW_ELEMENTS))
    certain = gain[around > _MIN_GAIN]
    evidence = float(certain.sum()) / NOISE_CORRELATION**2 if certain.size >= _MIN_SIZE else 0.0
    return around > 0, evidence
