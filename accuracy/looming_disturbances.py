"""Accuracy of the time to contact at slanted planes, and where things move by themselves."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy import looming_disturbed_scenes as scenes
from accuracy.looming_disturbed_scenes import Target
from accuracy.looming_scenes import Clip
from accuracy.photographs import DEVELOPMENT
from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.images.conversion_cache import Region
from edgetpu_perception.time_to_contact.looming import Looming, LoomingResult
from measured_figures.row import Row
from testdata import DATA

SLANTS = ((10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0))
"""Slants in degrees, each with the median error of the rate in percent that is asked for."""

SETTLED = 10
"""Images at the start of a clip that do not count."""

STATIC_CAMERA = "static_camera/"
"""Frames of a camera that stands still while people walk through the picture."""

STATIC_CAMERA_RATE = 10.0
"""Images per second at which they are played."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """Results over a clip."""

    clip: Clip
    results: tuple[LoomingResult, ...]

    @property
    def ttc(self) -> Floats:
        """True times to contact of the images that count, s; +inf without an approach."""
        return self.clip.ttc[SETTLED:]

    @property
    def rate(self) -> Floats:
        """Measured expansion rates of these images, 1/s; NaN where not valid."""
        return np.array([result.expansion_rate for result in self.results])[SETTLED:]

    @property
    def found_ttc(self) -> Floats:
        """Measured times to contact of these images, s."""
        return np.array([result.ttc for result in self.results])[SETTLED:]

    @property
    def in_sigmas(self) -> Floats:
        """|error| of the rate over its sigma, of the valid ones of these images."""
        sigma = np.array([result.expansion_rate_sigma for result in self.results])[SETTLED:]
        ratio: Floats = np.abs(self.rate - 1 / self.ttc) / sigma
        return ratio[np.isfinite(ratio)]

    @property
    def claimed(self) -> NDArray[np.bool_]:
        """Images of the whole clip with a claimed approach."""
        return np.array([result.approaching for result in self.results])


def measure(engine: Engine, quick: bool) -> list[Row]:
    """All rows; `quick`: a few photographs."""
    names = DEVELOPMENT[:3] if quick else DEVELOPMENT
    count = 4 if quick else 2 * len(DEVELOPMENT)
    rows: list[Row] = []
    for degrees, reach in SLANTS:
        kind = f"plane slanted by {degrees} degrees"
        rows += _slant_rows(
            kind,
            [_run(engine, scenes.slanted(name, degrees, _random(kind, name, 0))) for name in names],
            reach,
        )
    kind = "object approaches a camera that stands still"
    targets = [_run(engine, target.clip) for target in _targets(kind, scenes.approaching, count)]
    rows += _found_rows(kind, targets)
    kind = "object crosses"
    rows += _quiet_rows(kind, [_run(engine, t.clip) for t in _targets(kind, scenes.crossing, count)])
    kind = "leaves"
    rows += _quiet_rows(
        kind,
        [
            _run(engine, scenes.leaves(name, behind, _random(kind, name, k)))
            for k, (name, behind) in enumerate(scenes.pairs(DEVELOPMENT, count))
        ],
    )
    kind = "camera held over ground"
    rows += _quiet_rows(
        kind, [_run(engine, scenes.over_ground(name, _random(kind, name, 0))) for name in names]
    )
    if (people := _people()) is not None:
        rows += _quiet_rows("camera stands still, people", [_run(engine, people)])
    kind = "car ahead brakes, 1242x375, 10 Hz"
    cars = list(_targets(kind, scenes.braking, count))
    region = [_run(engine, car.clip, partial(_visible, car)) for car in cars]
    rows += _braking_rows(f"{kind}, region on it", region, 10.0, 25.0)
    return rows + _braking_rows(f"{kind}, whole image", [_run(engine, car.clip) for car in cars], 25.0, None)


def _run(engine: Engine, clip: Clip, region: Callable[[int], Region] | None = None) -> Run:
    looming, results = Looming(engine), []
    for number, (frame, stamp) in enumerate(zip(clip.frames, clip.stamps.tolist(), strict=True)):
        if region is not None:
            looming.region = region(number)
        results.append(looming.update(frame, stamp))
    return Run(clip, tuple(results))


def _targets(
    kind: str, scene: Callable[[str, str, np.random.Generator], Target], count: int
) -> Iterator[Target]:
    for k, (name, behind) in enumerate(scenes.pairs(DEVELOPMENT, count)):
        yield scene(name, behind, _random(kind, name, k))


def _visible(target: Target, number: int) -> Region:
    """The part of a target's box that is in the image."""
    height, width = target.clip.frames[number].shape
    x, y, across, down = target.boxes[number].tolist()
    left, top = max(x, 0), max(y, 0)
    return Region(left, top, min(x + across, width) - left, min(y + down, height) - top)


def _people() -> Clip | None:
    """The real sequence; None if it is not there."""
    paths = [path for path in map(DATA.find, DATA.names(STATIC_CAMERA)) if path is not None]
    frames = [frame for path in paths if (frame := cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)) is not None]
    if not frames:
        return None
    stamps = np.arange(len(frames)) / STATIC_CAMERA_RATE
    return Clip(STATIC_CAMERA, np.array(frames), stamps, np.full(len(frames), np.inf))


def _slant_rows(case: str, runs: Sequence[Run], reach: float) -> list[Row]:
    errors = np.concatenate([100 * np.abs(run.rate * run.ttc - 1) for run in runs])
    inside = 100 * float(np.mean(np.concatenate([run.in_sigmas for run in runs]) < 1))
    return [
        _row(case, "median error of the rate", float(np.nanmedian(errors)), "%", reach, "lower"),
        _row(case, "inside one sigma", inside, "%", 55.0, "higher"),
    ]


def _found_rows(case: str, runs: Sequence[Run]) -> list[Row]:
    def by(seconds: float) -> float:
        return 100 * float(np.mean([run.claimed[run.clip.ttc >= seconds].any() for run in runs]))

    return [
        _row(case, "found 3 s before contact", by(3.0), "%", 90.0, "higher"),
        _row(case, "found 2 s before contact", by(2.0), "%", 98.0, "higher"),
    ]


def _quiet_rows(case: str, runs: Sequence[Run]) -> list[Row]:
    claimed = np.concatenate([run.claimed for run in runs])
    times = [result.ttc for run in runs for result in run.results if result.approaching]
    return [
        _row(case, "no approach claimed", 100 - 100 * float(np.mean(claimed)), "%", 99.7, "higher"),
        _row(case, "shortest time claimed", min([*times, 60.0]), "s", 1.0, "higher"),
    ]


def _braking_rows(case: str, runs: Sequence[Run], median: float, worst: float | None) -> list[Row]:
    found, true = (np.concatenate(each) for each in zip(*((r.found_ttc, r.ttc) for r in runs), strict=True))
    told = np.isfinite(found)
    errors = 100 * np.abs(found / true - 1)[told]
    rows = [
        _row(case, "answered", 100 * float(np.mean(told)), "%", 90.0, "higher"),
        _row(case, "median error of TTC", float(np.median(errors)), "%", median, "lower"),
    ]
    if worst is not None:
        rows.append(_row(case, "95th percentile", float(np.percentile(errors, 95)), "%", worst, "lower"))
    return rows


def _random(kind: str, name: str, repeat: int) -> np.random.Generator:
    """Random numbers of a clip of a photograph, the same wherever its file lies."""
    return np.random.default_rng(zlib.crc32(repr((kind, Path(name).name, repeat)).encode()))


def _row(case: str, metric: str, value: float, unit: str, reach: float, better: str) -> Row:
    return Row("looming", case, metric, value, unit, reach, "lower" if better == "lower" else "higher")
