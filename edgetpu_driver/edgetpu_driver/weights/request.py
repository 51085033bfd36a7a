"""A request for new weights, from the message to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from edgetpu_driver.engines.protocol import SwappableEngine
    from edgetpu_driver.weights.quantisation import WeightSwap


@dataclass(frozen=True)
class WeightRequest:
    """Real weights for one tensor of a model; see MatrixEngine.set_weights."""

    weights: NDArray[np.floating[Any]]
    tensor: str = ""
    accept_clipping: bool = False
    rescale_rows: bool = False

    def apply(self, engine: SwappableEngine) -> WeightSwap:
        """Set them on an engine."""
        return engine.set_weights(
            self.weights,
            tensor=self.tensor,
            accept_clipping=self.accept_clipping,
            rescale_rows=self.rescale_rows,
        )
