"""A spot in a model's output, and the interface of its decoders.

Positions and sigmas are in cells of the model's input; (0, 0) is the centre of the first cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

FULL_CONFIDENCE_CONTRAST = 36.0
"""Contrast in grey levels from which it no longer lowers the confidence.

Rows: spot, none (not valid); white discs on half-contrast grey photographs.
"""

MIN_CONTRAST = 12.0
"""Contrast in grey levels up to which there is no spot. Rows: spot, none (not valid)."""


CameraPixels = Callable[[], NDArray[np.uint8]]
"""Gives the camera's pixels of the model's region: uint8 [h, w], or [h, w, 3] RGB for a colour."""

Position = tuple[float, float]
"""x and y, cells."""


class Spot(NamedTuple):
    """A position with one-sigma errors. With confidence 0 no spot was found and the other numbers are NaN."""

    x: float = math.nan
    y: float = math.nan
    x_sigma: float = math.nan
    y_sigma: float = math.nan
    confidence: float = 0.0
    rival: Position | None = None
    """The nearest of other spots that are about as strong."""
    is_uneven: bool = False
    """Whether one side is brighter than the other by more than the raster of cells explains."""
    is_outlined: bool = False
    """Whether the camera's pixels show it as one shape with an outline all around."""


NO_SPOT = Spot()


class SpotDecoder(Protocol):
    """Finds the spot in the outputs of one kind of model."""

    def decode(
        self,
        image: NDArray[np.uint8],
        outputs: Mapping[str, NDArray[Any]],
        near: Position | None,
        cell: tuple[float, float] = (1.0, 1.0),
        camera: CameraPixels | None = None,
    ) -> Spot:
        """Find the spot in the outputs for the model input `image`, uint8 [1, H, W, 1 or 3].

        Of several equally good spots the one nearest to `near` (x, y) is returned. `cell`: width and
        height of a cell, px of the camera's image. `camera`: gives those px.
        """
        ...
