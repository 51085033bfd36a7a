"""Non-maximum suppression, and the arrays of boxes that may be objects before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

MOST_CANDIDATES = 4000
"""Largest number of boxes that suppression looks at, those with the highest scores. It limits the time for a
frame in which the model finds objects everywhere; usual frames have fewer than 200."""
_AT_FIRST = 2
"""Boxes that suppression examines first, per wanted box. Uncritical: if too few remain, it continues."""
_MORE = 4
"""Factor by which that number is then increased. Uncritical: the time grows faster than the number."""
FAR = 1e7
"""Boxes with a coordinate (px) or an angle (rad) beyond this are left out. Uncritical: it keeps areas exact
enough to compare."""


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
    """Angle of each box about its centre, from x to y, rad, float32[n]; None: all are upright."""
    mask_weights: NDArray[np.float32] | None = None
    """Weights of the mask prototypes, float32[n, 32]; None: the model has no masks."""

    def __len__(self) -> int:
        """Number of boxes."""
        return len(self.scores)

    def take(self, indices: NDArray[np.intp]) -> Candidates:
        """Some of the boxes, in the order of the given indices."""
        angles = None if self.angles is None else self.angles[indices]
        weights = None if self.mask_weights is None else self.mask_weights[indices]
        return Candidates(self.boxes[indices], self.classes[indices], self.scores[indices], angles, weights)

    def usable(self) -> Candidates:
        """The boxes with a possible class, score and coordinates; float models may give impossible ones."""
        usable = (np.abs(self.boxes) < FAR).all(axis=1) & (self.classes >= 0) & np.isfinite(self.scores)
        if self.angles is not None:
            usable &= np.abs(self.angles) < FAR
        return self if usable.all() else self.take(np.flatnonzero(usable))

    def highest(self, count: int) -> Candidates:
        """At most this many boxes, the highest score first."""
        return self.take(np.argsort(-self.scores, kind="stable")[:count])

    def suppressed(self, iou_threshold: float, per_class: bool, wanted: int) -> Candidates:
        """The boxes that overlap with no better one by more than a threshold, the highest score first.

        iou_threshold: intersection over union, 0..1. per_class: whether only boxes of one class compete.
        wanted: number of boxes that is enough; there may be more, or fewer if not enough remain.
        """
        best = self.highest(MOST_CANDIDATES)
        count = _AT_FIRST * wanted
        # Whether a box remains depends only on boxes with higher scores, so that examining these is enough.
        while True:
            kept = best.highest(count)._apart(iou_threshold, per_class)
            if len(kept) >= wanted or count >= len(best):
                return kept
            count *= _MORE

    def _apart(self, iou_threshold: float, per_class: bool) -> Candidates:
        """All boxes that remain after suppression; the input is sorted by score."""
        if len(self) < 2:
            return self
        if self.angles is None:
            kept = self._upright_kept(iou_threshold, per_class)
        elif per_class:
            groups = [np.flatnonzero(self.classes == each) for each in np.unique(self.classes)]
            kept = np.concatenate([each[self.take(each)._turned_kept(iou_threshold)] for each in groups])
        else:
            kept = self._turned_kept(iou_threshold)
        return self.take(np.sort(kept))

    def _upright_kept(self, iou_threshold: float, per_class: bool) -> NDArray[np.intp]:
        corners = self.boxes.astype(np.float64)
        if per_class:
            # Classes are suppressed separately, as by cv2.dnn.NMSBoxesBatched, which OpenCV 4.6 lacks.
            extent = corners.max() - corners.min() + 1
            corners += (self.classes * extent)[:, None]
        sizes = np.maximum(corners[:, 2:] - corners[:, :2], 0)
        rectangles = np.hstack((corners[:, :2], sizes)).tolist()
        kept = cv2.dnn.NMSBoxes(rectangles, self.scores.tolist(), 0.0, iou_threshold)
        return np.asarray(kept, np.intp).ravel()

    def _turned_kept(self, iou_threshold: float) -> NDArray[np.intp]:
        """Indices of the boxes that remain if all compete.

        OpenCV takes turned boxes in float32, which is too coarse to keep classes apart by shifting them.
        """
        assert self.angles is not None
        centres, sizes = (self.boxes[:, :2] + self.boxes[:, 2:]) / 2, self.boxes[:, 2:] - self.boxes[:, :2]
        degrees = np.rad2deg(self.angles)
        turned = zip(centres.tolist(), np.maximum(sizes, 0).tolist(), degrees.tolist(), strict=True)
        kept = cv2.dnn.NMSBoxesRotated(list(turned), self.scores.tolist(), 0.0, iou_threshold)
        return np.asarray(kept, np.intp).ravel()


def highest_of(
    indices: NDArray[np.intp], scores: NDArray[Any], count: int = MOST_CANDIDATES
) -> NDArray[np.intp]:
    """The `count` indices with the highest scores, or all if there are fewer, in their order.

    scores: those of the indices, [n], of any dtype, without NaN. Of equal scores at the limit, the first are
    taken.
    """
    if indices.size <= count:
        return indices
    limit = np.partition(scores, indices.size - count)[indices.size - count]
    chosen: NDArray[np.bool_] = scores > limit
    equal = np.flatnonzero(scores == limit)
    chosen[equal[: count - np.count_nonzero(chosen)]] = True
    return indices[chosen]


NONE = Candidates(np.empty((0, 4), np.float32), np.empty(0, np.intp), np.empty(0, np.float32))


def joined(parts: Sequence[Candidates]) -> Candidates:
    """The boxes of several parts together, all upright and without mask weights."""
    return Candidates(
        np.concatenate([NONE.boxes, *(part.boxes for part in parts)]),
        np.concatenate([NONE.classes, *(part.classes for part in parts)]),
        np.concatenate([NONE.scores, *(part.scores for part in parts)]),
    )
