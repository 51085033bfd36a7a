"""A surface besides the main one: how it starts, the evidence for it, and its elements of the image."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.homography_alignment import HomographyAlignment, Map, inverse, warp_of
from edgetpu_perception.time_to_contact.independent_motion import IndependentMotion
from edgetpu_perception.time_to_contact.relative_depth_filter import RelativeDepth
from edgetpu_perception.time_to_contact.surface import Surface
from edgetpu_perception.time_to_contact.surface_tracker_limits import (
    COUNTED_VARIANCES,
    LEAST_SHARE,
    MAIN_PREFERENCE,
    MAX_MISFIT,
    MOST_SHARE,
    NOISE_CORRELATION,
    OUTLIER_VARIANCES,
    WINDOW_ELEMENTS,
)


@dataclass(frozen=True)
class Explained:
    """How well a motion explains an image."""

    squares: Map
    """Squared residuals over their variance, [rows, columns]."""
    around: Map
    """`squares` averaged over the neighbourhood of each element."""
    inside: NDArray[np.bool_]
    """bool: elements that both the image and the keyframe have."""

    @classmethod
    def by(cls, alignment: HomographyAlignment, certainty: Map) -> Explained:
        """How well an alignment explains it; `certainty`: inverse variances, [rows, columns]."""
        squares = alignment.residual**2 * certainty
        return cls(squares, cv2.blur(squares, (WINDOW_ELEMENTS, WINDOW_ELEMENTS)), alignment.inside)


def begun_with(found: IndependentMotion, main: Surface) -> Surface:
    """A new surface: the square that moves differently from the main surface."""
    membership = np.full(main.membership.shape, LEAST_SHARE, np.float32)
    membership[found.rows, found.columns] = MOST_SHARE
    warp = main.warp @ inverse(warp_of([*found.step, 0, 0, 0, 0, 0]))
    depth = RelativeDepth(main.rate, main.log_depth, 0.03, main.depth.lasting_error)
    return Surface(membership, warp / warp[2, 2], main.motion.copy(), main.seconds, depth)


def gain_of(surface: Surface, others: Explained, own: Explained) -> float:
    """Chi-square by which a surface explains its elements better than the others do."""
    belongs = surface.membership > 0.5
    both = others.inside & own.inside & belongs
    by_others, by_own = (np.minimum(each.squares[both], COUNTED_VARIANCES) for each in (others, own))
    gain = float((by_others - by_own).sum())
    # Where the others leave more than noise in most of the image, a gain may be due to chance.
    chance = _misfit(others.around, others.inside & ~belongs)
    return gain / (chance * NOISE_CORRELATION**2)


def assign(surface: Surface, membership: Map, others: Explained, own: Explained) -> Map:
    """Update misfit and membership of a surface; returns its share of each element, [rows, columns].

    `membership`: of the others, [rows, columns].
    """
    share = cv2.blur(surface.membership / (membership + surface.membership + 1e-6), (3, 3))
    share = share.clip(LEAST_SHARE, MOST_SHARE)
    favour = (others.around - own.around) * np.float32(WINDOW_ELEMENTS**2 / 12) - np.float32(MAIN_PREFERENCE)
    odds = share / (1 - share) * np.exp(favour.clip(-8.0, 8.0))
    assigned: Map = odds / (1 + odds)
    surface.misfit = min(_misfit(own.around, assigned > 0.5), MAX_MISFIT)
    surface.membership = assigned / (1 + (own.around / (surface.misfit * OUTLIER_VARIANCES)) ** 2)
    return assigned


def _misfit(around: Map, part: NDArray[np.bool_]) -> float:
    """Median of `around` in a part of the map, at least 1, which is that of noise alone."""
    values = around[part]
    if not values.size:
        return 1.0
    middle = values.size // 2
    values.partition(middle)  # several times faster than numpy.median
    median = values[middle]
    if values.size % 2 == 0:
        median = (values[:middle].max() + median) / 2
    return max(float(median), 1.0)
