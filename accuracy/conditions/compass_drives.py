"""Accuracy of the visual compass on a robot that drives through rooms in the direction of its camera."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from accuracy.baseline_compass import lucas_kanade
from accuracy.conditions.heading_errors import Floats, HeadingErrors, percentage, rms, yaw_inside
from accuracy.exact_features import ExactFeatures
from accuracy.scenes.compass_scenes import SETTLED, Clip
from accuracy.scenes.room_scenes import FRAME_RATE, Drive
from edgetpu_driver.engines.protocol import Engine
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from measured_figures.row import Row

DRIVES = (
    Drive(31, weave=10.0),
    Drive(32),
    Drive(33, weave=30.0),
    Drive(34, 1.0, 10.0, (5.0, 3.0, 20.0), (0.0, 2.0, -18.0)),
    Drive(35, start=(-2.2, 0.8, -5.0)),
    Drive(36, weave=5.0, plain=(1, 3)),
    Drive(37, 0.15, 10.0),
    Drive(38, 0.8, 10.0),
    Drive(39, -0.4, 10.0, start=(0.0, 0.8, 3.0)),
    Drive(40, 0.8, 4.0, (1.0, 1.2, 15.0), (0.2, 0.7, -13.0)),
)
"""Three in a room of 6 x 12 m; then in a hall of 10 x 40 m, along a wall, past plain walls, slow, fast,
backwards, and in a corridor."""


def measure(engine: Engine, quick: bool) -> list[Row]:
    """Rows of the drives."""
    clips = [_clip(drive) for drive in DRIVES[: 2 if quick else None]]
    ahead, exact = ([_follow(each, clip, True) for clip in clips] for each in (engine, ExactFeatures()))
    unaware = [_follow(engine, clip, False) for clip in clips]
    plain, full = ([_plain(clip, size) for clip in clips] for size in ((64, 64), None))

    case = "drives through rooms, 12 s, 15 Hz, noise 2"

    def row(
        metric: str,
        runs: list[HeadingErrors],
        of: Callable[[HeadingErrors], Floats],
        unit: str,
        reach: float | None,
    ) -> Row:
        small, large = rms(plain, of), rms(full, of)
        bound = rms(exact, of) if runs is ahead else None
        value = rms(runs, of)
        return Row(
            "compass", case, metric, value, unit, reach, "lower", small, bound, full_size_baseline=large
        )

    inside, valid = percentage(ahead, yaw_inside), percentage(ahead, _is_valid)
    return [
        row("yaw RMSE, looks_ahead", ahead, _yaw, "deg", 1.0),
        row("yaw RMSE", unaware, _yaw, "deg", None),
        row("yaw rate RMSE, looks_ahead", ahead, _rate, "deg/s", 1.0),
        Row("compass", case, "valid frames, looks_ahead", valid, "%", 98.0, "higher"),
        Row("compass", case, "yaws within one sigma (68), looks_ahead", inside, "%", None, "higher"),
    ]


def _follow(engine: Engine, clip: Clip, looks_ahead: bool) -> HeadingErrors:
    compass = VisualCompass(engine, clip.camera, looks_ahead=looks_ahead)
    results = [compass.update(image, time) for image, time in zip(clip.images, clip.times, strict=True)]
    names = "yaw", "yaw_sigma", "yaw_rate", "yaw_rate_sigma"
    yaw, sigma, rate, rate_sigma = (np.degrees([getattr(each, name) for each in results]) for name in names)
    return _errors(clip, yaw, sigma, rate[1:], rate_sigma[1:])


def _plain(clip: Clip, size: tuple[int, int] | None) -> HeadingErrors:
    yaw = lucas_kanade(clip.images, clip.camera, size)
    unknown = np.full(len(yaw), np.nan)
    return _errors(clip, yaw, unknown, np.diff(yaw) * FRAME_RATE, unknown[1:])


def _errors(clip: Clip, yaw: Floats, sigma: Floats, rate: Floats, rate_sigma: Floats) -> HeadingErrors:
    true = np.array(clip.true_yaw)
    errors = yaw - true, sigma, rate - np.diff(true) * FRAME_RATE, rate_sigma
    return HeadingErrors(*(each[SETTLED:] for each in errors))


@functools.cache
def _clip(drive: Drive) -> Clip:
    return drive.clip()


def _yaw(run: HeadingErrors) -> Floats:
    return run.yaw[_is_valid(run)]


def _rate(run: HeadingErrors) -> Floats:
    return run.rate[np.isfinite(run.rate)]


def _is_valid(run: HeadingErrors) -> NDArray[np.bool_]:
    return np.isfinite(run.yaw)
