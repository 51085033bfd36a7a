"""Results of looming for a clip, with the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.looming_scenes import Clip
from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.images.region import Region
from edgetpu_perception.time_to_contact.looming import Looming, LoomingResult

START_FRAMES = 10
"""Frames at the start of an approach that do not count; half as many if nothing approaches."""

SHORTEST, LONGEST = 0.5, 5.0
"""Times to contact that count, s."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Track:
    """Results over a clip; arrays have an element for each frame."""

    clip: Clip
    results: tuple[LoomingResult, ...]

    @property
    def settled(self) -> Mask:
        """Frames after those at the start."""
        return np.arange(len(self.results)) >= START_FRAMES

    @property
    def counted(self) -> Mask:
        """Frames of an approach that count."""
        ttc = self.clip.ttc
        return self.settled & (ttc >= SHORTEST) & (ttc <= LONGEST)

    @property
    def ttc(self) -> Floats:
        """Measured time to contact, s; NaN where not valid, +inf where none was measured."""
        return np.array([result.ttc for result in self.results])

    @property
    def error(self) -> Floats:
        """|error| of the time to contact in percent, +inf where none was measured."""
        error: Floats = 100 * np.abs(self.ttc / self.clip.ttc - 1)
        return np.where(np.isnan(error), np.inf, error)

    @property
    def rate(self) -> Floats:
        """Measured expansion rate, 1/s; NaN where not valid."""
        return np.array([result.expansion_rate for result in self.results])

    def in_sigmas(self, counted: Mask) -> Floats:
        """|error| of the expansion rate over its sigma, of the valid ones of the frames that count."""
        sigma = np.array([result.expansion_rate_sigma for result in self.results])
        kept = counted & np.array([result.valid for result in self.results])
        ratio: Floats = np.abs(self.rate - 1 / self.clip.ttc)[kept] / sigma[kept]
        return ratio

    @property
    def claimed(self) -> Mask:
        """Frames with a claimed approach."""
        return np.array([result.approaching for result in self.results])


def follow(engine: Engine, clip: Clip, region: Callable[[int], Region] | None = None) -> Track:
    """Run one clip; `region`: the part of each frame, by its number, to look at."""
    looming, results = Looming(engine), []
    for number, (frame, stamp) in enumerate(zip(clip.frames, clip.stamps.tolist(), strict=True)):
        if region is not None:
            looming.region = region(number)
        results.append(looming.update(frame, stamp))
    return Track(clip, tuple(results))
