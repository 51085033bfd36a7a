"""Reused buffers for the input of a model, padding included, into which images are written."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.preprocessing.image_fit import Placement
from edgetpu_vision.preprocessing.pixel_scaling import PixelScaling

_KEPT = 3
"""Number of buffers kept: one being filled, one that the model runs on, one that waits for it."""


class InputBuffer:
    """One input, and the position of the image's pixels in it."""

    def __init__(
        self, spec: TensorSpec, placement: Placement, scaling: PixelScaling, padding: NDArray[Any]
    ) -> None:
        """padding: [channels], the values around the image, in the input's dtype."""
        _, height, width, channels = spec.shape
        spare = scaling.spare_rows
        self._memory = np.empty((1, height + spare, width, channels), spec.dtype)
        self._memory[:] = padding
        self._height = height
        top, left = placement.top, placement.left
        bottom, right = top + placement.height, left + placement.width
        self.numbers = self._memory[0, top : bottom + spare, left:right]
        """The part of the input with the image, and the `spare_rows` below: [rows, columns, channels]."""
        # If the dtype allows it, pixels are written directly into the input.
        pixels = self.numbers.view(np.uint8) if scaling.in_place else np.empty(self.numbers.shape, np.uint8)
        self.pixels = pixels
        """Grey levels for `numbers`, uint8 of the same shape; the same memory if `in_place`."""
        self.target = pixels if scaling.flips else self.numbers
        """The array that `PixelScaling.apply` writes to: `numbers`, as uint8 if the scaling `flips`."""
        self.image = pixels[: placement.height]
        """The part of `pixels` that belongs to the image, without spare rows."""
        self._spoilt = self._memory[0, bottom : bottom + spare] if spare and bottom < height else None
        """Padding that the spare rows overwrite, and that `input` restores."""
        self._padding = None if self._spoilt is None else self._spoilt.copy()
        # No local variable may refer to the memory here, because it would be counted.
        self._own_references = self._references()

    @property
    def free(self) -> bool:
        """Whether no array outside this object uses its memory."""
        return self._references() == self._own_references

    def input(self) -> NDArray[Any]:
        """The whole input, a new view of this buffer's memory; while it exists, `free` is false."""
        if self._spoilt is not None:
            self._spoilt[:] = self._padding
        return self._memory[:, : self._height]

    def _references(self) -> int:
        # Every view of an array refers to the array that owns the memory, also a view of a view.
        return sys.getrefcount(self._memory)


class InputBuffers:
    """The buffers of a model's input for one placement at a time. May be used by several threads."""

    def __init__(self, spec: TensorSpec, scaling: PixelScaling, padding: NDArray[Any]) -> None:
        """padding: [channels], the values around the image, in the input's dtype."""
        self._spec, self._scaling, self._padding = spec, scaling, padding
        self._kept: tuple[Placement | None, deque[InputBuffer]] = None, deque()

    def take(self, placement: Placement) -> InputBuffer:
        """A free buffer, which the caller owns until `give_back`."""
        kept_for, kept = self._kept
        if kept_for is not placement:
            kept = deque(maxlen=_KEPT)
            self._kept = placement, kept
        for _ in range(len(kept)):
            try:
                buffer = kept.popleft()
            except IndexError:  # other threads have taken them
                break
            if buffer.free:
                return buffer
            kept.append(buffer)
        return InputBuffer(self._spec, placement, self._scaling, self._padding)

    def give_back(self, placement: Placement, buffer: InputBuffer) -> None:
        """Keep a buffer for later images; it is not taken again while its input is in use."""
        kept_for, kept = self._kept
        if kept_for is placement:
            kept.append(buffer)
