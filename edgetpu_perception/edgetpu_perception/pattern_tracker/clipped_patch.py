"""The score of a patch in an overexposed or dark image, where more is clipped than in the patch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

MIN_UNCLIPPED_SHARE = 0.25
"""Share of a patch that must be neither black nor white to estimate how the rest is clipped.

Rows: pattern, accepted, changed, present: valid.
"""


class ClippedPatch:
    """A patch that can be clipped like the image that it is compared with."""

    def __init__(self, deviation: NDArray[np.floating], mask: NDArray[np.bool_], mean: float) -> None:
        """`deviation`: the patch minus its mean, grey levels, [h, w]; `mask`: its pixels that count, [h, w].

        `mean`: mean of the patch, grey levels.
        """
        self._counting = np.flatnonzero(mask)
        self._deviation = deviation[mask].astype(np.float32)
        self._black, self._white = -mean, 255.0 - mean

    def score(self, window: NDArray[np.float32]) -> float:
        """Normalised cross-correlation; -1 if nothing is clipped, or too much.

        `window`: the aligned part of the image minus the mean of the patch, float32 [h * w].
        """
        window, patch = window[self._counting], self._deviation
        whole = (window > self._black + 1.0) & (window < self._white - 1.0)
        if not MIN_UNCLIPPED_SHARE * patch.size <= np.count_nonzero(whole) < patch.size:
            return -1.0
        patch_mean, window_mean = patch[whole].mean(), window[whole].mean()
        slope = patch[whole] - patch_mean
        gain = float(slope @ window[whole]) / max(float(slope @ slope), 1e-6)
        expected = np.clip(gain * (patch - patch_mean) + window_mean, self._black, self._white)
        expected, window = expected - expected.mean(), window - window.mean()
        power = float(expected @ expected) * float(window @ window)
        return float(expected @ window) / math.sqrt(power) if gain > 0.0 and power > 1e-6 else -1.0
