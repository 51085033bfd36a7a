"""Time to contact with a wall while parts of the robot itself stand still in the picture."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import cv2
import numpy as np

from accuracy.looming_tracks import Mask, Track, follow
from accuracy.scenes.looming_scenes import FARTHEST, FRAME_RATE, Clip, Pose, approach, clip_random
from accuracy.scenes.photographs import as_pixels, grey_photograph
from edgetpu_driver.engines.protocol import Engine
from measured_figures.row import Row

CASE = "the robot itself fills the lowest quarter or third, stands, then drives"

WALLS = ("brick", "coins", "grass", "gravel")
"""Photographs that still show texture at close range."""

SHARES = 1 / 4, 1 / 3
"""Heights of the robot's own parts in the picture, as shares of its height."""

STANDS_S, DRIVES_S = 1.0, 3.4
"""Durations of the rest and of the drive at 1 m/s towards the wall, s."""

SETTLED_S = 0.7
"""Time after the start of the drive that does not count, s."""

GRAIN, CONTRAST = 3.0, 40.0
"""Sigma of the blur that makes the stains, px, and their standard deviation, grey levels."""

SIZE, NOISE = 64, 2.0
"""Size of the images, px, and the standard deviation of each pixel, grey levels."""


def clips(repeats: int) -> Iterator[Clip]:
    """A camera stands before a wall, then drives towards it; smooth stains are the robot's own parts."""
    for name, share, repeat in itertools.product(WALLS, SHARES, range(repeats)):
        yield _clip(name, share, clip_random(f"{CASE}, {share:.2f}", name, repeat))


def _clip(name: str, share: float, random: np.random.Generator) -> Clip:
    """A clip of one wall. share: of the height of the images that the robot's own parts fill."""
    stains = cv2.GaussianBlur(random.normal(0.0, 1.0, (round(share * SIZE), SIZE)), (0, 0), GRAIN)
    part = as_pixels(128 + CONTRAST * stains / stains.std())
    course = approach(grey_photograph(name), SIZE, random)
    x, y, z = course.velocity
    stamps = np.arange(round((STANDS_S + DRIVES_S) * FRAME_RATE)) / FRAME_RATE
    driven = np.maximum(stamps - STANDS_S, 0.0)
    frames = []
    for each in driven.tolist():
        frame = course.view.render(course.panels, Pose((x * each, y * each, z * each)))
        frame[-len(part) :] = part
        frames.append(as_pixels(frame + random.normal(0.0, NOISE, frame.shape)))
    ttc = np.where(stamps > STANDS_S, FARTHEST - driven, np.inf)
    return Clip(name, np.array(frames), stamps, ttc)


def measure(engine: Engine, quick: bool) -> list[Row]:
    """Rows of the errors while the robot drives, from SETTLED_S after its start."""
    tracks = [follow(engine, clip) for clip in clips(1 if quick else 3)]
    told = np.concatenate([(track.rate * track.clip.ttc)[_counted(track)] for track in tracks])
    errors = np.where(told > 0, 100 * np.abs(1 / told - 1), np.inf)
    in_sigmas = np.concatenate([track.in_sigmas(_counted(track)) for track in tracks])
    median, worst = (float(np.percentile(errors, percent, method="lower")) for percent in (50, 95))
    inside = 100 * float(np.mean(in_sigmas < 3))
    return [
        Row("looming", CASE, "median error of TTC", median, "%", 3.0, "lower"),
        Row("looming", CASE, "95th percentile", worst, "%", 15.0, "lower"),
        Row("looming", CASE, "inside three sigma", inside, "%", 95.0, "higher"),
    ]


def _counted(track: Track) -> Mask:
    counted: Mask = track.clip.stamps > STANDS_S + SETTLED_S
    return counted
