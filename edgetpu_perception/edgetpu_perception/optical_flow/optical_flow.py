"""Motion of most of the image from one frame to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.algorithm import Frame, ImageInput, PerceptionAlgorithm
from edgetpu_perception.confidence import ramp
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.optical_flow.flow_features import FlowFeatures, flow_features
from edgetpu_perception.optical_flow.shift_registration import (
    Registration,
    Shift,
    ShiftScores,
    Texture,
)
from edgetpu_perception.pinhole import Pinhole

MAX_SHIFT_SHARE = 9 / 32
"""Largest reported shift along an axis, as a share of the image.

Derived: the range asked for, a quarter, and an eighth of it as reserve.
"""

CORRELATION_RANGE = (0.4, 0.6)
"""Correlation of the features at the shift: unrelated frames up to the first, full confidence from the second
on. Rows: flow, two photographs and two places of a photograph, not valid; any shift to 4, valid;
gabor_64x64_p4: shifts to 1.5, valid."""

EVIDENCE_LEAD_RANGE = (20.0, 60.0)
"""Lead of the best shift's evidence over the next best one: no confidence up to the first, full confidence
from the second on. Rows: flow, shift beyond the range, not valid; any shift to 4, valid; gabor_64x64_p4:
any shift to 4, valid."""

SIGMA_RANGE_CELLS = (0.4, 0.2)
"""Standard deviation of the shift, cells: too little texture from the first on, full confidence up to the
second. Rows: flow, any shift to 4, valid within 0.25. Uncritical."""

TEXTURE_RANGE = (2.0, 4.0)
"""Root mean square of the features over that of rounding alone: no confidence up to the first, full
confidence from the second on. Rows: flow, no texture, not valid. Uncritical."""

PEAK_RADIUS_PX = 4
"""Radius of a correlation peak, px of the model's input; shifts nearer to the best one do not compete with
it. Derived: the features vary over 3 px and more."""


AGREEMENT_RANGE = (0.95, 0.985)
"""Correlation of the part that follows a motion: by chance up to the first, certain from the second on.

Rows: flow, two photographs, not valid; an object of 17 % of the area, valid.
"""

CORRELATION_OF_MOST_RANGE = (0.22, 0.4)
"""Correlation of the whole picture at the motion of most of it, lowered by independently moving parts: by
chance up to the first, certain from the second on. Rows: flow, two photographs, not valid; static camera,
valid."""

FOLLOWING_LEAD_RANGE = (0.2, 0.4)
"""Lead of the share that follows the dominant motion over that of another one: no confidence up to the first,
full confidence from the second on. Rows: flow, an object of 17 % of the area, valid."""

FOLLOWING_RANGE = (0.02, 0.1)
"""Share of the picture that has texture and follows a motion: by chance up to the first, trusted from the
second on. Rows: flow, two places of a photograph, not valid."""

Candidate = tuple[int, int, Shift]
"""Row and column of a whole shift in ShiftScores, and what it was refined to."""


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
        self.surface: ShiftScores | None = None
        """Scores of all whole shifts in the last comparison; None if there was none."""
        self._features: FlowFeatures | None = None
        self._last: tuple[Frame, Texture] | None = None
        self._dominant_shift = (0, 0)
        self._use_engine(engine)

    @property
    def model(self) -> str:
        """Name of the suite's own graph; the visual compass uses the same one."""
        return features.name(self._size, self._size)

    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Accept the suite's own features, of any size and order, and the maps of Gabor models."""
        self._features = flow_features(image, outputs)
        self.reset()

    def reset(self) -> None:
        """Forget the previous frame."""
        self._last = None
        self._dominant_shift = (0, 0)
        self.surface = None

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> FlowResult:
        """Second half of `update`: make the result from a frame and the model's outputs by name."""
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
        row, column, shift, clarity = self._match(decoder, first, second)
        dx_sigma, dy_sigma = (math.hypot(s, decoder.floor) for s in (shift.dx_sigma, shift.dy_sigma))
        confidence = (
            ramp(decoder.search.texture_over_rounding(first, second, row, column), *TEXTURE_RANGE)
            * clarity
            * ramp(-max(dx_sigma, dy_sigma), -SIGMA_RANGE_CELLS[0], -SIGMA_RANGE_CELLS[1])
        )
        x_cells, y_cells = image.width / decoder.cell, image.height / decoder.cell
        near = abs(shift.dx) <= MAX_SHIFT_SHARE * x_cells and abs(shift.dy) <= MAX_SHIFT_SHARE * y_cells
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

    def _match(self, decoder: FlowFeatures, first: Texture, second: Texture) -> tuple[int, int, Shift, float]:
        """Row and column of the best whole shift, what it is refined to, and confidence, 0..1, by agreement.

        Independent motion is searched for if the picture as a whole does not follow the best shift.
        """
        search = decoder.search
        surface = self.surface = search.compare(first, second)
        peak = max(round(PEAK_RADIUS_PX / decoder.cell), 2)
        row, column = divmod(int(surface.evidence.argmax()), surface.evidence.shape[1])
        shift = search.refine(first, second, column - search.reach_x, row - search.reach_y)
        lead = decoder.independent * _evidence_lead(surface.evidence, row, column, peak)
        agreement = ramp(float(surface.correlation[row, column]), *CORRELATION_RANGE)
        clarity = agreement * ramp(lead, *EVIDENCE_LEAD_RANGE)
        if search.sees_parts and (shift.following < 1.0 or clarity < 1.0):
            # A shift that not all of the picture follows has been refined to what does.
            parts = shift.following < 1.0
            best = (row, column, shift) if parts else _candidate(search, first, second, row, column)
            row, column, shift, ahead = self._dominant(search, first, second, best, peak)
            of_most = ramp(ahead, *FOLLOWING_LEAD_RANGE)
            of_most *= ramp(float(surface.correlation[row, column]), *CORRELATION_OF_MOST_RANGE)
            trusted = clarity * ramp(shift.following, *FOLLOWING_RANGE) if shift is best[2] else 0.0
            clarity = max(of_most, trusted)
        self._dominant_shift = (column - search.reach_x, row - search.reach_y)
        return row, column, shift, clarity

    def _dominant(
        self, search: Registration, first: Texture, second: Texture, best: Candidate, peak: int
    ) -> tuple[int, int, Shift, float]:
        """The motion that most of the area follows, and its lead over the other candidates.

        The candidates are the two largest peaks of the evidence, which goes by contrast rather than area, the
        motion of the frame before, and no motion.
        """
        assert self.surface is not None
        dx, dy = self._dominant_shift
        places = [
            _second_peak(self.surface.evidence, best[0], best[1], peak),
            (search.reach_y, search.reach_x),
            (search.reach_y + dy, search.reach_x + dx),
        ]
        candidates = [best]
        for row, column in places:
            if all(abs(row - other[0]) > 1 or abs(column - other[1]) > 1 for other in candidates):
                rival = search.rival(first, second, column - search.reach_x, row - search.reach_y)
                candidates.append((row, column, rival))
        candidates.sort(key=lambda candidate: -_score(candidate[2]))
        row, column, shift = candidates[0]
        if shift is not best[2]:
            row, column, shift = _candidate(search, first, second, row, column)
        others = (
            _score(other)
            for _, _, other in candidates[1:]
            if math.hypot(other.dx - shift.dx, other.dy - shift.dy) > peak
        )
        return row, column, shift, _score(shift) - max(others, default=0.0)


def _candidate(search: Registration, first: Texture, second: Texture, row: int, column: int) -> Candidate:
    """A whole shift, refined to the motion of most of the area near it."""
    shift = search.refine(first, second, column - search.reach_x, row - search.reach_y, of_most=True)
    return row, column, shift


def _score(shift: Shift) -> float:
    """Share of the picture that follows a motion, 0..1; 0 if the frames do not agree there."""
    return shift.following * ramp(shift.agreement, *AGREEMENT_RANGE)


def _second_peak(evidence: NDArray[np.float32], row: int, column: int, peak: int) -> tuple[int, int]:
    """Row and column of the largest evidence farther than half a peak from the best one."""
    radius = max(peak // 2, 1)
    rest = evidence.copy()
    rest[max(row - radius, 0) : row + radius + 1, max(column - radius, 0) : column + radius + 1] = 0.0
    place = divmod(int(rest.argmax()), rest.shape[1])
    return place[0], place[1]


def _view(frame: Frame) -> tuple[object, ...]:
    return frame.image_width, frame.image_height, frame.region


def _evidence_lead(evidence: NDArray[np.float32], row: int, column: int, peak: int) -> float:
    """Evidence at the best shift minus the largest one farther than `peak` cells from it."""
    best = float(evidence[row, column])
    near = (slice(max(row - peak, 0), row + peak + 1), slice(max(column - peak, 0), column + peak + 1))
    kept = evidence[near].copy()
    evidence[near] = 0.0
    others = float(evidence.max())
    evidence[near] = kept
    return best - others
