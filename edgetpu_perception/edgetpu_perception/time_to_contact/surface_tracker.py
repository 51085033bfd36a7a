"""Surfaces in view and how fast each comes closer: one, or one before another.

Each surface is a plane that moves for itself; every element of the map belongs to the one whose motion
explains it. A second surface is tried where one motion leaves something unexplained, and stays while it
explains more.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from edgetpu_perception.time_to_contact.homography_alignment import (
    TILT,
    TURN,
    Aligner,
    Alignment,
    Expectation,
    Grid,
    Map,
    inverse,
    parameters_of,
    precision_of,
    warp_of,
)
from edgetpu_perception.time_to_contact.independent_motion import MotionSearch
from edgetpu_perception.time_to_contact.noise_and_exposure import Exposure, NoiseLevel
from edgetpu_perception.time_to_contact.relative_depth import RelativeDepth
from edgetpu_perception.time_to_contact.stamp_jitter import StampJitter
from edgetpu_perception.time_to_contact.surface import Surface

LONGEST = 1.0
"""Age of a keyframe, s, after which a new one is taken, ..."""

LARGEST_GROWTH = math.log(1.3)
"""... or after that much change of depth, ..."""

LARGEST_SHIFT = 0.25
"""... or a shift by that share of the picture, ..."""

SMALLEST_OVERLAP = 0.75
"""... or when less than this share of the picture is in the keyframe."""

LOST_OVERLAP = 0.3
"""Below this share there is nothing to go by, ..."""

LOST_GROWTH = 1.0
"""... and beyond this change of depth, as a logarithm, the alignment has failed."""

CORRELATION = 1.8
"""How many times less certain results are than if neighbouring elements had independent noise."""

EDGE_ERROR = 0.1
"""Elements by which real images do not follow a warp; slopes make it an error of brightness."""

IMAGE_NOISE = 0.55
"""Share of the variance of a difference that is the image's: warping smooths the keyframe's."""

ROUNDING = 1 / 12
"""Variance of a slope that comes from rounding it to whole grey levels."""

_FREE = precision_of(0.15, 0.15, 0.05, 0.05, 0.03, 0.03, 0.1, 0.1)
"""Precision of what is expected of the main surface's warp ..."""

_BESIDE = precision_of(0.15, 0.15, 0.05, 0.01, 0.01, 0.01, 0.02, 0.02)
"""... and of another one's: the camera, and so turn and tilt, is the same."""

_WINDOW = 7
"""Side of the neighbourhood over which residuals are averaged, elements."""

_OUTLIER = 4.0
"""Mean squared residual, in its variance, from which on an element counts less."""

_UNEXPLAINED = 2.0
"""Mean squared residual, in its variance, above which an element moves in another way."""

_SMALLEST_PART = 0.02
"""Share of the map a surface must have."""

_TRIAL = (8, 20)
"""Frames that a new surface is given at least to part from the main one, and at most to prove itself."""

_PAUSE, _INTERVAL = 8, 2
"""Frames after a trial that failed until the next search for another motion, and from search to search."""

_EVIDENCE_TRIED = 30.0
"""Chi-square by which a motion of its own must explain part of the image better to be followed."""

_FARTHEST = 3.0
"""Elements up to which a shift can be told from slopes: what seems to move farther cannot be followed."""

_EVIDENCE, _EVIDENCE_KEPT = 60.0, 30.0
"""Chi-square by which a surface must explain the image better to be established, and to stay so."""

_FORGET = 0.97
"""Share of the evidence that is kept from frame to frame."""

_SAME = 0.4
"""Surfaces that move less than so many elements apart are one."""

_NEARER_SIGMAS = 2.0
"""Standard deviations by which a surface must be found to come closer sooner than the main one, once."""

_SHORT = 0.1
"""Seconds within which too little moves to tell anything but the position."""


class SurfaceTracker:
    """Follows the surfaces in a sequence of slope maps."""

    def __init__(self, grid: Grid, slope_noise: float) -> None:
        """`slope_noise`: standard deviation of a slope over that of the brightness, for white noise."""
        self._grid = grid
        self._aligner = Aligner(grid)
        self._search = MotionSearch(*grid.shape)
        self._slope_noise = slope_noise**2
        self._size = float(grid.x.size)
        self.restart()

    def restart(self) -> None:
        """Forget everything."""
        self.surfaces: list[Surface] = []
        self._keyframe_stamp = self._stamp = math.nan
        self._noise = NoiseLevel()
        self.unexplained = 0.0
        self._next_trial = 4
        self._exposure = Exposure()
        self._jitter = StampJitter()

    def update(
        self, brightness: Map, slope_x: Map, slope_y: Map, energy: Map, stamp: float
    ) -> Surface | None:
        """Take one image; returns the surface of interest, None while there are too few images.

        That is the nearest one in time when it is established, or else the main one. `energy`: the sum of the
        squares of both slopes.
        """
        if np.count_nonzero(energy) < _SMALLEST_PART * self._size:
            # A lens cap: images without anything to see would match each other perfectly.
            self.restart()
            return None
        if not self.surfaces:
            self._aligner.set_keyframe(brightness)
            self._keyframe_stamp = self._stamp = stamp
            self._exposure.follow(brightness)
            self.surfaces = [Surface(np.ones(self._grid.shape, np.float32))]
            return None
        seconds, self._stamp = stamp - self._stamp, stamp
        self._jitter.take(seconds)
        self._aligner.set_image(brightness, slope_x, slope_y)
        self._exposure.follow(brightness)
        variance = np.float32(self._noise.variance) + np.float32(EDGE_ERROR**2) * energy
        certainty = np.float32(1) / variance
        alignments = self._follow(certainty, seconds)
        if self._lost(self.surfaces[0]):
            self.restart()
            return None
        self._share(alignments, brightness, certainty)
        surface = self._of_interest()
        self._renew_keyframe(brightness)
        return surface if surface.frames > 1 else None

    @property
    def evidence(self) -> float:
        """Chi-square by which two surfaces explain the image better than one; 0 while there is one."""
        return max(each.evidence for each in self.surfaces) if self._divided else 0.0

    @property
    def _age(self) -> float:
        """Seconds since the keyframe."""
        return self._stamp - self._keyframe_stamp

    @property
    def _divided(self) -> bool:
        """Whether there are two surfaces for certain."""
        return len(self.surfaces) > 1 and all(each.established for each in self.surfaces)

    def lead_over(self, surface: Surface) -> float:
        """By how much, 1/s, another surface seems to come closer, which is not certain yet to be nearer."""
        return max(other.rate - surface.rate if other.established else 0.0 for other in self.surfaces)

    def _follow(self, certainty: Map, seconds: float) -> list[Alignment]:
        """Align every surface, the main one, which comes first, first."""
        main = self.surfaces[0]
        independent = certainty * np.float32(CORRELATION**-2)
        alignments = []
        for surface in self.surfaces:
            predicted = surface.warp @ surface.next_step(seconds)
            if surface is main:
                others, precision = [parameters_of(predicted)[TURN], 0.0, 0.0, 0.0, 0.0], _FREE
            else:
                known = parameters_of(main.warp)
                others, precision = [known[TURN], 0.0, 0.0, *known[TILT:]], _BESIDE
            expected = Expectation(predicted, others, precision, self._exposure.ratio)
            # The much larger rest of the image would count for as much as a small part, even at a tenth.
            part = surface.part if surface is main else surface.part * (surface.part > 0.5)
            steps = 2 if surface.frames > 3 else 4
            alignment = self._aligner.align(
                independent * part,
                expected,
                self._slope_noise * IMAGE_NOISE * self._noise.variance + ROUNDING,
                steps,
            )
            self._advance(surface, alignment, seconds, surface is main)
            alignments.append(alignment)
        return alignments

    def _advance(self, surface: Surface, alignment: Alignment, seconds: float, main: bool) -> None:
        surface.move(alignment.warp, seconds)
        surface.overlap = np.count_nonzero(alignment.inside) / self._size
        surface.frames += 1
        covariance = alignment.covariance
        if main:
            surface.log_depth, variance, slant = surface.slant.log_depth(alignment.measured, covariance)
            if self._age > _SHORT or surface.frames < 2:
                surface.slant_error = slant / max(self._age, _SHORT)
        else:
            (a, b), (c, d) = alignment.measured[:2, :2].tolist()
            surface.log_depth, variance = 0.5 * math.log(max(a * d - b * c, 1e-3)), float(covariance[2, 2])
        if self._lost(surface):
            return
        variance += 2 * surface.rate**2 * self._jitter.variance
        surface.depth.predict(seconds)
        surface.depth.update(surface.log_depth, variance)
        if self._divided and surface.depth.surprised and self._age > _SHORT:
            # Its part has changed more than its motion.
            surface.depth.start_over(surface.log_depth, variance, self._age)

    def _share(self, alignments: list[Alignment], brightness: Map, certainty: Map) -> None:
        """Divide the map among the surfaces, largest first; try another, drop one that explains nothing."""
        squares = [alignment.residual**2 * certainty for alignment in alignments]
        self._noise.measure(self._own(squares), brightness, alignments[0].inside)
        around = [cv2.blur(square, (_WINDOW, _WINDOW)) for square in squares]
        main = self.surfaces[0]
        self.unexplained = np.count_nonzero(self._own(around) > _UNEXPLAINED) / self._size
        if len(self.surfaces) == 1:
            main.part = 1 / (1 + (around[0] / _OUTLIER) ** 2)
            main.established = True
            if main.frames >= self._next_trial:
                self._next_trial = main.frames + _INTERVAL
                self._try_another(alignments[0], certainty)
            return
        self._weigh(squares, alignments)
        self._divide(around)
        self._drop()

    def _own(self, maps: list[Map]) -> Map:
        """Of one map for each surface, at each element that of the surface it belongs to."""
        if len(maps) == 1 or not self.surfaces[1].established:
            return maps[0]
        main, other = self.surfaces
        return np.where(main.part >= other.part, maps[0], maps[1])

    def _try_another(self, alignment: Alignment, certainty: Map) -> None:
        main = self.surfaces[0]
        weights = certainty * CORRELATION**-2 * alignment.inside
        found = self._search.find(self._aligner.jacobian, alignment.residual, weights)
        if found is None or found.evidence < _EVIDENCE_TRIED:
            return
        (right, down, _), (focal_x, focal_y) = found.step, self._grid.focal
        if max(abs(right) * focal_x, abs(down) * focal_y) > _FARTHEST:
            self._next_trial = main.frames + _PAUSE
            return
        part = np.full(self._grid.shape, 0.03, np.float32)
        part[found.rows, found.columns] = 0.97
        warp = main.warp @ inverse(warp_of([*found.step, 0, 0, 0, 0, 0]))
        depth = RelativeDepth(main.rate, main.log_depth, 0.03)
        self.surfaces.append(Surface(part, warp / warp[2, 2], main.motion.copy(), main.seconds, depth))

    def _weigh(self, squares: list[Map], alignments: list[Alignment]) -> None:
        """How much better the second surface explains what is its part."""
        main, other = self.surfaces
        both = alignments[0].inside & alignments[1].inside & (other.part > 0.5)
        gain = np.minimum(squares[0], 25.0) - np.minimum(squares[1], 25.0)
        other.evidence = max(other.evidence * _FORGET, float(gain[both].sum()) / CORRELATION**2)
        main.established = True
        other.established = other.evidence > (_EVIDENCE_KEPT if other.established else _EVIDENCE)

    def _divide(self, around: list[Map]) -> None:
        main, other = self.surfaces
        share = cv2.blur(other.part / (main.part + other.part + 1e-6), (3, 3))
        share = np.clip(share, 0.03, 0.97)
        favour = np.clip((around[0] - around[1]) * np.float32(_WINDOW**2 / 12), -8.0, 8.0)
        odds = share / (1 - share) * np.exp(favour)
        share = odds / (1 + odds)
        other.part = share / (1 + (around[1] / _OUTLIER) ** 2)
        rest = 1 - share if other.established else np.float32(1)
        main.part = rest / (1 + (around[0] / _OUTLIER) ** 2)

    def _drop(self) -> None:
        other = self.surfaces[1]
        sizes = [float(surface.part.sum()) for surface in self.surfaces]
        vain = other.frames > _TRIAL[1] and not other.established
        lost = self._lost(other)
        superfluous = lost or vain or min(sizes) < _SMALLEST_PART * self._size or self._alike()
        if sizes[1] > sizes[0] and not lost:
            self.surfaces.reverse()
        if superfluous:
            del self.surfaces[1]
            self.surfaces[0].established = True
            self._next_trial = self.surfaces[0].frames + _PAUSE

    @staticmethod
    def _lost(surface: Surface) -> bool:
        return surface.overlap < LOST_OVERLAP or abs(surface.log_depth) > LOST_GROWTH

    def _alike(self) -> bool:
        """Whether the surfaces move the same, so that they are one."""
        main, other = self.surfaces
        if self._age < 0.15 or other.frames < _TRIAL[0]:
            return False
        if abs(main.rate - other.rate) > 3 * math.hypot(main.rate_sigma, other.rate_sigma):
            return False
        between = inverse(main.warp) @ other.warp
        x, y = self._grid.extent[0] / 3, self._grid.extent[1] / 3
        corners = np.array([[0, x, -x, x, -x], [0, y, y, -y, -y], [1, 1, 1, 1, 1]])
        moved = between @ corners
        apart = np.abs(moved[:2] / moved[2] - corners[:2]).max(axis=1)
        return bool(max(apart[0] * self._grid.focal[0], apart[1] * self._grid.focal[1]) < _SAME)

    def _of_interest(self) -> Surface:
        main = self.surfaces[0]
        for surface in self.surfaces:
            if surface is not main and surface.established and surface.approaches:
                sigmas = 0.0 if surface.nearest else _NEARER_SIGMAS
                margin = sigmas * math.hypot(main.rate_sigma, surface.rate_sigma)
                surface.nearest = surface.rate > main.rate + margin
                if surface.nearest:
                    return surface
        return main

    def _renew_keyframe(self, brightness: Map) -> None:
        main = self.surfaces[0]
        x, y = main.warp[0, 2] / self._grid.extent[0], main.warp[1, 2] / self._grid.extent[1]
        growth = max(abs(surface.log_depth) for surface in self.surfaces if surface.established)
        if (
            self._age > LONGEST - 1e-6
            or growth > LARGEST_GROWTH
            or math.hypot(x, y) > LARGEST_SHIFT
            or main.overlap < SMALLEST_OVERLAP
        ):
            self._aligner.set_keyframe(brightness)
            self._keyframe_stamp = self._stamp
            self._exposure.ratio = 1.0
            for surface in self.surfaces:
                surface.warp = np.eye(3)
                surface.log_depth = 0.0
                surface.depth.start_keyframe()
                surface.slant.start_keyframe()
