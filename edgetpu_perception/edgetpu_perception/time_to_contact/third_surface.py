"""Candidates for a third surface in view, which may replace the second one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgetpu_perception.time_to_contact import second_surface
from edgetpu_perception.time_to_contact.homography_alignment import (
    Grid,
    HomographyAligner,
    HomographyAlignment,
    Map,
)
from edgetpu_perception.time_to_contact.independent_motion import MotionSearch
from edgetpu_perception.time_to_contact.second_surface import Explained
from edgetpu_perception.time_to_contact.surface import APPROACH_SIGMAS, Surface
from edgetpu_perception.time_to_contact.surface_tracker_limits import (
    ESTABLISHED_EVIDENCE,
    MAX_MISFIT,
    MAX_SHIFT_ELEMENTS,
    MIN_SURFACE_SHARE,
    NOISE_CORRELATION,
    TRIAL_FRAMES,
    TRIALS_AT_ONCE,
)


class ThirdSurface:
    """Looks for a third surface that approaches while two others are followed.

    A candidate uses no elements of the two surfaces, so one that fails does no harm. Several are followed at
    once, as each trial takes many images. A candidate replaces the second surface only if contact with it is
    certainly sooner than with both.
    """

    def __init__(self, search: MotionSearch) -> None:
        self._search = search
        self.trials: list[Surface] = []
        """The candidates that are followed."""
        self._tried: list[tuple[slice, slice]] = []

    def look_for(
        self,
        surfaces: Sequence[Surface],
        alignment: HomographyAlignment,
        aligner: HomographyAligner,
        certainty: Map,
        grid: Grid,
    ) -> None:
        """Begin a trial of a part that grows more than the main surface, if there is one and room for it.

        `alignment`: of the main surface; `certainty`: inverse variances, [rows, columns].
        """
        if len(self.trials) == TRIALS_AT_ONCE:
            return
        main, other = surfaces
        weights = certainty * NOISE_CORRELATION**-2 * (alignment.inside & (other.membership <= 0.5))
        for square in self._tried:  # every square is tried before any is tried again
            weights[square] = 0.0
        found = self._search.find(aligner.jacobian, alignment.residual, weights, growing=True)
        if found is None or found.evidence < ESTABLISHED_EVIDENCE:
            self._tried.clear()
            return
        self._tried.append((found.rows, found.columns))
        if found.shift(grid.focal) <= MAX_SHIFT_ELEMENTS:
            self.trials.append(second_surface.begun_with(found, main))

    def judge(self, surfaces: list[Surface], others: Explained, own: Sequence[Explained], age: float) -> bool:
        """Judge the candidates by the present image; returns whether one has replaced the second surface.

        `others`, `own`: how well the two surfaces, and each candidate, explain the image; `age`: of the
        keyframe, s.
        """
        main, other = surfaces
        kept = []
        for tried, explained in zip(self.trials, own, strict=True):
            tried.take_evidence(second_surface.gain_of(tried, others, explained), age)
            tried.established = tried.evidence > ESTABLISHED_EVIDENCE
            rest = np.maximum(main.membership, other.membership)
            second_surface.assign(tried, rest, others, explained)
            proven = tried.established and tried.frames > TRIAL_FRAMES[0] and tried.misfit < MAX_MISFIT
            if proven and not other.standing and _is_sooner(tried, surfaces):
                # From now on it competes for other elements.
                tried.steady, tried.growth, tried.jump = 0, 0.0, abs(tried.rate - other.rate)
                surfaces[1], self.trials = tried, []
                return True
            patience = TRIAL_FRAMES[1] if tried.rate > max(main.rate, other.rate) else TRIAL_FRAMES[0]
            too_small = float(tried.membership.sum()) < MIN_SURFACE_SHARE * tried.membership.size
            if not (tried.frames > patience or too_small or tried.lost):
                kept.append(tried)
        self.trials = kept
        return False

    def successors(self, main: Surface) -> list[Surface]:
        """End the trials as the second surface is given up; returns the candidate that replaces it, if any.

        A candidate that is unproven, or whose contact is no sooner than that of the main surface, would only
        delay the search for the next second surface.
        """
        proven = [each for each in self.trials if each.established and each.rate > main.rate]
        self.trials = []
        return [max(proven, key=lambda each: each.evidence)] if proven else []


def _is_sooner(tried: Surface, surfaces: Sequence[Surface]) -> bool:
    return tried.approaches and all(
        tried.rate > each.rate + APPROACH_SIGMAS * math.hypot(tried.rate_sigma, each.rate_sigma)
        for each in surfaces
    )
