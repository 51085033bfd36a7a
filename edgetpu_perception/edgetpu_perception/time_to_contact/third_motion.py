"""A third motion in view, on trial for the place of the second surface."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgetpu_perception.time_to_contact import second_surface
from edgetpu_perception.time_to_contact.homography_alignment import Aligner, Alignment, Grid, Map
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
)


class ThirdMotion:
    """Looks for what approaches while two surfaces are followed, of which neither is it.

    While on trial it takes nothing from the two surfaces, so a trial that fails does no harm. It takes the
    place of the second one only if contact with it is certainly sooner than with both.
    """

    def __init__(self, search: MotionSearch) -> None:
        self._search = search
        self.surface: Surface | None = None
        """What is on trial."""
        self._tried: list[tuple[slice, slice]] = []

    def look_for(
        self, surfaces: Sequence[Surface], alignment: Alignment, aligner: Aligner, certainty: Map, grid: Grid
    ) -> None:
        """Begin a trial of what grows more than the main surface, if there is anything.

        `alignment`: that of the main surface; `certainty`: inverse variances, [rows, columns].
        """
        main, other = surfaces
        weights = certainty * NOISE_CORRELATION**-2 * (alignment.inside & (other.membership <= 0.5))
        for square in self._tried:  # every place is tried before any is tried again
            weights[square] = 0.0
        found = self._search.find(aligner.jacobian, alignment.residual, weights, growing=True)
        if found is None or found.evidence < ESTABLISHED_EVIDENCE:
            self._tried.clear()
            return
        self._tried.append((found.rows, found.columns))
        if found.shift(grid.focal) <= MAX_SHIFT_ELEMENTS:
            self.surface = second_surface.begun_with(found, main)

    def judge(self, surfaces: list[Surface], others: Explained, own: Explained, age: float) -> bool:
        """Judge what is on trial by the present image; returns whether it is the second surface now.

        `others`: how well the surfaces explain the image; `age`: of the keyframe, s.
        """
        tried = self.surface
        assert tried is not None
        main, other = surfaces
        tried.take_evidence(second_surface.gain_of(tried, others, own), age)
        tried.established = tried.evidence > ESTABLISHED_EVIDENCE
        second_surface.assign(tried, np.maximum(main.membership, other.membership), others, own)
        proven = tried.established and tried.frames > TRIAL_FRAMES[0] and tried.misfit < MAX_MISFIT
        if proven and not other.standing and _is_sooner(tried, surfaces):
            # From now on it competes for other elements.
            tried.steady, tried.growth, tried.jump = 0, 0.0, abs(tried.rate - other.rate)
            surfaces[1], self.surface = tried, None
            return True
        patience = TRIAL_FRAMES[1] if tried.rate > max(main.rate, other.rate) else TRIAL_FRAMES[0]
        too_small = float(tried.membership.sum()) < MIN_SURFACE_SHARE * tried.membership.size
        if tried.frames > patience or too_small or tried.lost:
            self.surface = None
        return False

    def successors(self, main: Surface) -> list[Surface]:
        """End the trial as the second surface is given up; returns what takes its place, if anything does.

        What is unproven, or approaches no sooner than the main surface, would only keep the search for the
        next second surface waiting.
        """
        tried, self.surface = self.surface, None
        return [tried] if tried is not None and tried.established and tried.rate > main.rate else []


def _is_sooner(tried: Surface, surfaces: Sequence[Surface]) -> bool:
    return tried.approaches and all(
        tried.rate > each.rate + APPROACH_SIGMAS * math.hypot(tried.rate_sigma, each.rate_sigma)
        for each in surfaces
    )
