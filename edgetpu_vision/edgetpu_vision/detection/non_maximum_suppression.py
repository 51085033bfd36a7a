"""Non-maximum suppression, and the arrays of boxes that may be objects before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

MOST_CANDIDATES = 4000
"""Most boxes, those of the highest scores, that suppression looks at. Limits the time of a frame in which the
model finds objects everywhere; usual frames have fewer than 200."""
_AT_FIRST = 2
"""Boxes that suppression examines first, per wanted box. Uncritical: if too few are left it continues."""
_MORE = 4
"""Factor by which it increases the number of boxes then. Uncritical, as its time grows faster than that."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """n candidate boxes."""

    boxes: NDArray[np.float32]
    """float32[n, 4]: x_min, y_min, x_max, y_max, px of the model's input."""
    classes: NDArray[np.intp]
    """Class numbers, [n]."""
    scores: NDArray[np.float32]
    """Scores, float32[n], 0..1."""
    angles: NDArray[np.float32] | None = None
    """float32[n]: rad by which each box is turned about its centre, from x to y; None: none is turned."""
    mask_weights: NDArray[np.float32] | None = None
    """float32[n, 32]: of the prototypes of masks; None: the model has none."""

    def __len__(self) -> int:
        """Number of boxes."""
        return len(self.scores)

    def take(self, indices: NDArray[np.intp]) -> Candidates:
        """Some of the boxes, in the order of the given indices."""
        angles = None if self.angles is None else self.angles[indices]
        weights = None if self.mask_weights is None else self.mask_weights[indices]
        return Candidates(self.boxes[indices], self.classes[indices], self.scores[indices], angles, weights)

    def usable(self) -> Candidates:
        """The boxes whose class, score and coordinates are finite; float models may give others."""
        usable = np.isfinite(self.boxes.sum(axis=1)) & (self.classes >= 0) & np.isfinite(self.scores)
        if self.angles is not None:
            usable &= np.isfinite(self.angles)
        return self if usable.all() else self.take(np.flatnonzero(usable))

    def highest(self, count: int) -> Candidates:
        """At most this many boxes, the highest score first."""
        return self.take(np.argsort(-self.scores, kind="stable")[:count])

    def suppressed(self, iou_threshold: float, per_class: bool, wanted: int) -> Candidates:
        """The boxes that overlap with no better one by more than a threshold, the highest score first.

        iou_threshold: intersection over union, 0..1. per_class: whether only boxes of one class compete.
        wanted: how many are enough; there may be more, or fewer if fewer are left.
        """
        best = self.highest(MOST_CANDIDATES)
        count = _AT_FIRST * wanted
        # Whether a box is left depends on better ones alone, so that examining these is enough.
        while True:
            kept = best.highest(count)._apart(iou_threshold, per_class)
            if len(kept) >= wanted or count >= len(best):
                return kept
            count *= _MORE

    def _apart(self, iou_threshold: float, per_class: bool) -> Candidates:
        """All boxes that remain after suppression; the input is sorted by score."""
        best = self
        if len(best) < 2:
            return best
        corners = best.boxes.astype(np.float64)
        if per_class:
            # Classes are suppressed separately, as by cv2.dnn.NMSBoxesBatched, which OpenCV 4.6 lacks.
            extent = corners.max() - corners.min() + 1
            corners += (best.classes * extent)[:, None]
        sizes = np.maximum(corners[:, 2:] - corners[:, :2], 0)
        if best.angles is None:
            rectangles = np.hstack((corners[:, :2], sizes)).tolist()
            kept = cv2.dnn.NMSBoxes(rectangles, best.scores.tolist(), 0.0, iou_threshold)
        else:
            centres = (corners[:, :2] + corners[:, 2:]) / 2
            degrees = np.rad2deg(best.angles)
            turned = list(zip(centres.tolist(), sizes.tolist(), degrees.tolist(), strict=True))
            kept = cv2.dnn.NMSBoxesRotated(turned, best.scores.tolist(), 0.0, iou_threshold)
        return best.take(np.sort(np.asarray(kept, np.intp).ravel()))


def highest_of(
    places: NDArray[np.intp], scores: NDArray[Any], count: int = MOST_CANDIDATES
) -> NDArray[np.intp]:
    """The `count` places with the highest scores, or all if there are fewer, in their order.

    scores: [places], of any numbers; none is NaN. Of equal ones at the limit the first are taken.
    """
    if places.size <= count:
        return places
    limit = np.partition(scores, places.size - count)[places.size - count]
    chosen: NDArray[np.bool_] = scores > limit
    equal = np.flatnonzero(scores == limit)
    chosen[equal[: count - np.count_nonzero(chosen)]] = True
    return places[chosen]


NONE = Candidates(np.empty((0, 4), np.float32), np.empty(0, np.intp), np.empty(0, np.float32))


def joined(parts: Sequence[Candidates]) -> Candidates:
    """The boxes of several parts together."""
    return Candidates(
        np.concatenate([NONE.boxes, *(part.boxes for part in parts)]),
        np.concatenate([NONE.classes, *(part.classes for part in parts)]),
        np.concatenate([NONE.scores, *(part.scores for part in parts)]),
    )
