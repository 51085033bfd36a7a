"""Makes a model's input from an image: cropped, resized and converted to the input's dtype."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.encodings import to_grey, to_rgb
from edgetpu_driver.images.input_layout import ImageLayout
from edgetpu_driver.images.region import Region
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.preprocessing.channel_order import ChannelOrder
from edgetpu_vision.preprocessing.image_fit import Fit, Placement
from edgetpu_vision.preprocessing.input_buffers import InputBuffers
from edgetpu_vision.preprocessing.pixel_scaling import Normalisation, PixelScaling

PADDING = 114
"""Grey level around a letterboxed image: near the mean of photographs; YOLO models are trained with it."""

_ROUNDING_ERROR = np.float32(2e-5)
"""Grey levels by which interpolation in float32 may miss a whole level; float32 has steps of 1.5e-5 there."""

_KINDS: defaultdict[Hashable, int] = defaultdict(itertools.count().__next__)
"""Numbers of kinds of inputs, as keys under which an image caches the inputs made from it."""


class Preprocessor:
    """Makes the input of one model from images of any size."""

    def __init__(
        self,
        spec: TensorSpec,
        fit: Fit,
        normalisation: Normalisation | None = None,
        *,
        channel_order: ChannelOrder = "rgb",
        truncates: bool = False,
    ) -> None:
        """Prepare for a model's input, see `image_input`.

        normalisation: the one that the model was trained with, in the order of its channels; None if
        unknown, see PixelScaling. channel_order: order of the channels, if there are three. truncates:
        whether interpolated grey levels are rounded down instead of to the nearest. Raises
        ModelUnsupportedError unless the input takes an image of uint8, int8, int32 or float32.
        """
        self.spec = spec
        self.fit: Fit = fit
        self._truncates = truncates
        rows = by_rows(spec)
        self._layout = _layout(spec) if rows.shape != spec.shape else None
        """The order of the input's axes; None if it is [1, height, width, channels]."""
        _, self.height, self.width, self.channels = rows.shape
        self._swaps = channel_order == "bgr" and self.channels == 3
        """Whether red and blue change places."""
        self._scaling = PixelScaling(rows, normalisation)
        padding = self._scaling.of_level(PADDING, self.channels)
        self._buffers = InputBuffers(rows, self._scaling, padding)
        kind = replace(spec, name=""), fit, normalisation, self._swaps, truncates
        self._key = _KINDS[kind]

    def place(self, region: Region) -> Placement:
        """The position of a region, as `Region.within` returns it, in the input."""
        return Placement.of(region, self.width, self.height, self.fit)

    def fill(self, image: CameraImage, placement: Placement) -> NDArray[Any]:
        """The input for an image, in the model's shape and dtype; read-only.

        Models with the same kind of input get the same array for the same region. The memory is reused once
        no array refers to it. Placements are compared by identity: call `place` only if the region or the
        size of the images has changed.
        """

        def make() -> NDArray[Any]:
            buffer = self._buffers.take(placement)
            x, y, width, height = placement.region
            part = image.pixels[y : y + height, x : x + width]
            as_it_is = part.shape == buffer.image.shape and not self._swaps
            if self._scaling.reads_anywhere and as_it_is:
                self._scaling.apply(part, buffer.target)
            else:
                self._resize(part, buffer.image)
                self._scaling.apply(buffer.pixels, buffer.target)
            filled = buffer.input()
            if self._layout is not None:
                filled = self._layout.arranged(filled)
            self._buffers.give_back(placement, buffer)
            return filled

        return image.made((self._key, placement.region), make)

    def _resize(self, part: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
        """Resize a part of an image, [H, W] or [H, W, 3], to uint8 [height, width, channels]."""
        if part.shape[:2] == (1, 1):  # OpenCV 4.5, as in Ubuntu 22.04, takes no single pixel with colours
            part = part.repeat(2, axis=0)
        if part.ndim == self.channels == 3 and self._swaps:
            resized = np.empty(target.shape, np.uint8)
            cv2.cvtColor(_resize_into(part, resized, self._truncates), cv2.COLOR_RGB2BGR, target)
        elif part.ndim == self.channels == 3:
            _resize_into(part, target, self._truncates)
        elif self.channels == 1:
            _resize_into(to_grey(part), target[:, :, 0], self._truncates)
        else:
            small = np.empty(target.shape[:2], np.uint8)
            target[:] = to_rgb(_resize_into(part, small, self._truncates))


def _resize_into(part: NDArray[np.uint8], target: NDArray[np.uint8], truncates: bool) -> NDArray[np.uint8]:
    """Resize by linear interpolation into an array of the wanted size, and return that."""
    height, width = target.shape[:2]
    if not truncates:
        cv2.resize(part, (width, height), target, 0, 0, cv2.INTER_LINEAR)
    elif part.shape == target.shape:
        target[:] = part
    else:
        levels = cv2.resize(part.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
        target[:] = np.add(levels, _ROUNDING_ERROR, out=levels)
    return target


def image_input(inputs: Sequence[TensorSpec]) -> TensorSpec:
    """The input of a model that takes one image, see ImageLayout, and nothing else.

    Raises ModelUnsupportedError for any other.
    """
    if len(inputs) == 1:
        layout = ImageLayout.of(inputs[0].shape)
        if layout is not None and layout.height * layout.width > 1:
            return inputs[0]
        if layout is not None:
            raise ModelUnsupportedError(
                f"expected an image input of a fixed size; got {inputs[0]}, which stands for images of any "
                "size: export the model with a fixed size"
            )
    came = ", ".join(map(str, inputs)) or "none"
    raise ModelUnsupportedError(f"expected one input [1, height, width, 1 or 3], an image; got {came}")


def by_rows(spec: TensorSpec) -> TensorSpec:
    """An image input with its shape in the usual order, [1, height, width, channels]."""
    return replace(spec, shape=_layout(spec).by_rows)


def _layout(spec: TensorSpec) -> ImageLayout:
    layout = ImageLayout.of(spec.shape)
    if layout is None:
        raise ModelUnsupportedError(f"expected an input that takes an image; got {spec}")
    return layout
