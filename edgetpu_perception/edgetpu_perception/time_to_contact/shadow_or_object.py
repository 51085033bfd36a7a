"""Decides whether what grows is an object, or a pattern of light on another surface, such as a shadow.

The edge of a shadow moves like that of an object. But an object carries its texture along and hides that
of the background. A shadow leaves the texture beneath it where it is, and changes only its brightness.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.homography_alignment import HomographyAlignment, Map
from edgetpu_perception.time_to_contact.noise_and_exposure import MIDDLE_GREY
from edgetpu_perception.time_to_contact.surface import Surface
from edgetpu_perception.time_to_contact.surface_tracker_limits import NOISE_CORRELATION, TRIAL_FRAMES

_LIT_ALIKE_ELEMENTS = 3, 3
"""Sides of the neighbourhood whose brightness may change as a whole, elements.

Derived: the smallest that has a middle, so that the edge of a shadow spoils as few as possible.
"""

_COUNTED_VARIANCES = 9.0
"""Value at which the squared change of texture of an element, over its variance, is clipped.

Derived: three standard deviations. The edge of a shadow must not outweigh the texture.
"""

_DARKEST = 1.0
"""Smallest brightness of a neighbourhood used as a divisor, grey levels. Given as a guard."""


def judge(
    other: Surface, by_main: HomographyAlignment, by_other: HomographyAlignment, image: Map, certainty: Map
) -> None:
    """Judge by the present image whether the texture of the second surface moves with it.

    `image`: brightness minus middle grey; `certainty`: inverse variances; both [rows, columns].
    """
    if other.rate > 0 and other.frames > TRIAL_FRAMES[0] and not other.standing:
        other.take_texture(moves_along(other.membership, by_other, by_main, image, certainty))


def moves_along(
    membership: Map, own: HomographyAlignment, behind: HomographyAlignment, image: Map, certainty: Map
) -> float:
    """Chi-square by which a texture moves with its own surface rather than with the one behind.

    `membership`: of the surface; `own`, `behind`: alignments of both; the others as for `judge`. Everything
    that the surface encloses counts: within a shadow the surface behind explains the image, so only elements
    at the edge belong to the shadow.
    """
    within = _enclosed(membership > 0.5) & own.inside & behind.inside
    seen = image + np.float32(MIDDLE_GREY)
    light = cv2.blur(seen, _LIT_ALIKE_ELEMENTS)
    by_own, by_behind = (
        np.minimum((_change_of_texture(seen, light, each) ** 2 * certainty)[within], _COUNTED_VARIANCES)
        for each in (own, behind)
    )
    return float((by_behind - by_own).sum()) / NOISE_CORRELATION**2


def _enclosed(part: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The convex hull of a part of a map, [rows, columns]."""
    hull = np.zeros(part.shape, np.uint8)
    elements = cv2.findNonZero(part.astype(np.uint8))
    if elements is not None:
        cv2.fillConvexPoly(hull, cv2.convexHull(elements), 1)
    return hull.view(np.bool_)


def _change_of_texture(seen: Map, light: Map, alignment: HomographyAlignment) -> Map:
    """The residual that remains if the brightness of every neighbourhood may change, grey levels.

    `seen`: the image; `light`: its average over the neighbourhood of each element.
    """
    keyframe = seen + alignment.residual
    ratio = light / np.maximum(cv2.blur(keyframe, _LIT_ALIKE_ELEMENTS), np.float32(_DARKEST))
    change: Map = seen - ratio * keyframe
    return change
