"""Noise and pull of residuals of which only some are used."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_perception.visual_compass.robust_residuals import QuietResiduals, robust_pull

POINTS = 1352
QUIET = QuietResiduals(0.3, 0.0)


@pytest.mark.parametrize("count", [10, 300, 400, 1000])
def test_points_that_are_not_used_change_neither_noise_nor_tail(count: int) -> None:
    rng = np.random.default_rng(count)
    residual = rng.normal(size=(1, POINTS)).astype(np.float32)
    seen = np.zeros(POINTS, np.float32)
    seen[rng.permutation(POINTS)[:count]] = 1.0
    pull, stiffness, noise, tail = robust_pull(residual.copy(), seen, False, QUIET, np.float32(0.0))
    used, everywhere = residual[:, seen > 0.0], np.ones(count, np.float32)
    _, _, alone, tail_alone = robust_pull(used, everywhere, False, QUIET, np.float32(0.0))
    assert noise == alone
    assert tail == pytest.approx(tail_alone, rel=1e-6)
    assert np.array_equal(pull != 0.0, seen > 0.0)
    assert np.array_equal(stiffness > 0.0, seen > 0.0)
