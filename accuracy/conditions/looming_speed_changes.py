"""Uncertainty of looming after a change of speed, where few of the images arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from accuracy.looming_tracks import follow
from accuracy.scenes.looming_scenes import FARTHEST, FRAME_RATE, Clip, Pose, Vector, approach, clip_random
from accuracy.scenes.photographs import DEVELOPMENT, grey_photograph
from edgetpu_driver.engines.protocol import Engine
from measured_figures.row import Row

CASE = "speed changes, four of five images missing"

BEFORE_S, AFTER_S = 1.2, 2.0
"""Durations at the first speed with all images, and at the second speed with few of them, s."""

ARRIVING = 0.2
"""Share of the images that arrive after the change, as on an overloaded computer."""

SPEEDS = -0.6, 0.8
"""Range of the speeds, m/s; negative: away from the plane."""

LEAST_CHANGE = 0.15
"""Least difference of the two speeds, m/s."""

DISTANCE = 2.5
"""Distance at the change, m."""


def clips(names: Sequence[str], repeats: int) -> Iterator[Clip]:
    """A camera drives towards a plane or away from it, and its speed changes abruptly."""
    for name in names:
        for repeat in range(repeats):
            random = clip_random(CASE, name, repeat)
            course = approach(grey_photograph(name), 64, random)
            first = second = 0.0
            while abs(second - first) < LEAST_CHANGE:
                first, second = random.uniform(*SPEEDS, 2).tolist()
            stamps = np.arange(round((BEFORE_S + AFTER_S) * FRAME_RATE)) / FRAME_RATE
            stamps = stamps[(stamps < BEFORE_S) | (random.random(len(stamps)) < ARRIVING)]
            speed = np.where(stamps < BEFORE_S, first, second)
            left: Vector = DISTANCE - speed * (stamps - BEFORE_S)
            poses = (Pose((0.0, 0.0, FARTHEST - each)) for each in left.tolist())
            frames = [course.view.render(course.panels, pose, random) for pose in poses]
            yield Clip(name, np.array(frames), stamps, left / speed)


def measure(engine: Engine, quick: bool) -> list[Row]:
    """Rows of the shares of errors inside one and three sigma.

    The first image after the change does not count: nothing may have moved at the new speed yet.
    """
    errors = []
    for clip in clips(DEVELOPMENT, 1 if quick else 4):
        changed = np.flatnonzero(clip.stamps >= BEFORE_S)[1:]
        errors.append(follow(engine, clip).in_sigmas(np.isin(np.arange(len(clip.stamps)), changed)))
    one, three = (100 * float(np.mean(np.concatenate(errors) < sigmas)) for sigmas in (1, 3))
    return [
        Row("looming", CASE, "|inside one sigma - 67.5|", abs(one - 67.5), "%", 12.5, "lower"),
        Row("looming", CASE, "inside three sigma", three, "%", 95.0, "higher"),
    ]
