"""What the perception algorithms have in common: a frame on its way through a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.camera import Pinhole
from edgetpu_perception.images import Pixels, resize, to_grey, to_rgb


@dataclass(frozen=True)
class Frame:
    """One image made ready for a model, and what is needed later to understand the model's answer."""

    stamp: float
    """Time of the image, s."""
    width: int
    height: int
    """Size of the image before it was resized, px."""
    inputs: Mapping[str, NDArray[Any]]
    """The model's inputs by name."""


@dataclass(frozen=True)
class ImageInput:
    """The input of a model that takes one image: uint8 [1, height, width, 1 (grey) or 3 (RGB)]."""

    name: str
    height: int
    width: int
    channels: int

    @classmethod
    def of(cls, inputs: Sequence[TensorSpec]) -> ImageInput:
        """Recognise it among a model's inputs; ModelUnsupportedError when the model takes anything else."""
        if len(inputs) == 1 and inputs[0].dtype == np.uint8 and len(inputs[0].shape) == 4:
            batch, height, width, channels = inputs[0].shape
            if batch == 1 and channels in (1, 3):
                return cls(inputs[0].name, height, width, channels)
        came = ", ".join(map(str, inputs)) or "none"
        raise ModelUnsupportedError(f"expected one input uint8[1, height, width, 1 or 3]; got {came}")

    def fill(self, image: Pixels) -> NDArray[np.uint8]:
        """Bring an image, uint8 [H, W] or [H, W, 3] RGB, to the size and the channels of this input."""
        pixels = to_grey(image) if self.channels == 1 else to_rgb(image)
        resized = resize(pixels, self.height, self.width)
        return np.ascontiguousarray(resized).reshape(1, self.height, self.width, self.channels)


class EyeResult(Protocol):
    """What every result has."""

    @property
    def valid(self) -> bool:
        """Whether its numbers were measured."""
        ...

    @property
    def confidence(self) -> float:
        """0..1."""
        ...


class Eye(Protocol):
    """A perception algorithm, split around the inference so that somebody else can run that."""

    camera: Pinhole | None
    min_confidence: float

    @property
    def model(self) -> str:
        """Name of the suite's own graph for it; `models.build` makes it."""
        ...

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Say what model the inference runs; ModelUnsupportedError when it is none for this algorithm."""
        ...

    def prepare(self, image: Pixels, stamp: float) -> Frame:
        """Make the model's inputs of an image taken at `stamp` seconds."""
        ...

    def interpret(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> Any:
        """Make an EyeResult of what `prepare` gave and the model's outputs by name."""
        ...
