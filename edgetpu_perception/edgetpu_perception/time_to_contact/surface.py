"""One surface in view: a plane with a motion of its own, and its rate of approach."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from edgetpu_perception.time_to_contact import part_slant
from edgetpu_perception.time_to_contact.homography_alignment import (
    GROWTH,
    Grid,
    HomographyAlignment,
    Map,
    Matrix,
    inverse,
)
from edgetpu_perception.time_to_contact.plane_distance import PlaneDistance, UnknownFocalLength
from edgetpu_perception.time_to_contact.relative_depth_filter import RelativeDepth
from edgetpu_perception.time_to_contact.surface_tracker_limits import (
    CONFIRMING_SHARE,
    DEVIATION_CORRELATION,
    EVIDENCE_DECAY,
    FAILED_LOG_DEPTH,
    MIN_AGE_S,
    MIN_OVERLAP,
    NEWEST_TEXTURE_WEIGHT,
    NOISE_CORRELATION,
    REFUTED_DECAY,
    TEXTURE_EVIDENCE,
    TRIAL_FRAMES,
)

APPROACH_SIGMAS = 5.0
"""A surface certainly approaches if its rate is at least this many standard deviations above zero.

Given by `approaching` of the result.
"""

STEADY_FRAMES = 10
"""Images in which a surface must have been followed without a jump before it is claimed to approach.

Rows: looming, leaves and object crosses, no approach claimed.
"""

_NEWEST_MOTION_WEIGHT = 0.5
"""Weight of the newest frame in the motion expected for the next one.

Slopes of fine textures are too small by up to a third, which makes steps too long; with a weight of 1 the
motion could oscillate. Rows: looming, plane, up to 10 deg/s of rotation.
"""

FIRST_IMAGES = 4
"""Number of images after the first one in which the motion is not known well yet, so that alignments begin
far from where they end. Uncritical."""

STEPS, FIRST_STEPS, FIRST_STEPS_OF_MAIN = 2, 4, 12
"""Most steps of an alignment: after the first images, in these, and in these for the main surface. There its
alignments must converge, as any motion may be found otherwise; most do in 3 steps, and with a growth of 20 %
between two images in 10.

Limits the time. Rows: none; test_a_fast_approach_is_measured_at_few_images_per_second.
"""

_MAX_EXTRAPOLATION = 5.0
"""Longest time for which a motion is extrapolated, as a multiple of the interval between the last two images;
motion measured over a short interval is noisy. Rows: none; test_is_measured_with_jittery_stamps."""

_MAX_GROWTH_RISE = 0.4
"""Largest relative change of the growth that is expected, so that noise does not build up.

Rows: looming, plane, TTC 0.5-1 s, 128 px.
"""

_IDENTITY = np.eye(3)


class LastingRateError:
    """Error of the rate due to an error of the depth that is the same in all images of a keyframe.

    Shortly after a keyframe such an error of the new depths would mean a large one of the rate. Yet the rate
    is still that of the last keyframe then, of which the new one takes over as it gets as old.
    """

    def __init__(self) -> None:
        self.sigma = 0.0
        """Standard deviation of the rate, 1/s."""
        self._before = 0.0
        """That at the end of the last keyframe, 1/s."""
        self._age = self._age_before = 0.0
        """Ages of the keyframe, and of the last one at its end, s."""

    def measure(self, depth_sigma: float, age: float) -> None:
        """Take the standard deviation of the depth's logarithm in an image; `age`: of the keyframe, s."""
        share = min(age / self._age_before, 1.0) if self._age_before else 1.0
        self.sigma = math.hypot((1.0 - share) * self._before, share * depth_sigma / max(age, MIN_AGE_S))
        self._age = age

    def start_keyframe(self, *, known: bool) -> None:
        """Make the present image the keyframe; `known`: whether the rate is far larger than its error."""
        self._before, self._age_before = self.sigma, self._age if known else 0.0


@dataclass
class Surface:
    """State of one surface."""

    membership: Map
    """Weight 0..1 with which each element of the map belongs to it, [rows, columns]."""
    warp: Matrix = field(default_factory=lambda: np.eye(3))
    """From the present image to the keyframe."""
    motion: Matrix = field(default_factory=lambda: np.zeros((3, 3)))
    """Average change of the warp over the last frames, per second."""
    seconds: float = 1.0
    """Time between the last two frames, s."""
    depth: RelativeDepth = field(default_factory=RelativeDepth)
    plane: PlaneDistance = field(default_factory=PlaneDistance)
    log_depth: float = 0.0
    """Logarithm of the depth over that at the keyframe, as measured last."""
    slant: LastingRateError = field(default_factory=LastingRateError)
    """Error of the rate due to unknown directions of the plane and of the motion."""
    part_slant: LastingRateError = field(default_factory=LastingRateError)
    """Error of the rate due to the unknown slant of any other than the main surface; see part_slant."""
    unknown_focal_length: UnknownFocalLength = field(default_factory=UnknownFocalLength)
    focal_error: float = 0.0
    """Standard deviation of the rate, 1/s, due to an unknown focal length, which makes a turn of the camera
    pass for a motion. The error lasts over many images, so no innovation shows it."""
    overlap: float = 1.0
    """Share of the map that is in the keyframe."""
    astray: bool = False
    """Whether it is the main surface and its first alignments have not converged."""
    evidence: float = 0.0
    """Chi-square gained over explaining its elements by the main surface."""
    evidence_age: float = 1.0
    """Age of the keyframe when the evidence was gained, s."""
    misfit: float = 1.0
    """Median of the mean squared residuals around its elements, over the noise's variance.

    From 1 to MAX_MISFIT; the main surface has 1.
    """
    established: bool = False
    """Whether the evidence is sufficient."""
    standing: bool = False
    """Whether it stands still in the image while the rest moves, as a robot's own parts do."""
    frames: int = 0
    """Number of frames in which it was aligned."""
    steady: int = 0
    """Number of frames since its motion was last started over or its rate last jumped."""
    jump: float = 0.0
    """Change of its rate when it was started over, 1/s; for a new surface, from the rate of the main one.

    0 after a jump that the depth filter has found, as the filter's own variance includes it.
    """
    growth: float = 0.0
    """Relative growth in the `steady` frames."""
    claimed: bool = False
    """Whether it was claimed to approach in the `steady` frames."""
    texture_moves: float = 0.0
    """Chi-square by which its texture moves with it rather than with the main surface, on average."""
    nearest: bool = False
    """Whether its contact was found to be sooner than that of the main surface."""

    @property
    def rate(self) -> float:
        """Speed over depth, 1/s."""
        return self.depth.rate

    @property
    def rate_sigma(self) -> float:
        """One standard deviation of the rate, 1/s."""
        return math.hypot(self.depth.rate_sigma, self.slant.sigma)

    @property
    def jump_sigma(self) -> float:
        """Standard deviation of a rate that has jumped, 1/s: the jump at first, 0 once it is steady."""
        return self.jump * max(1.0 - self.steady / STEADY_FRAMES, 0.0)

    @property
    def deviation_sigma(self) -> float:
        """Standard deviation of the rate, 1/s, due to elements that deviate from its motion.

        The depth filter treats such residuals as noise. They last, so the innovations do not show them.
        """
        share = 1.0 - 1.0 / self.misfit
        return self.depth.rate_sigma * math.sqrt(
            share * ((DEVIATION_CORRELATION / NOISE_CORRELATION) ** 2 - 1)
        )

    @property
    def carries_texture(self) -> bool:
        """Whether its texture certainly moves with it, unlike that beneath a shadow."""
        return self.texture_moves > TEXTURE_EVIDENCE

    @property
    def approaches(self) -> bool:
        """Whether it certainly approaches."""
        return self.rate >= APPROACH_SIGMAS * self.rate_sigma

    @property
    def comes_nearer(self) -> bool:
        """Whether it certainly approaches whatever its slant, rather than passes as ground does."""
        return self.rate >= APPROACH_SIGMAS * math.hypot(self.rate_sigma, self.part_slant.sigma)

    @property
    def moves(self) -> bool:
        """Whether it certainly approaches or recedes."""
        return abs(self.rate) >= APPROACH_SIGMAS * self.rate_sigma

    @property
    def misaligned(self) -> bool:
        """Whether too little of it is in the keyframe, or its present alignment has failed."""
        return self.astray or self.overlap < MIN_OVERLAP or abs(self.log_depth) > FAILED_LOG_DEPTH

    @property
    def lost(self) -> bool:
        """Whether it is misaligned, or its present rate is that of a failed alignment."""
        # Logarithm of the depth at the last image over that at the present one.
        before = math.log(max(1.0 + self.rate * self.seconds, 1e-3))
        return self.misaligned or abs(before) > FAILED_LOG_DEPTH

    @property
    def settled(self) -> bool:
        """Whether its elements hardly change any more, as it stands still."""
        return self.standing and self.frames > TRIAL_FRAMES[0]

    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom edges of the rectangle that it fills, elements of the map.

        The rectangle has the mean and variance of its elements, so single ones far away hardly matter. The
        edges of the first element are at -0.5 and 0.5.
        """
        edges = []
        for axis in (0, 1):
            mass = self.membership.sum(axis=axis, dtype=np.float64) + 1e-12
            at, total = np.arange(len(mass), dtype=np.float64), float(mass.sum())
            mean = float(mass @ at) / total
            # A uniform distribution over n elements has a variance of (n^2 - 1) / 12.
            half = math.sqrt(3 * (float(mass @ (at - mean) ** 2) / total) + 0.25)
            edges.append((max(mean - half, -0.5), min(mean + half, len(mass) - 0.5)))
        (left, right), (top, bottom) = edges
        return left, top, right, bottom

    def next_step(self, seconds: float) -> Matrix:
        """Expected change of the warp in `seconds`: the same motion, with a growth that rises like the rate.

        The motion is an average; it is 1 / _NEWEST_MOTION_WEIGHT frames old in the middle of the next frame.
        """
        seconds = min(seconds, _MAX_EXTRAPOLATION * self.seconds)
        step: Matrix = _IDENTITY + seconds * self.motion
        rise = min(max(self.rate * seconds / _NEWEST_MOTION_WEIGHT, -_MAX_GROWTH_RISE), _MAX_GROWTH_RISE)
        growth = rise * seconds * (self.motion[0, 0] + self.motion[1, 1]) / 2
        step[0, 0] += growth
        step[1, 1] += growth
        return step

    def grow(self, seconds: float) -> None:
        """Add the growth since the last image; start anew if the rate has jumped, unless it was claimed."""
        self.growth += self.rate * seconds
        if self.depth.jumped and self.steady >= STEADY_FRAMES and not self.claimed:
            self.steady, self.jump, self.growth = 0, 0.0, 0.0

    def take_evidence(self, gained: float, age: float) -> None:
        """Take what it gains in the present image, as a chi-square; `age`: of the keyframe, s.

        Earlier evidence hardly decays, as there is little to gain shortly after a keyframe. It decays faster
        if far less is gained than expected at this age: residuals grow with the age, gains with its square.
        """
        expected = self.evidence * min(age / self.evidence_age, 1.0) ** 2
        kept = self.evidence * (EVIDENCE_DECAY if gained > CONFIRMING_SHARE * expected else REFUTED_DECAY)
        if gained > kept:
            self.evidence_age = max(age, MIN_AGE_S)
        self.evidence = max(kept, gained)

    def take_texture(self, moves: float) -> None:
        """Take how much its texture moves with it in the present image, as a chi-square."""
        self.texture_moves += NEWEST_TEXTURE_WEIGHT * (moves - self.texture_moves)

    def measure_distance(self, alignment: HomographyAlignment, age: float, *, calibrated: bool) -> float:
        """Measure the distance to it as the main surface; returns the variance of the distance's logarithm.

        `age`: of the keyframe, s; `calibrated`: whether the focal length is known.
        """
        found = alignment.measured, alignment.covariance
        distance = self.plane.measure(*found)
        self.log_depth = distance.log
        by_focal_length = 0.0 if calibrated else self.unknown_focal_length.error_of(distance, *found)
        if age > MIN_AGE_S or self.frames < 2:
            self.slant.measure(distance.lasting_sigma, age)
            self.focal_error = by_focal_length / max(age, MIN_AGE_S)
        return distance.variance

    def measure_size(self, alignment: HomographyAlignment, grid: Grid, age: float) -> float:
        """The same for any other surface, whose distance follows from its size.

        `grid`: of the map that has its elements.
        """
        found, covariance = alignment.measured, alignment.covariance
        (a, b), (c, d) = found[:2, :2].tolist()
        self.log_depth = 0.5 * math.log(max(a * d - b * c, 1e-3))
        if age > MIN_AGE_S or self.frames < 2:
            middle = part_slant.middle_of(self.membership, grid)
            error = part_slant.size_error(self.log_depth, found, covariance, middle)
            self.part_slant.measure(error, age)
        return float(covariance[GROWTH, GROWTH])

    def start_keyframe(self) -> None:
        """Make the present image the keyframe."""
        self.warp = np.eye(3)
        self.log_depth = 0.0
        known = abs(self.rate) >= APPROACH_SIGMAS * self.depth.rate_sigma
        self.slant.start_keyframe(known=known)
        self.part_slant.start_keyframe(known=known)
        self.depth.start_keyframe()
        self.plane.start_keyframe(self.overlap)
        self.unknown_focal_length.start_keyframe(self.overlap)

    def most_steps(self, main: bool) -> int:
        """Most steps of an alignment; `main`: whether this is the main surface."""
        if self.frames >= FIRST_IMAGES:
            return STEPS
        return FIRST_STEPS_OF_MAIN if main else FIRST_STEPS

    def move(self, found: HomographyAlignment, seconds: float, main: bool) -> None:
        """Set the warp found `seconds` after the last one; `main`: whether this is the main surface."""
        self.astray = main and self.frames < FIRST_IMAGES and not found.converged
        warp = found.warp
        step = inverse(self.warp).dot(warp)
        self.motion += _NEWEST_MOTION_WEIGHT * ((step / step[2, 2] - _IDENTITY) / seconds - self.motion)
        self.warp, self.seconds = warp, seconds
