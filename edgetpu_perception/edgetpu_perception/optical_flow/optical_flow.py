"""Motion of most of the image from one frame to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.algorithm import Frame, ImageInput, PerceptionAlgorithm
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.optical_flow.flow_features import FlowFeatures, flow_features
from edgetpu_perception.optical_flow.magnification import NONE, Magnification
from edgetpu_perception.optical_flow.shift_choice import Motion, ShiftChoice
from edgetpu_perception.optical_flow.shift_registration import Shift, ShiftScores, Texture

MAX_SHIFT_SHARE = 9 / 32
"""Largest reported shift along an axis, as a share of the image.

Derived: a quarter, which is the range asked for, and an eighth of that in reserve.
"""

SIGMA_RANGE_CELLS = (0.4, 0.2)
"""Standard deviation of the shift in cells: too little texture above the first, full confidence below the
second. Rows: flow, any shift to 4, valid within 0.25. Uncritical."""

FULL_FLOOR_CELLS = 1 / (2 * math.pi)
"""Shift in cells above which the errors between noise-free frames are as large as `FlowFeatures.floor`.

Derived: between whole cells they follow the sine of 2 pi times the shift in cells; at standstill there are
none, as both frames have the same features. Rows: flow, a camera at rest, inside one sigma.
"""

TEXTURE_RANGE = (2.0, 4.0)
"""Root mean square of the features over that of rounding alone: no confidence up to the first, full
confidence from the second on. Rows: flow, no texture, not valid. Uncritical."""


@dataclass(frozen=True)
class FlowResult:
    """Motion of most of the image since the previous frame; its numbers are NaN unless `valid`."""

    stamp: float
    """Time of the image, s."""
    valid: bool
    confidence: float
    """0..1"""
    previous_stamp: float = math.nan
    """Time of the previous image, s; NaN for the first image."""
    dx: float = math.nan
    """Right positive, px of the image."""
    dy: float = math.nan
    """Down positive, px of the image."""
    dx_sigma: float = math.nan
    """One standard deviation, px of the image."""
    dy_sigma: float = math.nan


class OpticalFlow(PerceptionAlgorithm[FlowResult]):
    """Motion between consecutive frames, to a fraction of a pixel, with its error.

        flow = OpticalFlow()
        result = flow.update(image, stamp)

    Shifts of up to 9/32 of the image along each axis are reported. The features of the previous frame are
    kept, so each frame goes through the model once. If inference runs elsewhere, use `bind`, `preprocess` and
    `postprocess` instead of `update`.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        camera: Pinhole | None = None,
        *,
        size: int = 64,
        min_confidence: float = 0.2,
    ) -> None:
        """Results below `min_confidence` are not valid. `camera` is not needed: the result is in px.

        `size`: width and height of the suite's own graph, px.

        Raises ModelUnsupportedError for an engine with another model.
        """
        super().__init__(camera, min_confidence)
        self._size = size
        self._outputs: Sequence[TensorSpec] = ()
        self._magnification = NONE
        self._features: FlowFeatures | None = None
        self._choice: ShiftChoice | None = None
        self._last: tuple[Frame, Texture] | None = None
        self._speed: Motion | None = None
        self._use_engine(engine)

    @property
    def model(self) -> str:
        """Name of the suite's own graph; the visual compass uses the same one."""
        return features.name(self._size, self._size)

    @property
    def surface(self) -> ShiftScores | None:
        """Scores of all whole shifts in the last comparison; None if there was none."""
        return self._choice.surface if self._choice is not None else None

    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Accept the suite's own features, of any size and order, and the maps of Gabor models."""
        self._outputs = outputs
        self._look_for(image, NONE)
        self.reset()

    def _look_for(self, image: ImageInput, magnification: Magnification) -> None:
        """Prepare for images that are enlarged by `magnification` to the model's input."""
        self._features = flow_features(image, self._outputs, magnification)
        self._choice = ShiftChoice(self._features)
        self._magnification = magnification

    def reset(self) -> None:
        """Forget the previous frame."""
        self._last = None
        self._speed = None
        if self._choice is not None:
            self._choice.reset()

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> FlowResult:
        """Second half of `update`: make the result from a frame and the model's outputs by name."""
        bound = self._bound_input()
        magnification = Magnification.of(frame.width, frame.height, bound.width, bound.height)
        if magnification != self._magnification:
            self._look_for(bound, magnification)
        assert self._features is not None
        texture = self._features.read(outputs)
        last, self._last = self._last, (frame, texture)
        if last is None or frame.stamp < last[0].stamp or _view(last[0]) != _view(frame):
            self._speed = None
            assert self._choice is not None
            self._choice.surface = None
            return FlowResult(frame.stamp, False, 0.0)
        return self._compare(self._features, bound, last, (frame, texture))

    def _compare(
        self,
        decoder: FlowFeatures,
        image: ImageInput,
        before: tuple[Frame, Texture],
        after: tuple[Frame, Texture],
    ) -> FlowResult:
        (last, first), (frame, second) = before, after
        assert self._choice is not None
        interval = frame.stamp - last.stamp
        expected = None if self._speed is None else (self._speed[0] * interval, self._speed[1] * interval)
        (row, column), shift, clarity = self._choice.choose(first, second, expected)
        self._speed = None
        dx_sigma, dy_sigma = self._sigmas(decoder, shift)
        confidence = (
            ramp(decoder.search.texture_over_rounding(first, second, row, column), *TEXTURE_RANGE)
            * clarity
            * ramp(-max(dx_sigma, dy_sigma), -SIGMA_RANGE_CELLS[0], -SIGMA_RANGE_CELLS[1])
        )
        x_cells, y_cells = image.width / decoder.cell, image.height / decoder.cell
        near = abs(shift.dx) <= MAX_SHIFT_SHARE * x_cells and abs(shift.dy) <= MAX_SHIFT_SHARE * y_cells
        if not near or confidence < self.min_confidence:
            return FlowResult(frame.stamp, False, confidence if near else 0.0, last.stamp)
        # Added only now: it says nothing about texture, and `clarity` already covers it.
        dx_sigma, dy_sigma = (
            math.sqrt(sigma**2 + doubt)
            for sigma, doubt in zip((dx_sigma, dy_sigma), shift.doubt, strict=True)
        )
        if interval > 0.0:
            self._speed = shift.dx / interval, shift.dy / interval
        x_px, y_px = frame.width / x_cells, frame.height / y_cells
        return FlowResult(
            frame.stamp,
            True,
            confidence,
            last.stamp,
            shift.dx * x_px,
            shift.dy * y_px,
            dx_sigma * x_px,
            dy_sigma * y_px,
        )

    def _sigmas(self, decoder: FlowFeatures, shift: Shift) -> tuple[float, float]:
        """Standard deviations in cells of a shift along x and y, with the errors of noise-free images."""
        x_aliasing, y_aliasing = self._magnification.aliasing
        moved = min(math.hypot(shift.dx, shift.dy) / FULL_FLOOR_CELLS, 1.0)
        return (
            math.hypot(shift.dx_sigma, moved * (decoder.floor + x_aliasing / decoder.cell)),
            math.hypot(shift.dy_sigma, moved * (decoder.floor + y_aliasing / decoder.cell)),
        )


def _view(frame: Frame) -> tuple[object, ...]:
    return frame.image_width, frame.image_height, frame.region
