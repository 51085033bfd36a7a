"""Tracks the brightest spot of an image, or the strongest one of a colour."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine, SwappableEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.weight_request import WeightRequest
from edgetpu_perception.algorithm import Frame, ImageInput, PerceptionAlgorithm
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.graphs import spot_tracker_evidence as graph
from edgetpu_perception.graphs.color_weights import color_filter
from edgetpu_perception.spot_tracker.coordinate_decoder import CoordinateDecoder
from edgetpu_perception.spot_tracker.evidence_decoder import EvidenceDecoder
from edgetpu_perception.spot_tracker.spot_decoder import NO_SPOT, SpotDecoder
from edgetpu_perception.spot_tracker.spot_motion import Raster, SpotMotion
from edgetpu_perception.spot_tracker.spot_size import spot_diameter


@dataclass(frozen=True)
class SpotResult:
    """Position of the spot in the image. All numbers but stamp and confidence are NaN unless `valid`."""

    stamp: float
    """Time of the image, s."""
    valid: bool
    confidence: float
    """0..1"""
    x: float = math.nan
    """-1 is the centre of the first column of pixels, 1 that of the last one."""
    y: float = math.nan
    """-1 is the centre of the first row of pixels, 1 that of the last one."""
    x_sigma: float = math.nan
    """One standard deviation, in units of `x`."""
    y_sigma: float = math.nan
    bearing_x: float = math.nan
    """atan2(x, z) in the optical frame, right positive, rad; NaN without a camera of the image's size."""
    bearing_y: float = math.nan
    """atan2(y, z) in the optical frame, down positive, rad."""
    bearing_x_sigma: float = math.nan
    """One standard deviation, rad."""
    bearing_y_sigma: float = math.nan
    u: float = math.nan
    """`x` in px of the image; (0, 0) is the centre of the first pixel."""
    v: float = math.nan
    """`y` in px of the image."""
    diameter: float = math.nan
    """That of a disc of the spot's area, px of the image; NaN if not measured, see `measure_size`. Of a spot
    that one border cuts off, the width along that border; NaN if less than 0.6 of the width is visible."""


class SpotTracker(PerceptionAlgorithm[SpotResult]):
    """Brightest spot, or strongest spot of a colour, with its error and its direction.

        tracker = SpotTracker()
        result = tracker.update(image, stamp)

    Of several spots of about the same strength the tracker stays with the one it followed, also if they
    cross. If inference runs elsewhere, use `bind`, `preprocess` and `postprocess` instead of `update`.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        camera: Pinhole | None = None,
        *,
        color: str | Sequence[float] | None = None,
        size: int = 64,
        min_confidence: float = 0.2,
    ) -> None:
        """`engine`: runs the model; None for the suite's own graph on the CPU.

        `color`: a preset of `graphs.color_weights.COLORS`, three weights for red, green and blue, or None for
        brightness. With an engine it is the colour that its model was made for; `set_color` changes it.
        `size`: width and height of the suite's own graph, px. `camera`: intrinsics of the images, for
        bearings. Results below `min_confidence`, 0..1, are not valid.
        Raises ColorError for an unknown colour and ModelUnsupportedError for an engine with another model.
        """
        super().__init__(camera, min_confidence)
        self._color = color
        self._size = size
        self._model = graph.name(color, size, size)
        self._fixed = engine is not None
        self._decoder: SpotDecoder | None = None
        self._motion = SpotMotion()
        self.measure_size = False
        """Whether results have a diameter, which takes longer."""
        self._use_engine(engine)

    @property
    def model(self) -> str:
        """Name of the suite's own graph for the present colour; `graphs.families.build` builds it."""
        return self._model

    @property
    def color(self) -> str | Sequence[float] | None:
        """The colour: a preset, weights of red, green and blue, or None for brightness."""
        return self._color

    def set_color(self, color: str | Sequence[float]) -> None:
        """Track another colour, a preset or weights of red, green and blue, from the next image on.

        The engine's model gets new weights; no compiler is needed. See SwappableEngine.set_weights for the
        errors it raises. If inference runs elsewhere, first give the model
        `graphs.color_weights.color_filter(color)`. Raises ColorError for an unknown colour, and
        ModelUnsupportedError for an engine with a model for brightness or one that keeps its weights.
        """
        weights = color_filter(color)
        colored = self._input is not None and self._input.channels == 3
        if self._fixed and not colored:
            raise ModelUnsupportedError(
                "expected an engine whose model is made for a colour; got one with a grey input"
            )
        if self._engine is not None and colored:
            if not hasattr(self._engine, "set_weights"):
                raise ModelUnsupportedError(
                    f"expected an engine whose weights can be replaced; got {type(self._engine).__name__}"
                )
            cast(SwappableEngine, self._engine).set_weights(WeightRequest(weights))
        self._model = graph.name(color, self._size, self._size)
        self._color = color
        self._motion = SpotMotion()
        if self._input is not None and colored:
            self._recognise(self._input, self._outputs)
        else:  # the graph for brightness is a different one
            self._engine = None
            self._input = None
            self._decoder = None

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> SpotResult:
        """Second half of `update`: make the result from a frame and the model's outputs by name.

        Raises ModelUnsupportedError if a model with two coordinates turns out not to track brightness.
        """
        image = self._bound_input()
        assert self._decoder is not None
        camera = frame.image
        cell = frame.width / image.width, frame.height / image.height
        self._motion.look_at(_raster(frame, cell))
        spot = self._decoder.decode(
            frame.inputs[image.name],
            outputs,
            self._motion.expected(frame.stamp),
            cell,
            functools.partial(camera.part, frame.region, image.channels) if camera is not None else None,
        )
        if spot is NO_SPOT or spot.confidence < self.min_confidence:
            return SpotResult(frame.stamp, False, spot.confidence)
        self._motion.update(frame.stamp, spot)
        at = frame.position(image, spot.x, spot.y, spot.x_sigma, spot.y_sigma, self.camera)
        return SpotResult(
            frame.stamp,
            True,
            spot.confidence,
            at.x,
            at.y,
            at.x_sigma,
            at.y_sigma,
            *at.bearing,
            at.u,
            at.v,
            self._diameter(frame, at.u, at.v),
        )

    def _diameter(self, frame: Frame, u: float, v: float) -> float:
        if not self.measure_size or frame.image is None:
            return math.nan
        weights = None if self._color is None else color_filter(self._color).ravel()
        return spot_diameter(frame.image, frame.region, u, v, weights)

    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Accept an evidence map of the input's size, as of the suite's own graphs, or two coordinates.

        Two coordinates are the outputs of the models "bright" and "color" of LibrEdgeTPU.
        """
        self._outputs = tuple(outputs)
        weights = None
        if image.channels == 3 and self._color is not None:
            weights = color_filter(self._color).ravel().tolist()
        if len(outputs) == 1 and outputs[0].shape == (1, image.height, image.width, 1):
            is_pure = isinstance(self._color, str)
            self._decoder = EvidenceDecoder(outputs[0], image.channels == 3, weights, is_pure=is_pure)
        elif sum(math.prod(spec.shape) for spec in outputs) == 2:
            self._decoder = CoordinateDecoder(outputs, image.height, image.width, weights)
        else:
            came = ", ".join(map(str, outputs)) or "none"
            raise ModelUnsupportedError(
                f"expected an output [1, {image.height}, {image.width}, 1] or two coordinates; got {came}"
            )


def _raster(frame: Frame, cell: tuple[float, float]) -> Raster:
    """The cells of a frame, each of `cell` px of the image, as parts of the image."""
    return Raster(
        frame.region.x_offset / frame.image_width,
        frame.region.y_offset / frame.image_height,
        cell[0] / frame.image_width,
        cell[1] / frame.image_height,
    )
