"""What the perception algorithms have in common: a frame on its way through a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.graphs import families as models
from edgetpu_perception.images.camera_image import WHOLE, CameraImage, Region
from edgetpu_perception.images.pinhole import Pinhole

ImageLike = NDArray[np.uint8] | CameraImage
"""uint8 [H, W] or [H, W, 3] RGB; as CameraImage where several eyes look at the same image."""


def camera_image(image: ImageLike) -> CameraImage:
    """Check an array and wrap it; ImageError unless it is uint8 [H, W] or [H, W, 3]."""
    return image if isinstance(image, CameraImage) else CameraImage(image)


@dataclass(frozen=True)
class Frame:
    """One image made ready for a model, and what is needed later to understand the model's answer."""

    stamp: float
    """Time of the image, s."""
    image_width: int
    image_height: int
    """Size of the image, px."""
    region: Region
    """Part of the image that the model sees."""
    inputs: Mapping[str, NDArray[Any]]
    """The model's inputs by name; not to be written to."""

    @property
    def width(self) -> int:
        """Of the part that the model sees, px of the image."""
        return self.region.width

    @property
    def height(self) -> int:
        """Of the part that the model sees, px of the image."""
        return self.region.height

    @classmethod
    def of(cls, image: CameraImage, stamp: float, region: Region, model: ImageInput) -> Frame:
        """Show a model the region of an image; ImageError where that sticks out."""
        part = region.within(image.width, image.height)
        return cls(stamp, image.width, image.height, part, {model.name: model.fill(image, part)})

    def camera(self, camera: Pinhole | None) -> Pinhole | None:
        """Camera of the region, from that of the image; None when there is none for images of this size."""
        if camera is None or (camera.width, camera.height) != (self.image_width, self.image_height):
            return None
        region = self.region
        return camera.cropped(region.x_offset, region.y_offset, region.width, region.height)


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

    def fill(self, image: CameraImage, region: Region) -> NDArray[np.uint8]:
        """Bring a region of an image to the size and the channels of this input; read-only."""
        return image.fill(region, self.height, self.width, self.channels)


class PerceptionResult(Protocol):
    """What every result has."""

    @property
    def valid(self) -> bool:
        """Whether its numbers were measured."""
        ...

    @property
    def confidence(self) -> float:
        """0..1."""
        ...


Result = TypeVar("Result", bound=PerceptionResult)


class Eye(Protocol):
    """A perception algorithm, split around the inference so that somebody else can run that."""

    camera: Pinhole | None
    """Intrinsics of the whole image."""
    region: Region
    """Part of the images to look at; results are in px, and directions, of the whole image."""
    min_confidence: float

    @property
    def model(self) -> str:
        """Name of the suite's own graph for it; `models.build` makes it."""
        ...

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Say what model the inference runs; ModelUnsupportedError when it is none for this algorithm."""
        ...

    def preprocess(self, image: ImageLike, stamp: float) -> Frame:
        """Make the model's inputs of an image taken at `stamp` seconds."""
        ...

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> Any:
        """Make an PerceptionResult of what `preprocess` gave and the model's outputs by name."""
        ...


class PerceptionAlgorithm(ABC, Generic[Result]):
    """What the eyes share: the engine they run, and the way of an image to the model's input.

    A subclass says which model it wants (`model`), recognises the one it gets (`_recognise`), and makes
    results of its outputs (`postprocess`).
    """

    def __init__(self, engine: Engine | None, camera: Pinhole | None, min_confidence: float) -> None:
        """Without an engine the suite's own graph `model` runs on the CPU, from the first `update` on.

        Raises ModelUnsupportedError for an engine with a model for something else.
        """
        self.camera = camera
        self.region = WHOLE
        self.min_confidence = min_confidence
        self._engine = engine
        self._input: ImageInput | None = None
        if engine is not None:
            self.bind(engine.inputs, engine.outputs)

    @property
    @abstractmethod
    def model(self) -> str:
        """Name of the suite's own graph; `models.build` makes it."""

    @abstractmethod
    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Get ready for a model with this input and these outputs; ModelUnsupportedError when it is none."""

    @abstractmethod
    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> Result:
        """Second half of `update`: make the result of a frame and the model's outputs by name."""

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Say what model the inference runs; ModelUnsupportedError when it is not one for this."""
        image = ImageInput.of(inputs)
        self._recognise(image, outputs)
        self._input = image

    def update(self, image: ImageLike, stamp: float = 0.0) -> Result:
        """Make a result of an image, uint8 [H, W] or [H, W, 3] RGB, taken at `stamp` seconds.

        Raises ImageError for any other array and for one that `region` sticks out of, DependencyMissingError
        when there is no engine to run on, and what the engine raises.
        """
        engine = self._engine or self._own_engine()
        frame = self.preprocess(image, stamp)
        return self.postprocess(frame, engine.run(frame.inputs))

    def preprocess(self, image: ImageLike, stamp: float = 0.0) -> Frame:
        """First half of `update`: the model's input. `bind` must have been called."""
        return Frame.of(camera_image(image), stamp, self.region, self._bound_input())

    def _bound_input(self) -> ImageInput:
        if self._input is None:
            raise ModelUnsupportedError("expected a model to be bound before images come; there is none")
        return self._input

    def _own_engine(self) -> Engine:
        # Imported late: a node that leaves inference to a driver needs no LiteRT.
        from edgetpu_driver.engines.cpu import CpuEngine

        engine = CpuEngine(models.build(self.model))
        self.bind(engine.inputs, engine.outputs)
        self._engine = engine
        return engine
