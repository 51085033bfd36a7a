"""Random inputs of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec


def random_inputs(specs: tuple[TensorSpec, ...]) -> dict[str, NDArray[Any]]:
    """Uniform values over the range of each input's integers, or over 0..1; the same on every call."""
    rng = np.random.default_rng(0)
    return {spec.name: random_values(spec, rng) for spec in specs}


def random_values(spec: TensorSpec, rng: np.random.Generator) -> NDArray[Any]:
    """Uniform values over the range of a tensor's integers, or over 0..1."""
    if spec.dtype.kind not in "iu":
        return rng.random(spec.shape).astype(spec.dtype)
    limits = np.iinfo(spec.dtype)
    return rng.integers(limits.min, limits.max, spec.shape, spec.dtype, endpoint=True)
