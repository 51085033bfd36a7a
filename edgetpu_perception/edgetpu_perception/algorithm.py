"""The base class of the perception algorithms, and the frame between `preprocess` and `postprocess`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.region import WHOLE, Region
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.graphs import families as models

ImageLike = NDArray[np.uint8] | CameraImage
"""uint8 [H, W] or [H, W, 3] RGB; a CameraImage if several algorithms get the same image."""

MAX_REPEATED_S = 0.25
"""Longest time for which identical images are taken for one that the camera has sent again, s; after it the
camera is taken to stand still. Derived: images sent twice at 8 in a second.
"""


def camera_image(image: ImageLike) -> CameraImage:
    """Check and wrap an array; ImageError unless it is uint8 [H, W] or [H, W, 3]."""
    return image if isinstance(image, CameraImage) else CameraImage(image)


class Position(NamedTuple):
    """A position in the image, in three units, with its standard deviations."""

    u: float
    """px of the image, right positive; (0, 0) is the centre of the first pixel."""
    v: float
    """px of the image, down positive."""
    u_sigma: float
    v_sigma: float
    x: float
    """-1 is the centre of the first column of pixels, 1 that of the last one."""
    y: float
    """-1 is the centre of the first row of pixels, 1 that of the last one."""
    x_sigma: float
    y_sigma: float
    bearing: tuple[float, float, float, float]
    """atan2(x, z) and atan2(y, z) in the optical frame and their standard deviations, rad; NaN if unknown."""


@dataclass(frozen=True)
class Frame:
    """A model's inputs made from one image, with what `postprocess` needs to know about that image."""

    stamp: float
    """Time of the image, s."""
    image_width: int
    image_height: int
    """Size of the image, px."""
    region: Region
    """Part of the image that the model sees."""
    inputs: Mapping[str, NDArray[Any]]
    """The model's inputs by name; read-only."""
    image: CameraImage | None = None
    """The image itself, for algorithms that look at parts of it again."""

    @property
    def width(self) -> int:
        """Width of the region, px of the image."""
        return self.region.width

    @property
    def height(self) -> int:
        """Height of the region, px of the image."""
        return self.region.height

    @property
    def region_scale(self) -> float:
        """Size of the region over that of the image, 0..1: the geometric mean of both axes."""
        return math.sqrt(self.width / self.image_width * (self.height / self.image_height))

    @classmethod
    def of(cls, image: CameraImage, stamp: float, region: Region, model: ImageInput) -> Frame:
        """Crop and resize a region of an image for a model; ImageError if the region exceeds the image."""
        part = region.within(image.width, image.height)
        return cls(stamp, image.width, image.height, part, {model.name: model.fill(image, part)}, image)

    def camera(self, camera: Pinhole | None) -> Pinhole | None:
        """Intrinsics of the region, from those of the image; None if they are for another image size."""
        if camera is None or (camera.width, camera.height) != (self.image_width, self.image_height):
            return None
        region = self.region
        return camera.cropped(region.x_offset, region.y_offset, region.width, region.height)

    def position(
        self,
        cells: ImageInput,
        x: float,
        y: float,
        x_sigma: float,
        y_sigma: float,
        camera: Pinhole | None,
    ) -> Position:
        """Convert a position and its standard deviations, in cells from the centre of the input's first cell.

        `cells`: the model's input; `camera`: intrinsics of the whole image, for the bearing.
        """
        x_cell, y_cell = self.width / cells.width, self.height / cells.height
        u, v = (x + 0.5) * x_cell - 0.5, (y + 0.5) * y_cell - 0.5
        u_sigma, v_sigma = x_sigma * x_cell, y_sigma * y_cell
        x_unit, y_unit = 2 / max(self.image_width - 1, 1), 2 / max(self.image_height - 1, 1)
        bearing = (math.nan,) * 4
        camera = self.camera(camera)
        if camera is not None:
            bearing = camera.bearing_with_sigma(u, v, u_sigma, v_sigma)
        u, v = u + self.region.x_offset, v + self.region.y_offset
        offset = u * x_unit - 1, v * y_unit - 1, u_sigma * x_unit, v_sigma * y_unit
        return Position(u, v, u_sigma, v_sigma, *offset, bearing)


@dataclass(frozen=True)
class ImageInput:
    """The input of a model that takes one image: uint8 [1, height, width, 1 (grey) or 3 (RGB)]."""

    name: str
    height: int
    width: int
    channels: int

    @classmethod
    def of(cls, inputs: Sequence[TensorSpec]) -> ImageInput:
        """The image input of a model with these inputs; ModelUnsupportedError if it takes anything else."""
        if len(inputs) == 1 and inputs[0].dtype == np.uint8 and len(inputs[0].shape) == 4:
            batch, height, width, channels = inputs[0].shape
            if batch == 1 and channels in (1, 3):
                return cls(inputs[0].name, height, width, channels)
        came = ", ".join(map(str, inputs)) or "none"
        raise ModelUnsupportedError(f"expected one input uint8[1, height, width, 1 or 3]; got {came}")

    def fill(self, image: CameraImage, region: Region) -> NDArray[np.uint8]:
        """A region of an image as this input, uint8 [1, height, width, channels]; read-only."""
        return image.fill(region, self.height, self.width, self.channels)


class PerceptionResult(Protocol):
    """The fields that every result has."""

    @property
    def valid(self) -> bool:
        """Whether the numbers were measured."""
        ...

    @property
    def confidence(self) -> float:
        """0..1."""
        ...


Result = TypeVar("Result", bound=PerceptionResult)


class PerceptionAlgorithm(ABC, Generic[Result]):
    """An algorithm that computes a result from each camera image, with one inference in between.

    `update` does all of it on an engine. If inference runs elsewhere, call `bind` with the model's tensors
    once, and for each image `preprocess`, the inference, and `postprocess`.

    A subclass names the graph it is made for (`model`), accepts the model it gets (`_recognise`), and
    computes results from its outputs (`postprocess`). Its constructor ends with `_use_engine`.
    """

    camera: Pinhole | None
    """Intrinsics of the whole image; None if unknown."""
    region: Region
    """Part of the image to look at. Positions and directions in results are those of the whole image."""
    min_confidence: float
    """Results with less confidence, 0..1, are not valid."""

    def __init__(self, camera: Pinhole | None, min_confidence: float) -> None:
        self.camera = camera
        self.region = WHOLE
        self.min_confidence = min_confidence
        self._engine: Engine | None = None
        self._input: ImageInput | None = None

    @property
    @abstractmethod
    def model(self) -> str:
        """Name of the suite's own graph for this algorithm; `graphs.families.build` builds it."""

    @abstractmethod
    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> Result:
        """Second half of `update`: make the result from a frame and the model's outputs by name."""

    @abstractmethod
    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Prepare for a model with this input and these outputs; ModelUnsupportedError if unsuitable."""

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Set the model that inference runs; ModelUnsupportedError if it does not suit this algorithm."""
        image = ImageInput.of(inputs)
        self._recognise(image, outputs)
        self._input = image

    def update(self, image: ImageLike, stamp: float = 0.0) -> Result:
        """Make a result from an image, uint8 [H, W] or [H, W, 3] RGB, taken at `stamp` seconds.

        Raises ImageError for any other array and if `region` exceeds the image, InputError for a stamp that
        is not finite, DependencyMissingError without LiteRT and without an engine, and what the engine
        raises.
        """
        engine = self._engine or self._make_engine()
        frame = self.preprocess(image, stamp)
        return self.postprocess(frame, engine.run(frame.inputs))

    def preprocess(self, image: ImageLike, stamp: float = 0.0) -> Frame:
        """First half of `update`: make the model's input.

        Raises ImageError and InputError as `update`, and ModelUnsupportedError before `bind`.
        """
        if not math.isfinite(stamp):
            raise InputError(f"expected a finite stamp, s; got {stamp}")
        return Frame.of(camera_image(image), stamp, self.region, self._bound_input())

    def _use_engine(self, engine: Engine | None) -> None:
        """Run on this engine; if None, on the CPU with the suite's own graph, from the first `update` on.

        Raises ModelUnsupportedError for an engine with an unsuitable model.
        """
        if engine is not None:
            self.bind(engine.inputs, engine.outputs)
        self._engine = engine

    def _bound_input(self) -> ImageInput:
        if self._input is None:
            raise ModelUnsupportedError("expected a model to be bound before the first image; got none")
        return self._input

    def _graph(self) -> bytes:
        """The suite's own graph."""
        return models.build(self.model)

    def _make_engine(self) -> Engine:
        # Imported late: a node whose inference runs in a driver needs no LiteRT.
        from edgetpu_driver.engines.cpu_engine import CpuEngine

        engine = CpuEngine(self._graph())
        self._use_engine(engine)
        return engine
