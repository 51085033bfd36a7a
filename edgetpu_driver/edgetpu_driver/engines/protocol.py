"""What every engine offers: named arrays in, named arrays out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.weights.quantisation import WeightSwap, WeightTensor


class Engine(Protocol):
    """One model, ready to run.

    `run` takes every input by name, of the shape and dtype its specification says, and returns every output
    by name. It raises InputError for anything else and a DeviceError when the hardware fails. It may be
    called from any thread; calls are serialised.
    """

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in the model's order."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in the model's order."""
        ...

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once; the arrays returned belong to the caller."""
        ...


class SwappableEngine(Engine, Protocol):
    """An engine whose model can be given other weights while it is in use."""

    def set_weights(
        self,
        weights: NDArray[np.floating[Any]],
        *,
        tensor: str = "",
        accept_clipping: bool = False,
        rescale_rows: bool = False,
    ) -> WeightSwap:
        """Replace the values of one weight tensor, between two inferences.

        weights: finite real values in the shape of the TFLite tensor: FULLY_CONNECTED [rows, columns],
        CONV_2D [out, height, width, in], DEPTHWISE_CONV_2D [1, height, width, out]. A smaller matrix is
        padded with zeros. tensor: its name; empty for that of the model's only convolution, else of its only
        matrix, else of its only depthwise convolution. rescale_rows: let every row of a matrix use all of
        int8 by giving it a scale of its own.

        Raises InputError for other shapes, NaN and infinity, ClippingError for values out of range unless
        `accept_clipping`, ModelUnsupportedError where it is not known for certain where the model keeps these
        weights or no row has a scale that could be replaced, DeviceError. The old weights then stay in force.
        """
        ...


class MatrixEngine(SwappableEngine, Protocol):
    """A swappable engine that can also bring every row of a matrix into the range of its outputs."""

    def weight_tensor(self, tensor: str = "") -> WeightTensor:
        """What `set_weights` replaces; raises InputError and ModelUnsupportedError as it does."""
        ...

    def set_weights(
        self,
        weights: NDArray[np.floating[Any]],
        *,
        tensor: str = "",
        accept_clipping: bool = False,
        rescale_rows: bool = False,
        row_gains: NDArray[np.floating[Any]] | None = None,
    ) -> WeightSwap:
        """As SwappableEngine.set_weights; outputs come times row_gains, [rows], positive; None: as they are.

        They are put into the multipliers with `rescale_rows`, else into the weights.
        """
        ...
