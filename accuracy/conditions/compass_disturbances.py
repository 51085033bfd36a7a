"""Accuracy of the visual compass with independently moving objects, and in hard turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accuracy.baseline_compass import lucas_kanade
from accuracy.scenes import photographs
from accuracy.scenes.compass_scenes import Clip, Crossing, HardTurn, OwnParts, static_camera
from accuracy.scenes.panorama_turns import PHOTOGRAPHS, available
from accuracy.scenes.photographs import TEXTURED
from edgetpu_driver.engines.protocol import Engine
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from measured_figures.row import Row

Floats = NDArray[np.float64]

SCENES = tuple(name for name in PHOTOGRAPHS if name.split(".")[0] in TEXTURED)
"""Photographs that are wrapped into panoramas, in addition to the real ones."""

MIDDLE = (0.15, 0.1, 0.85, 0.9)
"""The middle of the static camera's picture: left, top, right and bottom, as shares of it."""

STATIC_PARTS = (
    ((0.0, 0.0, 1.0, 1.0), 0),
    ((0.0, 0.0, 0.75, 1.0), 0),
    ((0.25, 0.0, 1.0, 1.0), 0),
    (MIDDLE, 30),
)
"""Parts of the static camera's picture (left, top, right, bottom) and their first frames."""

MIDDLE_STARTS = (0, 60, 120, 200)
"""First frames of further runs in the middle of the picture."""

SLOW_STARTS = (60, 0, 120, 200)
"""First frames of the runs at 2 Hz, the worst one first."""


@dataclass(frozen=True)
class Run:
    """Errors of the yaw in one clip, deg, without the first frame; NaN where not valid."""

    error: Floats
    sigma: Floats
    plain: Floats
    """Errors of Lucas-Kanade on the same images of 64x64 px, deg."""
    plain_full: Floats
    """Errors of Lucas-Kanade on images of the camera's full size, deg."""

    @property
    def end(self) -> float:
        """Error at the end of the clip; infinite if not valid."""
        return float(np.nan_to_num(abs(self.error[-1]), nan=np.inf))


def measure(engine: Engine, quick: bool) -> list[Row]:
    """Rows of all disturbances; rows whose data is not available are omitted."""
    frames = photographs.static_camera()
    rows = _static_camera_rows(engine, frames, quick) if frames else []
    names = [*available(), *SCENES]
    turning = _crossings(names, (-60.0, 90.0))
    own = [
        OwnParts(name, TEXTURED[(k + 1) % len(TEXTURED)], rate, 300 + 7 * k)
        for k, name in enumerate(names)
        for rate in (-20.0, 60.0)
    ]
    hard = [HardTurn(name, rate, 7 * k) for k, name in enumerate(names) for rate in (-60.0, 90.0)]
    object_crosses, own_part = "an object of 20 % width crosses, camera", "the robot itself fills the lowest"
    for case, scenes, rows_of in (
        (f"{object_crosses} still", _crossings(names, (0.0, 0.0, 0.0)), _crossing_rows),
        (f"{object_crosses} turning at 60 and 90 deg/s", turning, _crossing_rows),
        (
            f"{object_crosses} turning at 60 and 90 deg/s, noise 8",
            [replace(each, noise=8.0) for each in turning],
            _crossing_rows,
        ),
        (f"{own_part} quarter, stands, then turns", own, _crossing_rows),
        (
            f"{own_part} 30 %, bars 10 % above and below, stands, then turns",
            [replace(each, height=0.3, bars=0.1) for each in own],
            _crossing_rows,
        ),
        ("hard turns: noise 8, wobble 3 deg, blur, exposure", hard, _hard_rows),
    ):
        chosen: Sequence[Crossing | HardTurn | OwnParts] = scenes[:: len(scenes) // 3] if quick else scenes
        rows += rows_of(case, [_run(engine, scene.clip()) for scene in chosen])
    return rows


def _static_camera_rows(engine: Engine, frames: list[NDArray[np.uint8]], quick: bool) -> list[Row]:
    """Rows of a camera that stands still while people walk through its picture."""

    def runs(starts: Sequence[int], every: int) -> list[Run]:
        """Runs in the middle of the picture that begin at these frames; `every`: 2 for every second frame."""
        starts = starts[:1] if quick else starts
        return [_run(engine, static_camera(frames, MIDDLE, start, every)) for start in starts]

    parts = STATIC_PARTS[:1] if quick else STATIC_PARTS
    whole = [_run(engine, static_camera(frames, *part)) for part in parts]
    middle = "middle of the static camera's picture"
    return [
        *_static_rows("static camera, people, 10 Hz", whole),
        *_static_rows(f"{middle}, people fill much of it, 5 Hz", runs(MIDDLE_STARTS, 2)),
        *_crossing_rows(f"{middle}, 2 Hz", runs(SLOW_STARTS, 5)),
    ]


def _crossings(names: Iterable[str], rates: Iterable[float]) -> list[Crossing]:
    """Crossings of different photographs in front of each panorama at each of the rates, deg/s."""
    pairs = [(name, rate) for name in names for rate in rates]
    return [
        Crossing(name, TEXTURED[(3 * k + 1) % len(TEXTURED)], rate, 100 + k)
        for k, (name, rate) in enumerate(pairs)
    ]


def _run(engine: Engine, clip: Clip) -> Run:
    compass = VisualCompass(engine, clip.camera)
    results = [compass.update(image, time) for image, time in zip(clip.images, clip.times, strict=True)]
    true = np.array(clip.true_yaw)
    yaw, sigma = (np.degrees([getattr(each, name) for each in results]) for name in ("yaw", "yaw_sigma"))
    plain, full = lucas_kanade(clip.images, clip.camera), lucas_kanade(*clip.full_size, None)
    return Run(*(each[1:] for each in (yaw - true, sigma, plain - true, full - true)))


def _static_rows(case: str, runs: Sequence[Run]) -> list[Row]:
    error = np.concatenate([run.error for run in runs])
    plain, full = (np.concatenate([getattr(run, name) for run in runs]) for name in ("plain", "plain_full"))

    def within(errors: Floats) -> float:
        return _percent(np.abs(errors) <= 0.3)

    return [
        _row(
            case,
            "frames within 0.3 deg",
            within(error),
            "%",
            99.0,
            "higher",
            baseline=within(plain),
            full_size_baseline=within(full),
        ),
        _row(case, "views lost", _percent(np.isnan(error)), "%", 0.0, "lower"),
        _row(case, "yaw error, worst", _worst(runs), "deg", None, "lower"),
        *_sigma_rows(case, runs),
    ]


def _crossing_rows(case: str, runs: Sequence[Run]) -> list[Row]:
    return [
        *_end_rows(case, runs, 95.0 if "turn" in case else 98.0),
        _row(case, "yaw error, worst", _worst(runs), "deg", None, "lower"),
        *_sigma_rows(case, runs),
    ]


def _hard_rows(case: str, runs: Sequence[Run]) -> list[Row]:
    return [*_end_rows(case, runs, 99.0), *_sigma_rows(case, runs)]


def _end_rows(case: str, runs: Sequence[Run], reach: float) -> list[Row]:
    def share(end: Callable[[Run], float]) -> float:
        return _percent(np.array([end(run) for run in runs]) <= 1.0)

    plain = share(lambda run: abs(float(run.plain[-1])))
    full = share(lambda run: abs(float(run.plain_full[-1])))
    value, metric = share(lambda run: run.end), "ends within 1 deg"
    return [_row(case, metric, value, "%", reach, "higher", baseline=plain, full_size_baseline=full)]


def _sigma_rows(case: str, runs: Sequence[Run]) -> list[Row]:
    over = np.concatenate([np.abs(run.error / run.sigma) for run in runs])
    over = over[np.isfinite(over)]
    return [
        _row(
            case, "yaw error over its sigma, 95 % of frames", float(np.percentile(over, 95)), "", 3.0, "lower"
        ),
        _row(case, "yaws within one sigma (68)", _percent(over <= 1.0), "%", None, "higher"),
    ]


def _row(
    case: str, metric: str, value: float, unit: str, reach: float | None, better: Any, **more: Any
) -> Row:
    return Row("compass", case, metric, value, unit, reach, better, **more)


def _worst(runs: Sequence[Run]) -> float:
    return float(np.nanmax(np.abs(np.concatenate([run.error for run in runs]))))


def _percent(hits: NDArray[np.bool_]) -> float:
    return 100.0 * float(np.mean(hits))
