"""Accuracy of the time to contact at slanted planes, and with independently moving objects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accuracy.baseline_looming import lucas_kanade
from accuracy.looming_tracks import Track, follow
from accuracy.scenes import looming_disturbed_scenes as scenes
from accuracy.scenes.looming_disturbed_scenes import Target
from accuracy.scenes.looming_scenes import Clip, clip_random
from accuracy.scenes.photographs import DEVELOPMENT, STATIC_CAMERA_RATE, static_camera
from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.images.region import Region
from measured_figures.row import Row

SLANTS = ((10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0))
"""Slants, deg, each with the limit of the median error of the rate, %."""


def measure(engine: Engine, wide: Engine, quick: bool) -> list[Row]:
    """All rows; `wide`: the engine with the graph for wide images; `quick`: only a few photographs."""
    names = DEVELOPMENT[:3] if quick else DEVELOPMENT
    count = 4 if quick else 2 * len(DEVELOPMENT)
    rows: list[Row] = []
    for degrees, reach in SLANTS:
        kind = f"plane slanted by {degrees} degrees"
        slanted = (scenes.slanted(name, degrees, clip_random(kind, name, 0)) for name in names)
        rows += _slant_rows(kind, _compared(engine, slanted), reach)
    for size, widths in (("object", scenes.LARGE), ("small object", scenes.SMALL)):
        kind = f"{size} approaches a camera that stands still"
        scene = partial(scenes.approaching, widths=widths)
        rows += _found_rows(kind, _compared(engine, (each.clip for each in _targets(kind, scene, count))))
    kind = "object crosses"
    crossing = (each.clip for each in _targets(kind, scenes.crossing, count))
    rows += _quiet_rows(kind, _compared(engine, crossing))
    kind = "leaves"
    leaves = (
        scenes.leaves(name, behind, clip_random(kind, name, k))
        for k, (name, behind) in enumerate(scenes.pairs(DEVELOPMENT, count))
    )
    rows += _quiet_rows(kind, _compared(engine, leaves))
    kind = "camera held over ground"
    ground = (scenes.over_ground(name, clip_random(kind, name, 0)) for name in names)
    rows += _quiet_rows(kind, _compared(engine, ground))
    kind = "camera flies over ground"
    flights = (
        scenes.flying(name, behind, clip_random(kind, name, k))
        for k, (name, behind) in enumerate(scenes.pairs(DEVELOPMENT, count))
    )
    rows += _quiet_rows(kind, _compared(engine, flights))
    if frames := static_camera():
        rows += _quiet_rows("camera stands still, people", _compared(engine, [_people(frames)]))
    kind = "car ahead brakes, 1242x375, 10 Hz"
    cars = list(_targets(kind, scenes.braking, count))
    clips, regions = [car.clip for car in cars], [partial(_visible, car) for car in cars]
    rows += _braking_rows(f"{kind}, region on it", _compared(engine, clips, regions), 10.0, 25.0)
    case = f"{kind}, whole image"
    rows += _braking_rows(case, _compared(wide, clips), 25.0, None)
    _, down, across, _ = engine.inputs[0].shape
    squeezed = _braking_rows(f"{case}, squeezed to {across}x{down} px", _compared(engine, clips), 25.0, None)
    return rows + [replace(row, reach=None) for row in squeezed]


@dataclass(frozen=True)
class _Runs:
    """The same clips, followed by the algorithm and by Lucas-Kanade."""

    measured: Sequence[Track]
    plain: Sequence[Track]
    """Lucas-Kanade on images of the model's size."""
    plain_full: Sequence[Track]
    """Lucas-Kanade on images of full size."""

    def row(
        self,
        case: str,
        metric: str,
        of: Callable[[Sequence[Track]], float],
        unit: str,
        reach: float,
        better: Literal["lower", "higher"],
    ) -> Row:
        """A row with the figure of the algorithm and those of both baselines."""
        return Row(
            "looming",
            case,
            metric,
            of(self.measured),
            unit,
            reach,
            better,
            of(self.plain),
            full_size_baseline=of(self.plain_full),
        )


def _compared(
    engine: Engine, clips: Iterable[Clip], regions: Iterable[Callable[[int], Region] | None] = ()
) -> _Runs:
    pairs = list(itertools.zip_longest(clips, regions))
    return _Runs(
        [follow(engine, clip, region) for clip, region in pairs],
        [lucas_kanade(clip, region=region) for clip, region in pairs],
        [lucas_kanade(clip, None, region) for clip, region in pairs],
    )


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
    """Clip of the static camera, in which nothing approaches."""
    stamps = np.arange(len(frames)) / STATIC_CAMERA_RATE
    return Clip("static camera", np.array(frames), stamps, np.full(len(frames), np.inf))


def _before_contact(track: Track) -> NDArray[np.bool_]:
    """Settled frames before contact: in some clips the camera passes through the plane."""
    before: NDArray[np.bool_] = track.settled & (track.clip.ttc > 0)
    return before


def _slant_rows(case: str, runs: _Runs, reach: float) -> list[Row]:
    def error(tracks: Sequence[Track]) -> float:
        errors = [100 * np.abs(run.rate * run.clip.ttc - 1)[_before_contact(run)] for run in tracks]
        return float(np.nanmedian(np.concatenate(errors)))

    share = 100 * float(
        np.mean(np.concatenate([run.in_sigmas(_before_contact(run)) for run in runs.measured]) < 1)
    )
    return [
        runs.row(case, "median error of the rate", error, "%", reach, "lower"),
        # The limit asks for 55 to 80 %: a sigma that is too large is wrong as well.
        Row("looming", case, "|inside one sigma - 67.5|", abs(share - 67.5), "%", 12.5, "lower"),
    ]


def _found_rows(case: str, runs: _Runs) -> list[Row]:
    def by(seconds: float, tracks: Sequence[Track]) -> float:
        return 100 * float(np.mean([run.claimed[run.clip.ttc >= seconds].any() for run in tracks]))

    return [
        runs.row(case, "found 3 s before contact", partial(by, 3.0), "%", 90.0, "higher"),
        runs.row(case, "found 2 s before contact", partial(by, 2.0), "%", 98.0, "higher"),
    ]


def _quiet_rows(case: str, runs: _Runs) -> list[Row]:
    def quiet(tracks: Sequence[Track]) -> float:
        return 100 - 100 * float(np.mean(np.concatenate([run.claimed for run in tracks])))

    def shortest(tracks: Sequence[Track]) -> float:
        times = [result.ttc for run in tracks for result in run.results if result.approaching]
        return min([*times, 60.0])

    return [
        runs.row(case, "no approach claimed", quiet, "%", 99.7, "higher"),
        runs.row(case, "shortest time claimed", shortest, "s", 1.0, "higher"),
    ]


def _braking_rows(case: str, runs: _Runs, median: float, worst: float | None) -> list[Row]:
    def times(tracks: Sequence[Track]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        found, true = zip(*((run.ttc[run.settled], run.clip.ttc[run.settled]) for run in tracks), strict=True)
        return np.concatenate(found), np.concatenate(true)

    def answered(tracks: Sequence[Track]) -> float:
        return 100 * float(np.mean(np.isfinite(times(tracks)[0])))

    def error(percent: float, tracks: Sequence[Track]) -> float:
        found, true = times(tracks)
        errors = 100 * np.abs(found / true - 1)[np.isfinite(found)]
        return float(np.percentile(errors, percent)) if len(errors) else math.inf

    rows = [
        runs.row(case, "answered", answered, "%", 90.0, "higher"),
        runs.row(case, "median error of TTC", partial(error, 50.0), "%", median, "lower"),
    ]
    if worst is not None:
        rows.append(runs.row(case, "95th percentile", partial(error, 95.0), "%", worst, "lower"))
    return rows
