"""Follows one or two surfaces in view and their rates of approach.

Each surface is a plane with a motion of its own; every element of the map belongs to the surface whose motion
explains it. A second surface is tried where one motion does not explain the image, and kept while it does.
A third one that approaches replaces the second if its contact is sooner.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from edgetpu_perception.time_to_contact import second_surface, shadow_or_object
from edgetpu_perception.time_to_contact.fixed_part import FixedPartSearch
from edgetpu_perception.time_to_contact.homography_alignment import (
    GROWTH,
    TILT,
    TURN,
    ExpectedWarp,
    Grid,
    HomographyAligner,
    HomographyAlignment,
    Map,
    parameters_of,
)
from edgetpu_perception.time_to_contact.image_structure import ImageStructure
from edgetpu_perception.time_to_contact.independent_motion import MotionSearch
from edgetpu_perception.time_to_contact.noise_and_exposure import Exposure, NoiseLevel
from edgetpu_perception.time_to_contact.relative_depth_filter import RelativeDepth, lasting_error_of
from edgetpu_perception.time_to_contact.second_surface import Explained
from edgetpu_perception.time_to_contact.stamp_jitter import StampJitter
from edgetpu_perception.time_to_contact.surface import LastingRateError, Surface
from edgetpu_perception.time_to_contact.surface_tracker_limits import (
    ESTABLISHED_EVIDENCE,
    IMAGE_NOISE_VARIANCE_SHARE,
    KEPT_EVIDENCE,
    LEAST_SHARE,
    MAIN_PRECISION,
    MAX_KEYFRAME_AGE_S,
    MAX_LOG_DEPTH,
    MAX_SHIFT_ELEMENTS,
    MAX_SHIFT_SHARE,
    MAX_SLOW_KEYFRAME_AGE_S,
    MERGE_DISTANCE_ELEMENTS,
    MIN_AGE_S,
    MIN_KEYFRAME_OVERLAP,
    MIN_SURFACE_SHARE,
    MISLED_SHARE,
    MOST_SHARE,
    NEARER_SIGMAS,
    NEXT_TRIAL_FRAMES,
    NOISE_CORRELATION,
    OUTLIER_VARIANCES,
    PAUSE_FRAMES,
    SEARCH_INTERVAL_FRAMES,
    SECOND_PRECISION,
    SLOPE_ROUNDING_VARIANCE,
    SLOW_LOG_DEPTH,
    SUDDEN_CHANGE_S,
    TRIAL_EVIDENCE,
    TRIAL_FRAMES,
    UNEXPLAINED_VARIANCES,
    WARP_ERROR_ELEMENTS,
)
from edgetpu_perception.time_to_contact.third_surface import ThirdSurface


class SurfaceTracker:
    """Follows the surfaces in a sequence of maps of brightness and slopes."""

    def __init__(self, grid: Grid, slope_noise: float, *, calibrated: bool = False) -> None:
        """`slope_noise`: standard deviation of a slope over that of the brightness, for white noise.

        `calibrated`: whether the focal length of the grid is known.
        """
        self._grid = grid
        self._aligner = HomographyAligner(grid)
        self._search = MotionSearch(*grid.shape)
        self._slope_noise = slope_noise**2
        self._calibrated = calibrated
        self._size = float(grid.x.size)
        self.restart()

    def look_at(self, grid: Grid) -> None:
        """Look at another part of the camera's view from the next image on; the grid has the same shape."""
        onto = self._grid.to_map @ np.linalg.inv(grid.to_map)
        rows, columns = grid.shape
        for surface in self._followed:
            surface.membership = cv2.warpAffine(
                surface.membership,
                onto[:2],
                (columns, rows),
                flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
                borderMode=cv2.BORDER_REPLICATE,
            )
        self._grid = grid
        self._aligner.look_at(grid)

    def restart(self) -> None:
        """Forget all images."""
        self.surfaces: list[Surface] = []
        self._third = ThirdSurface(self._search)
        self._standing = FixedPartSearch()
        self._keyframe_stamp = self._stamp = math.nan
        self._noise = NoiseLevel()
        self.unexplained = 0.0
        self._misled = False
        """Whether the motion has changed in a gap before the last image."""
        self._structure = ImageStructure()
        self._next_trial = 4
        self._exposure = Exposure()
        self._jitter = StampJitter()

    def update(
        self, brightness: Map, slope_x: Map, slope_y: Map, energy: Map, stamp: float
    ) -> Surface | None:
        """Add one image; return the surface with the soonest contact, None if no motion could be followed.

        A second surface counts only if it is established. `brightness`, `slope_x`, `slope_y`: float32 [rows,
        columns], grey levels; `energy`: sum of the squares of both slopes; `stamp`: s.
        """
        noise = self._slope_variance if self._noise.known else 0.0
        main = self.surfaces[0] if self.surfaces else None
        if not self._structure.shows_motion(slope_x, slope_y, energy, noise, stamp, main):
            self.restart()
            return None
        if not self.surfaces:
            self._begin(brightness, stamp)
            return None
        seconds, self._stamp = stamp - self._stamp, stamp
        self._jitter.take(seconds)
        self._aligner.set_image(brightness, slope_x, slope_y)
        self._exposure.update(brightness)
        variance = np.float32(self._noise.variance) + np.float32(WARP_ERROR_ELEMENTS**2) * energy
        certainty = np.float32(1) / variance
        alignments = self._align_all(certainty, seconds)
        if self.surfaces[0].lost:
            self.restart()
            return None
        before = self._misled
        self._assign_elements(alignments, brightness, certainty, seconds)
        if self._misled:
            if before:
                self.restart()
                self._begin(brightness, stamp)
            return None
        surface = self._select()
        self._renew_keyframe(brightness)
        return surface if surface.frames > 1 else None

    def _begin(self, brightness: Map, stamp: float) -> None:
        """Take the first image."""
        self._aligner.set_keyframe(brightness)
        self._keyframe_stamp = self._stamp = stamp
        self._exposure.update(brightness)
        depth = RelativeDepth(lasting_error=lasting_error_of(self._grid.x.size))
        self.surfaces = [Surface(np.ones(self._grid.shape, np.float32), depth=depth)]

    @property
    def _slope_variance(self) -> float:
        """Variance of a slope due to noise."""
        return self._slope_noise * IMAGE_NOISE_VARIANCE_SHARE * self._noise.variance

    @property
    def _age(self) -> float:
        """Seconds since the keyframe."""
        return self._stamp - self._keyframe_stamp

    @property
    def _followed(self) -> list[Surface]:
        """The surfaces, the main one first, then the candidates for a third."""
        return [*self.surfaces, *self._third.trials]

    @property
    def _divided(self) -> bool:
        """Whether there are two established surfaces."""
        return len(self.surfaces) > 1 and all(each.established for each in self.surfaces)

    def rate_lead_of_others(self, surface: Surface) -> float:
        """How far the rate of a surface that is not certain to be nearer exceeds this one's, 1/s; or 0."""
        return max(other.rate - surface.rate if other.established else 0.0 for other in self.surfaces)

    def _align_all(self, certainty: Map, seconds: float) -> list[HomographyAlignment]:
        """Align all surfaces; the main one is first in the list, candidates last."""
        main = self.surfaces[0]
        alignments: list[HomographyAlignment] = []
        for surface in self._followed:
            if surface.standing:
                alignments.append(self._aligner.stand_still(alignments[0].brightness))
                surface.frames += 1
                continue
            weights = certainty * np.float32(NOISE_CORRELATION**-2) * surface.membership
            if surface is not main:
                # Even with a tenth of the weight, the rest of the image would outweigh a small surface.
                weights *= (surface.membership > 0.5) / np.float32(surface.misfit)
            alignment = self._aligner.align(
                weights,
                self._expected(surface, seconds),
                self._slope_variance + SLOPE_ROUNDING_VARIANCE,
                surface.most_steps(surface is main),
            )
            self._advance(surface, alignment, seconds, surface is main)
            alignments.append(alignment)
        return alignments

    def _expected(self, surface: Surface, seconds: float) -> ExpectedWarp:
        """The warp expected of a surface; for any other than the main one, that must be aligned already."""
        main = self.surfaces[0]
        predicted = surface.warp.dot(surface.next_step(seconds))
        if surface is main:
            others, precision = [parameters_of(predicted)[TURN], 0.0, 0.0, 0.0, 0.0], MAIN_PRECISION
        else:
            known = parameters_of(main.warp)
            others, precision = [known[TURN], 0.0, 0.0, *known[TILT:]], SECOND_PRECISION
        return ExpectedWarp(predicted, others, precision, self._exposure.ratio)

    def _advance(self, surface: Surface, alignment: HomographyAlignment, seconds: float, main: bool) -> None:
        before = surface.rate if surface.established else self.surfaces[0].rate
        surface.move(alignment, seconds, main)
        surface.overlap = float(np.count_nonzero(alignment.inside)) / self._size
        surface.frames += 1
        surface.steady += 1
        if main:
            variance = surface.measure_distance(alignment, self._age, calibrated=self._calibrated)
        else:
            variance = surface.measure_size(alignment, self._grid, self._age)
        if surface.misaligned:
            return
        variance += 2 * surface.rate**2 * self._jitter.variance + self._structure.depth_variance
        surface.depth.predict(seconds)
        # Shortly after a keyframe the errors of all images come from the unknown slant.
        surface.depth.update(surface.log_depth, variance, judged=self._age > MIN_AGE_S)
        surface.grow(seconds)
        on_trial = not main and (not surface.established or surface.frames < TRIAL_FRAMES[0])
        anew = surface.depth.surprised and self._divided and not any(each.settled for each in self.surfaces)
        if (on_trial or anew) and self._age > MIN_AGE_S:
            # Its elements have changed rather than its motion; on trial they change in every frame. The
            # keyframe is the longest baseline that a new surface has.
            surface.depth.start_over(surface.log_depth, variance, self._age)
            surface.jump = abs(surface.rate - before)
            if not on_trial:
                surface.steady, surface.growth, surface.claimed = 0, 0.0, False

    def _assign_elements(
        self, alignments: list[HomographyAlignment], brightness: Map, certainty: Map, seconds: float
    ) -> None:
        """Assign the elements to the surfaces; try a second one, or drop a superfluous one."""
        each = [Explained.by(alignment, certainty) for alignment in alignments]
        by_owner = self._of_owner(each)
        main = self.surfaces[0]
        self.unexplained = float(np.count_nonzero(by_owner.around > UNEXPLAINED_VARIANCES)) / self._size
        self._misled = self.unexplained > MISLED_SHARE and (self._misled or seconds > SUDDEN_CHANGE_S)
        if not self._misled or not self._noise.known:
            self._noise.measure(by_owner.squares, brightness, alignments[0].inside)
        if self._misled:  # the residuals show neither noise nor a known motion
            return
        if len(self.surfaces) == 1:
            main.membership = np.float32(1) / (1 + (each[0].around / OUTLIER_VARIANCES) ** 2)
            main.established = True
            if main.frames >= self._next_trial:
                self._next_trial = main.frames + SEARCH_INTERVAL_FRAMES
                if not self._try_standing(alignments[0], by_owner.squares, certainty):
                    self._try_second(alignments[0], certainty)
            return
        self._update_evidence(*each[:2])
        self._update_membership(*each[:2])
        if self._divided and not main.moves:
            shadow_or_object.judge(self.surfaces[1], alignments[0], alignments[1], brightness, certainty)
        replaced = len(each) > 2 and self._third.judge(self.surfaces, by_owner, each[2:], self._age)
        self._drop_superfluous(float(alignments[0].covariance[GROWTH, GROWTH]))
        if replaced:
            return  # what explains the image best has changed
        young = len(self.surfaces) > 1 and self.surfaces[1].frames <= TRIAL_FRAMES[0]
        if not young and main.frames % SEARCH_INTERVAL_FRAMES == 0:
            self._try_standing(alignments[0], by_owner.squares, certainty)
        elif self._divided and main.frames % NEXT_TRIAL_FRAMES == 1:
            self._third.look_for(self.surfaces, alignments[0], self._aligner, certainty, self._grid)

    def _of_owner(self, each: list[Explained]) -> Explained:
        """Combine how well the surfaces explain the image: each element by the surface it belongs to."""
        first = each[0]
        if len(each) == 1 or not self.surfaces[1].established:
            return first
        main, other = self.surfaces
        mine, second = main.membership >= other.membership, each[1]
        squares = np.where(mine, first.squares, second.squares)
        around = np.where(mine, first.around, second.around)
        return Explained(squares, around, first.inside & second.inside)

    def _try_second(self, alignment: HomographyAlignment, certainty: Map) -> None:
        main = self.surfaces[0]
        weights = certainty * NOISE_CORRELATION**-2 * alignment.inside
        found = self._search.find(self._aligner.jacobian, alignment.residual, weights)
        if found is None or found.evidence < TRIAL_EVIDENCE:
            return
        if found.shift(self._grid.focal) > MAX_SHIFT_ELEMENTS:
            self._next_trial = main.frames + PAUSE_FRAMES
            return
        self.surfaces.append(second_surface.begun_with(found, main))

    def _try_standing(self, alignment: HomographyAlignment, explained: Map, certainty: Map) -> bool:
        """Make what stands still, such as a part of the robot, the second surface if no surface explains it.

        `explained`: squared residuals over their variance, of the surface that each element belongs to.
        """
        if any(self._grid.distance(np.eye(3), each.warp) < MERGE_DISTANCE_ELEMENTS for each in self.surfaces):
            return False
        still = self._aligner.stand_still(alignment.brightness)
        squares, inside = still.residual**2 * certainty, still.inside & alignment.inside
        # A surface with a sooner contact is not given up for what a single image shows.
        sooner = self._divided and self.surfaces[1].nearest
        if not (found := self._standing.find(explained, squares, inside, twice=sooner)):
            return False
        part, evidence = found
        membership = np.where(part, np.float32(MOST_SHARE), np.float32(LEAST_SHARE))
        standing = Surface(membership, standing=True, established=True)
        standing.take_evidence(evidence, self._age)
        self.surfaces[1:] = [standing]
        self.surfaces[0].membership = 1 - membership  # elements it had left out may be all that moves
        return True

    def _update_evidence(self, by_main: Explained, by_other: Explained) -> None:
        """Update how much better the second surface explains its elements."""
        main, other = self.surfaces
        other.take_evidence(second_surface.gain_of(other, by_main, by_other), self._age)
        main.established = True
        other.established = other.evidence > (KEPT_EVIDENCE if other.established else ESTABLISHED_EVIDENCE)

    def _update_membership(self, by_main: Explained, by_other: Explained) -> None:
        main, other = self.surfaces
        share = second_surface.assign(other, main.membership, by_main, by_other)
        rest = 1 - share if other.established else np.ones_like(share)
        main.membership = rest / (1 + (by_main.around / OUTLIER_VARIANCES) ** 2)

    def _drop_superfluous(self, variance: float) -> None:
        other = self.surfaces[1]
        sizes = [float(surface.membership.sum()) for surface in self.surfaces]
        unproven = other.frames > TRIAL_FRAMES[1] and not other.established
        lost = other.lost
        superfluous = lost or unproven or min(sizes) < MIN_SURFACE_SHARE * self._size or self._move_alike()
        if sizes[1] > sizes[0] and not lost:
            self.surfaces.reverse()
            # What two surfaces gain over one does not depend on their order.
            first, second = self.surfaces
            first.misfit, first.part_slant = 1.0, LastingRateError()
            if first.standing:  # it is most of the image, so the camera stands still
                first.standing = False
                first.depth.start_over(0.0, variance, self._age)
            second.evidence, second.evidence_age, first.evidence = first.evidence, first.evidence_age, 0.0
        if superfluous:
            main = self.surfaces[0]
            self.surfaces[1:] = self._third.successors(main)
            main.established, self._next_trial = True, main.frames + PAUSE_FRAMES

    def _move_alike(self) -> bool:
        """Whether both surfaces have the same motion and therefore are one."""
        main, other = self.surfaces
        if self._age < 0.15 or other.frames < TRIAL_FRAMES[0]:
            return False
        sigma = main.rate_sigma if other.standing else math.hypot(main.rate_sigma, other.rate_sigma)
        if abs(main.rate - other.rate) > 3 * sigma:
            return False
        return self._grid.distance(main.warp, other.warp) < MERGE_DISTANCE_ELEMENTS

    def _select(self) -> Surface:
        main = self.surfaces[0]
        for surface in self.surfaces:
            if surface is not main and surface.established and surface.approaches:
                sigmas = 0.0 if surface.nearest else NEARER_SIGMAS
                margin = sigmas * math.hypot(main.rate_sigma, surface.rate_sigma)
                if main.comes_nearer and not surface.comes_nearer:
                    margin += NEARER_SIGMAS * surface.part_slant.sigma
                surface.nearest = surface.rate > main.rate + margin
                if surface.nearest:
                    return surface
        return main

    def _max_age(self) -> float:
        """Age of the keyframe at which a new one is taken, s."""
        main = self.surfaces[0]
        slow = main.moves and abs(main.log_depth) < SLOW_LOG_DEPTH
        return MAX_SLOW_KEYFRAME_AGE_S if slow else MAX_KEYFRAME_AGE_S

    def _renew_keyframe(self, brightness: Map) -> None:
        main = self.surfaces[0]
        x, y = main.warp[0, 2] / self._grid.extent[0], main.warp[1, 2] / self._grid.extent[1]
        growth = max(abs(surface.log_depth) for surface in self.surfaces if surface.established)
        if (
            self._age > self._max_age() - 1e-6
            or growth > MAX_LOG_DEPTH
            or math.hypot(x, y) > MAX_SHIFT_SHARE
            or main.overlap < MIN_KEYFRAME_OVERLAP
        ):
            self._aligner.set_keyframe(brightness)
            self._keyframe_stamp = self._stamp
            self._exposure.ratio = 1.0
            for surface in self._followed:
                surface.start_keyframe()
