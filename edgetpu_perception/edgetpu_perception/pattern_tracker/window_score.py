"""The score of a window of the image: how well it correlates with the pattern."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_LEAST_POWER = 1e-6
"""Sum of squared deviations, grey levels^2, up to which a window is flat. Uncritical: noise is far more."""


def window_score(
    window: NDArray[np.float32], mask: NDArray[np.float32] | None, gain: float, total: float, count: int
) -> float:
    """The correlation coefficient of a window with the pattern, at most 1; 0 for a flat window.

    `window`: grey levels, float32 [n]. `mask`: 1 where the pattern counts, otherwise 0; None: everywhere.
    `gain`: product of the window and the pattern with mean 0 and norm 1. `total`, `count`: sum and number of
    the grey levels that count.
    """
    seen = window if mask is None else window * mask
    power = float(seen @ window) - total * total / count
    return min(gain / math.sqrt(power), 1.0) if power > _LEAST_POWER else 0.0
