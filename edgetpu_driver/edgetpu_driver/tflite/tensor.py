"""Specifications of a model's inputs and outputs, and the check of arrays against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape, dtype and quantisation of one input or output of a model, as in TFLite.

    real value = scale * (quantised value - zero_point); scale 0 means not quantised.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scale: float
    zero_point: int

    @property
    def symmetric_steps(self) -> int:
        """Quantisation steps available on both sides of zero; 0 unless it is an 8-bit quantised tensor."""
        if self.dtype not in (np.uint8, np.int8) or not self.scale > 0:
            return 0
        limits = np.iinfo(self.dtype)
        return int(max(min(limits.max - self.zero_point, self.zero_point - limits.min), 0))

    @property
    def real_limits(self) -> tuple[float, float]:
        """Minimum and maximum real values of a quantised tensor, rounded to float32."""
        limits = np.iinfo(self.dtype)
        least, greatest = self.dequantise(np.array([limits.min, limits.max], self.dtype)).tolist()
        return least, greatest

    def quantise(self, real: NDArray[Any]) -> NDArray[Any]:
        """Quantise real values of any shape to this tensor's dtype.

        Rounds half to even and clamps to the dtype's range. Only for quantised tensors, see `scale`.
        """
        limits = np.iinfo(self.dtype)
        steps = np.rint(np.asarray(real, np.float64) / self.scale + self.zero_point)
        return np.clip(steps, limits.min, limits.max).astype(self.dtype)

    def dequantise(self, quantised: NDArray[Any]) -> NDArray[np.float32]:
        """Convert values of this tensor's dtype, of any shape, to real values, float32."""
        return (quantised.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)

    def __str__(self) -> str:
        return f"'{self.name}' {self.dtype.name}{list(self.shape)}"

    @property
    def with_quantisation(self) -> str:
        """The tensor and its quantisation, for messages."""
        return f"{self} of scale {self.scale:g} and zero point {self.zero_point}"


def named_inputs(
    specs: Sequence[TensorSpec], arrays: Mapping[str, NDArray[Any]]
) -> Mapping[str, NDArray[Any]]:
    """The arrays, where a single one named "" is the input of a model with a single input."""
    if len(specs) == 1 and isinstance(arrays, Mapping) and "" in arrays and len(arrays) == 1:
        return {specs[0].name: arrays[""]}
    return arrays


def check_inputs(specs: Sequence[TensorSpec], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise InputError unless `arrays` has exactly the specified names, shapes and dtypes."""
    if not isinstance(arrays, Mapping):
        raise InputError(
            f"expected arrays by name, such as {{{specs[0].name!r}: array}}; got {type(arrays).__name__}"
            if specs
            else f"expected an empty mapping; got {type(arrays).__name__}"
        )
    matches = len(arrays) == len(specs)
    for spec in specs:
        array = arrays.get(spec.name)
        if not isinstance(array, np.ndarray) or array.shape != spec.shape or array.dtype != spec.dtype:
            matches = False
    if not matches:
        raise _input_error(specs, arrays)


def checked_inputs(
    specs: Sequence[TensorSpec], arrays: Mapping[str, NDArray[Any]]
) -> Mapping[str, NDArray[Any]]:
    """The arrays by the names of the inputs, see `named_inputs`; otherwise InputError."""
    arrays = named_inputs(specs, arrays)
    check_inputs(specs, arrays)
    return arrays


def _input_error(specs: Sequence[TensorSpec], arrays: Mapping[str, NDArray[Any]]) -> InputError:
    if arrays.keys() != {spec.name for spec in specs}:
        expected = ", ".join(map(str, specs))
        given = ", ".join(f"'{name}'" for name in arrays) or "none"
        return InputError(f"expected the inputs {expected}; got {given}")
    for spec, array in ((spec, arrays[spec.name]) for spec in specs):
        if not isinstance(array, np.ndarray):
            return InputError(f"expected a NumPy array for {spec}; got {type(array).__name__}")
        if array.shape != spec.shape or array.dtype != spec.dtype:
            return InputError(f"expected {spec}; got {array.dtype.name}{list(array.shape)}")
    raise AssertionError("every input fits")
