"""Checks whether the camera image shows a fine patch where it was aligned, or something else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.pattern_tracker.fine_patch import MOST_PX, FinePatch
from edgetpu_perception.pattern_tracker.patch_agreement import UNEXPLAINED_OF_ALL, PatchAgreement

LEAST_SHARE = 0.7
"""Least share of the blocks of a patch that must agree for a doubtful match to be confirmed.

Rows: pattern, tilted boards, look-alike: valid. Of boards that differ in half of their fields, up to half of
the blocks agree.
"""

DOUBTFUL = UNEXPLAINED_OF_ALL / 2
"""Share of the gradients that a match may leave unexplained before finer squares are compared, too.

Limits the time. Derived: half of what it may leave at all; 97 % of patterns in view leave less.
"""

Seen = tuple[NDArray[np.float32], float]
"""What an image shows of a patch, [h, w], and the noise to expect of a square, grey levels."""


class FinePatchCheck:
    """Compares a fine patch with what images show of it, if necessary also in squares of half the side.

    In squares, finer structure is lost, or small compared with the rest. Something else with the same coarse
    structure, such as a chessboard with other tags in its fields, differs from the patch in finer squares.
    """

    def __init__(self, patch: FinePatch) -> None:
        self._agreement = PatchAgreement(patch.values, patch.mask)
        finer = patch.finer
        self._finer = None if finer is None else PatchAgreement(finer.values, finer.mask)
        self._compares = max(patch.values.shape) <= MOST_PX
        """Whether squares are compared: the limits are for squares of no more than MOST_PX to a side."""
        self._always_finer = patch.smooth
        """Whether much of the patch's structure is lost in its squares."""

    @property
    def can_confirm(self) -> bool:
        """Whether the patch has enough blocks with structure to be confirmed."""
        return self._compares and self._agreement.is_known

    def share(self, seen: Seen | None) -> float:
        """Share of the blocks of the patch that agree, 0..1."""
        return 0.0 if seen is None else self._agreement.share(*seen)

    def is_contradicted(self, seen: Seen | None, finer: Callable[[], Seen | None] = lambda: None) -> bool:
        """Whether the image shows something else; False also if it has fewer px than the patch.

        `finer`: returns what the image shows in the finer squares, called only if these are compared.
        """
        if seen is None or not self._compares or self._is_clear(seen):
            return False
        left = self._agreement.left(*seen)
        if left > UNEXPLAINED_OF_ALL:
            return True
        finer_seen = None if self._finer is None else finer()
        if self._finer is None or finer_seen is None:
            return False
        # What the squares already leave, as of a pattern that has bent or blurs, is no finer structure.
        return self._finer.is_contradicted(*finer_seen, max(self._finer.left_by_errors, left))

    def _is_clear(self, seen: Seen) -> bool:
        """Whether finer squares need not be compared."""
        return not self._always_finer and not self._agreement.is_contradicted(*seen, DOUBTFUL)
