"""Accuracy of the time to contact at slanted planes, and where things move by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from accuracy import looming_disturbed_scenes as scenes
from accuracy.looming_disturbed_scenes import Target
from accuracy.looming_scenes import Clip, clip_random
from accuracy.looming_tracks import Track, follow
from accuracy.photographs import DEVELOPMENT, STATIC_CAMERA_RATE, static_camera
from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.images.conversion_cache import Region
from measured_figures.row import Row

SLANTS = ((10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0))
"""Slants in degrees, each with the median error of the rate in percent that is asked for."""


def measure(engine: Engine, quick: bool) -> list[Row]:
    """All rows; `quick`: a few photographs."""
    names = DEVELOPMENT[:3] if quick else DEVELOPMENT
    count = 4 if quick else 2 * len(DEVELOPMENT)
    rows: list[Row] = []
    for degrees, reach in SLANTS:
        kind = f"plane slanted by {degrees} degrees"
        rows += _slant_rows(
            kind,
            [follow(engine, scenes.slanted(name, degrees, clip_random(kind, name, 0))) for name in names],
            reach,
        )
    for size, widths in (("object", scenes.LARGE), ("small object", scenes.SMALL)):
        kind = f"{size} approaches a camera that stands still"
        scene = partial(scenes.approaching, widths=widths)
        rows += _found_rows(kind, [follow(engine, target.clip) for target in _targets(kind, scene, count)])
    kind = "object crosses"
    rows += _quiet_rows(kind, [follow(engine, t.clip) for t in _targets(kind, scenes.crossing, count)])
    kind = "leaves"
    rows += _quiet_rows(
        kind,
        [
            follow(engine, scenes.leaves(name, behind, clip_random(kind, name, k)))
            for k, (name, behind) in enumerate(scenes.pairs(DEVELOPMENT, count))
        ],
    )
    kind = "camera held over ground"
    rows += _quiet_rows(
        kind, [follow(engine, scenes.over_ground(name, clip_random(kind, name, 0))) for name in names]
    )
    if frames := static_camera():
        rows += _quiet_rows("camera stands still, people", [follow(engine, _people(frames))])
    kind = "car ahead brakes, 1242x375, 10 Hz"
    cars = list(_targets(kind, scenes.braking, count))
    region = [follow(engine, car.clip, partial(_visible, car)) for car in cars]
    rows += _braking_rows(f"{kind}, region on it", region, 10.0, 25.0)
    whole = [follow(engine, car.clip) for car in cars]
    return rows + _braking_rows(f"{kind}, whole image", whole, 25.0, None)


def _targets(
    kind: str, scene: Callable[[str, str, np.random.Generator], Target], count: int
) -> Iterator[Target]:
    for k, (name, behind) in enumerate(scenes.pairs(DEVELOPMENT, count)):
        yield scene(name, behind, clip_random(kind, name, k))


def _visible(target: Target, number: int) -> Region:
    """The part of a target's box that is in the image."""
    height, width = target.clip.frames[number].shape
    x, y, across, down = target.boxes[number].tolist()
    left, top = max(x, 0), max(y, 0)
    return Region(left, top, min(x + across, width) - left, min(y + down, height) - top)


def _people(frames: Sequence[NDArray[np.uint8]]) -> Clip:
    """The static camera: nothing approaches."""
    stamps = np.arange(len(frames)) / STATIC_CAMERA_RATE
    return Clip("static camera", np.array(frames), stamps, np.full(len(frames), np.inf))


def _slant_rows(case: str, runs: Sequence[Track], reach: float) -> list[Row]:
    errors = np.concatenate([100 * np.abs(run.rate * run.clip.ttc - 1)[run.settled] for run in runs])
    inside = 100 * float(np.mean(np.concatenate([run.in_sigmas(run.settled) for run in runs]) < 1))
    return [
        _row(case, "median error of the rate", float(np.nanmedian(errors)), "%", reach, "lower"),
        _row(case, "inside one sigma", inside, "%", 55.0, "higher"),
    ]


def _found_rows(case: str, runs: Sequence[Track]) -> list[Row]:
    def by(seconds: float) -> float:
        return 100 * float(np.mean([run.claimed[run.clip.ttc >= seconds].any() for run in runs]))

    return [
        _row(case, "found 3 s before contact", by(3.0), "%", 90.0, "higher"),
        _row(case, "found 2 s before contact", by(2.0), "%", 98.0, "higher"),
    ]


def _quiet_rows(case: str, runs: Sequence[Track]) -> list[Row]:
    claimed = np.concatenate([run.claimed for run in runs])
    times = [result.ttc for run in runs for result in run.results if result.approaching]
    return [
        _row(case, "no approach claimed", 100 - 100 * float(np.mean(claimed)), "%", 99.7, "higher"),
        _row(case, "shortest time claimed", min([*times, 60.0]), "s", 1.0, "higher"),
    ]


def _braking_rows(case: str, runs: Sequence[Track], median: float, worst: float | None) -> list[Row]:
    pairs = [(run.ttc[run.settled], run.clip.ttc[run.settled]) for run in runs]
    found, true = (np.concatenate(each) for each in zip(*pairs, strict=True))
    told = np.isfinite(found)
    errors = 100 * np.abs(found / true - 1)[told]
    rows = [
        _row(case, "answered", 100 * float(np.mean(told)), "%", 90.0, "higher"),
        _row(case, "median error of TTC", float(np.median(errors)), "%", median, "lower"),
    ]
    if worst is not None:
        rows.append(_row(case, "95th percentile", float(np.percentile(errors, 95)), "%", worst, "lower"))
    return rows


def _row(case: str, metric: str, value: float, unit: str, reach: float, better: str) -> Row:
    return Row("looming", case, metric, value, unit, reach, "lower" if better == "lower" else "higher")
