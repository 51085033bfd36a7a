"""Colours as filter weights: presets, and three weights for red, green and blue, quantised to int8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError

COLORS: dict[str, tuple[float, float, float]] = {
    "red": (1.0, -0.5, -0.5),
    "green": (-0.5, 1.0, -0.5),
    "blue": (-0.5, -0.5, 1.0),
    "yellow": (0.5, 0.5, -1.0),
    "cyan": (-1.0, 0.5, 0.5),
    "magenta": (0.5, -1.0, 0.5),
    "white": (1 / 3, 1 / 3, 1 / 3),
}
"""Weights of red, green and blue for each preset. Derived: channels of the colour minus the others.

The sum of all but white is 0, so that grey pixels cancel.
"""

WEIGHT_STEPS = 126
"""Largest quantised weight. Derived: with 126 steps 1, 1/2 and 1/3 are whole numbers, so grey pixels cancel.

All colours have the same steps, so that a change of its three weights turns one graph into another.
"""


class ColorError(EdgeTpuError, ValueError):
    """A colour that is neither a preset nor three usable weights."""


def color_weights(color: str | Sequence[float]) -> tuple[int, int, int]:
    """Quantise a colour, a preset's name or three weights for red, green and blue, to its filter weights.

    Only the proportions of the weights count: the positive ones together become 126 steps, or less where a
    negative one would be below -126. Raises ColorError for an unknown preset, for anything but three finite
    numbers, and when no weight is positive.
    """
    if isinstance(color, str) and color not in COLORS:
        raise ColorError(f"expected a colour of {', '.join(COLORS)}; got '{color[:100]}'")
    try:
        weights = np.asarray(COLORS[color] if isinstance(color, str) else color, np.float64)
    except (TypeError, ValueError, OverflowError):  # integers too large for a float
        text = str(color)[:100]
        raise ColorError(f"expected three finite weights for red, green and blue; got {text}") from None
    if weights.shape != (3,) or not np.all(np.isfinite(weights)):
        raise ColorError(f"expected three finite weights for red, green and blue; got {weights.tolist()}")
    largest = max(float(weights[weights > 0].sum()), -float(weights.min()))
    steps = np.rint(weights / (largest or 1.0) * WEIGHT_STEPS).astype(int)
    if steps.max() <= 0:
        raise ColorError(f"expected at least one positive weight; got {weights.tolist()}")
    red, green, blue = steps.tolist()
    return red, green, blue


def color_filter(color: str | Sequence[float]) -> NDArray[np.float32]:
    """Real weights of the graph's filter for a colour, float32 [1, 1, 1, 3]. Raises ColorError."""
    return np.array(color_weights(color), np.float32).reshape(1, 1, 1, 3) / np.float32(WEIGHT_STEPS)
