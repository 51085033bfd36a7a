"""The request to replace the values of a weight tensor, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_INT8 = np.dtype(np.int8)


@dataclass(frozen=True, eq=False)
class WeightRequest:
    """Real weights for one tensor of a model; see `SwappableEngine.set_weights`."""

    weights: NDArray[np.floating]
    """Finite real values in the shape of the TFLite tensor: FULLY_CONNECTED [rows, columns], CONV_2D
    [out, height, width, in], DEPTHWISE_CONV_2D [1, height, width, out]. A smaller matrix is padded with
    zeros."""
    tensor: str = ""
    """Name of the tensor; empty for the model's only convolution or, if it has none, for its only matrix or,
    if it has neither, for its only depthwise convolution."""
    accept_clipping: bool = False
    """Clip values that the tensor's scales cannot represent, instead of refusing them."""
    rescale_rows: bool = False
    """Give every row the finest scale that clips neither its weights nor its bias, instead of the model's.

    For layers that have a scale for every row."""
    row_gains: NDArray[np.floating] | None = None
    """float[rows], positive factors of the outputs. They are applied to the requantisation multipliers with
    `rescale_rows`, otherwise to the weights, not to a bias. None: nothing is scaled."""
    bias: NDArray[np.floating] | None = None
    """float[rows of the weights]: added to the sums of products before the activation, in the unit of weights
    times inputs. The other rows of a larger matrix get 0. None: the bias stays as it is."""


@dataclass(frozen=True, eq=False)
class WeightResult:
    """The result of replacing the values of a weight tensor."""

    version: int
    """Counts the replacements in this model, from 1; 0 stands for the weights it was loaded with."""
    row_scales: NDArray[np.float32]
    """float32[rows]: real value of one step, for the rows of the given weights. A row holds the weights of
    one output channel."""
    clipped: int
    """Number of values that were clipped, including values of the bias."""
    worst_error: float
    """Largest quantisation error, in the unit of the weights."""
    rms_error: float
    """Root mean square of the quantisation error."""
    shape: tuple[int, ...] = ()
    """Shape of the tensor, which is the largest shape it takes."""
    is_pure_matmul: bool = False
    """See WeightTensor."""
    worst_bias_error: float = 0.0
    """Largest rounding error of the bias, in its unit; 0 if no bias was given."""
    dtype: np.dtype[Any] = _INT8
    """See WeightTensor."""
    zero_point: int = 0
    """See WeightTensor."""
