"""Results of looming for a clip, compared with the truth."""

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
"""Number of frames at the start of an approach that do not count; half as many if nothing approaches."""

SHORTEST, LONGEST = 0.5, 5.0
"""Range of the true times to contact that count, s."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Track:
    """Results over a clip; arrays have an element for each frame."""

    clip: Clip
    results: tuple[LoomingResult, ...]

    @property
    def settled(self) -> Mask:
        """Mask of the frames after the first START_FRAMES: bool [n]."""
        return np.arange(len(self.results)) >= START_FRAMES

    @property
    def counted(self) -> Mask:
        """Mask of the settled frames with a time to contact from SHORTEST to LONGEST: bool [n]."""
        ttc = self.clip.ttc
        return self.settled & (ttc >= SHORTEST) & (ttc <= LONGEST)

    @property
    def ttc(self) -> Floats:
        """Measured time to contact, s; NaN where not valid, +inf where no approach was measured."""
        return np.array([result.ttc for result in self.results])

    @property
    def error(self) -> Floats:
        """|error| of the time to contact, %; +inf where the result has no finite time."""
        error: Floats = 100 * np.abs(self.ttc / self.clip.ttc - 1)
        return np.where(np.isnan(error), np.inf, error)

    @property
    def rate(self) -> Floats:
        """Measured expansion rate, 1/s; NaN where not valid."""
        return np.array([result.expansion_rate for result in self.results])

    def in_sigmas(self, counted: Mask) -> Floats:
        """|error| of the expansion rate over its sigma, for the valid results in `counted` frames."""
        sigma = np.array([result.expansion_rate_sigma for result in self.results])
        kept = counted & np.array([result.valid for result in self.results])
        ratio: Floats = np.abs(self.rate - 1 / self.clip.ttc)[kept] / sigma[kept]
        return ratio

    @property
    def claimed(self) -> Mask:
        """Mask of the frames with a claimed approach: bool [n]."""
        return np.array([result.approaching for result in self.results])


def follow(engine: Engine, clip: Clip, region: Callable[[int], Region] | None = None) -> Track:
    """Run looming over one clip; `region`: gives the part of each frame to look at, by the frame's number."""
    looming, results = Looming(engine), []
    for number, (frame, stamp) in enumerate(zip(clip.frames, clip.stamps.tolist(), strict=True)):
        if region is not None:
            looming.region = region(number)
        results.append(looming.update(frame, stamp))
    return Track(clip, tuple(results))
