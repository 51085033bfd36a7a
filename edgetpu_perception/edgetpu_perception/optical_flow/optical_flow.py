"""Mean motion of the image content from one frame to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.algorithm import Frame, ImageInput, PerceptionAlgorithm
from edgetpu_perception.confidence import ramp
from edgetpu_perception.graphs import band_pass_features as features
from edgetpu_perception.images.pinhole import Pinhole
from edgetpu_perception.optical_flow.flow_features import FlowFeatures, flow_features
from edgetpu_perception.optical_flow.shift_registration import Surface, Texture

REACH = 9 / 32
"""Largest shift along an axis, as a share of the image: a quarter, and an eighth of that for good measure."""

LIKE = (0.4, 0.6)
"""Correlation of the features at the shift: unrelated frames below the first, no doubt above the second."""

UNIQUE = (20.0, 60.0)
"""Evidence by which the shift must stand out from the next best one."""

PRECISE = (0.4, 0.2)
"""Standard deviation of the shift in cells: too little texture above the first, no doubt below the second."""

TEXTURED = (2.0, 4.0)
"""Root mean square of the features over what rounding makes of an even surface."""

PEAK = 4
"""Half the width of a peak, px of the model's input: shifts so near to the best one are no other shifts."""


@dataclass(frozen=True)
class FlowResult:
    """How the content moved since the previous frame; the numbers of motion are NaN unless `valid`."""

    stamp: float
    """Time of the image, s."""
    valid: bool
    confidence: float
    """0..1"""
    previous_stamp: float = math.nan
    """Time of the image before it, s; NaN for the first one."""
    dx: float = math.nan
    """Right positive, px of the image handed in."""
    dy: float = math.nan
    """Down positive, px of the image handed in."""
    dx_sigma: float = math.nan
    dy_sigma: float = math.nan


class OpticalFlow(PerceptionAlgorithm[FlowResult]):
    """Motion between consecutive frames, to a fraction of a pixel, with its error.

        flow = OpticalFlow()
        result = flow.update(image, stamp)

    `update` runs the model on `engine`; without one the suite's own graph runs on the CPU. Where inference is
    somebody else's, `bind` tells what model it is, and `preprocess` and `postprocess` are the two halves of
    `update`. The features of the frame before are kept, so each frame goes through the model once. Shifts of
    up to 9/32 of the image along each axis are reported.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        camera: Pinhole | None = None,
        *,
        min_confidence: float = 0.2,
    ) -> None:
        """Results below `min_confidence` are not valid. `camera` is not needed: the result is in px.

        Raises ModelUnsupportedError for an engine with another model.
        """
        super().__init__(camera, min_confidence)
        self.surface: Surface | None = None
        """What spoke for each shift in the last comparison."""
        self._features: FlowFeatures | None = None
        self._last: tuple[Frame, Texture] | None = None
        self._use_engine(engine)

    @property
    def model(self) -> str:
        """Name of the suite's own graph for it; the visual compass has the same one."""
        return features.name()

    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Understand the suite's own features, of any size and order, and the maps of the gabor models."""
        self._features = flow_features(image, outputs)
        self.reset()

    def reset(self) -> None:
        """Forget the previous frame."""
        self._last = None
        self.surface = None

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> FlowResult:
        """Second half of `update`: make the result of a frame and the model's outputs by name."""
        bound = self._bound_input()
        assert self._features is not None
        texture = self._features.read(outputs)
        last, self._last = self._last, (frame, texture)
        if last is None or frame.stamp < last[0].stamp or _view(last[0]) != _view(frame):
            self.surface = None
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
        search = decoder.search
        surface = self.surface = search.compare(first, second)
        row, column = divmod(int(surface.evidence.argmax()), surface.evidence.shape[1])
        shift = search.refine(first, second, column - search.reach_x, row - search.reach_y)
        dx_sigma, dy_sigma = (math.hypot(s, decoder.floor) for s in (shift.dx_sigma, shift.dy_sigma))
        peak = max(round(PEAK / decoder.cell), 2)
        confidence = (
            ramp(search.loudness(first, second, row, column), *TEXTURED)
            * ramp(float(surface.correlation[row, column]), *LIKE)
            * ramp(_lead(surface.evidence, row, column, peak) * decoder.independent, *UNIQUE)
            * ramp(-max(dx_sigma, dy_sigma), -PRECISE[0], -PRECISE[1])
        )
        x_cells, y_cells = image.width / decoder.cell, image.height / decoder.cell
        near = abs(shift.dx) <= REACH * x_cells and abs(shift.dy) <= REACH * y_cells
        if not near or confidence < self.min_confidence:
            return FlowResult(frame.stamp, False, confidence if near else 0.0, last.stamp)
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


def _view(frame: Frame) -> tuple[object, ...]:
    return frame.image_width, frame.image_height, frame.region


def _lead(evidence: NDArray[np.float32], row: int, column: int, peak: int) -> float:
    """By how much the evidence at the best shift exceeds that of every shift not so near to it, in cells."""
    best = float(evidence[row, column])
    near = (slice(max(row - peak, 0), row + peak + 1), slice(max(column - peak, 0), column + peak + 1))
    kept = evidence[near].copy()
    evidence[near] = 0.0
    others = float(evidence.max())
    evidence[near] = kept
    return best - others
