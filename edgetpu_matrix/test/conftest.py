"""What the tests of the matrix package share: a Dense model in eight bits, written down independently."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from edgetpu_matrix.scaling import DenseModel
from edgetpu_matrix.tiles import RealProduct, TiledMatrix, TileRequest

GOLDEN_256 = DenseModel(
    rows=256, columns=256, input_scale=0.00784303, output_scale=0.01904886, output_limit=126 * 0.01904886
)
"""What Google's compiler made of a Dense(256) layer."""

GOLDEN_ROW_SCALES = np.random.default_rng(256).uniform(8.39e-4, 8.5e-4, 256).astype(np.float32)


class EightBits:
    """Dense models in int8 steps, rounded to nearest, one for each tile of a matrix; counts what it clips."""

    def __init__(
        self, matrix: ArrayLike, *, headroom: float | None = None, rescale_rows: bool = False
    ) -> None:
        self.tiled = TiledMatrix(GOLDEN_256, headroom)
        self.row_scales = None if rescale_rows else GOLDEN_ROW_SCALES
        self.clipped = 0
        self.set(matrix)

    def set(self, matrix: ArrayLike, changed: set[int] | None = None) -> list[int]:
        """Set a matrix; the tiles that were."""
        return [tile.index for tile in self.tiled.assign(matrix, self.row_scales, changed)]

    def multiply(self, vector: ArrayLike, passes: int = 1) -> RealProduct:
        """The matrix times a vector."""
        requests = self.tiled.requests(vector, passes)
        return self.tiled.combine(requests, [self._run(each) for each in requests])

    def _run(self, request: TileRequest) -> NDArray[np.float64]:
        assert np.abs(request.steps).max(initial=0) <= 127
        weights = self.tiled.tiles[request.tile].fitted.weights.astype(np.float64)
        outputs = np.rint(weights @ request.steps * GOLDEN_256.input_scale / GOLDEN_256.output_scale)
        self.clipped += int((np.abs(outputs) > 126).sum())
        real = np.clip(outputs, -126, 126) * GOLDEN_256.output_scale
        return real * request.input_scale / GOLDEN_256.input_scale


@pytest.fixture
def eight_bits() -> type[EightBits]:
    return EightBits


@pytest.fixture
def dense() -> DenseModel:
    return GOLDEN_256


@pytest.fixture
def row_scales() -> NDArray[np.float32]:
    return GOLDEN_ROW_SCALES
