"""Accuracy of the visual compass on a drone: turns and rates while it drifts and vibrates."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from accuracy.baseline_compass import dense_flow, lucas_kanade
from accuracy.conditions.heading_errors import (
    HeadingErrors,
    percentage,
    rate_inside,
    rate_of,
    rms,
    yaw_inside,
    yaw_of,
)
from accuracy.engines import open_engine
from accuracy.exact_features import ExactFeatures
from accuracy.scenes.compass_scenes import SETTLED
from accuracy.scenes.drone_scenes import FRAME_RATE, Flight, FlightClip
from edgetpu_driver.engines.protocol import Engine
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from measured_figures.row import Row

FLIGHTS = (Flight(11, 0.2, 20.0), Flight(12, 0.2, 40.0), Flight(13, 0.1, 8.0), Flight(14, 0.1, 20.0))

ON_THE_SPOT = Flight(15, 0.0, 20.0)

SIZES = (64, 96, 128)
"""Widths and heights of the model's input, px."""

Floats = NDArray[np.float64]


def measure(engine: Engine) -> list[Row]:
    """Rows of the flights. A quick run has all of them, since errors of single ones are 0.05 to 0.33 deg."""
    clips = [_clip(flight) for flight in FLIGHTS]
    runs, exact = ([follow(each, clip) for clip in clips] for each in (engine, ExactFeatures()))
    case = "drone, 12 s, hall of 60 m, 20 Hz, rolling shutter, noise 2"
    rows = []
    for plain, method in ((lucas_kanade, "Lucas-Kanade"), (dense_flow, "DIS")):
        small, full = ([_plain(plain, clip, size) for clip in clips] for size in ((64, 64), None))
        for metric, unit, reach, of in (
            ("yaw rate RMSE", "deg/s", 0.35, rate_of),
            ("yaw RMSE", "deg", 0.24, yaw_of),
        ):
            rows.append(
                Row(
                    "compass",
                    case,
                    f"{metric} (beside {method})",
                    rms(runs, of),
                    unit,
                    reach if plain is lucas_kanade else None,
                    "lower",
                    rms(small, of),
                    rms(exact, of),
                    full_size_baseline=rms(full, of),
                )
            )
    yaws, rates = percentage(runs, yaw_inside), percentage(runs, rate_inside)
    return [
        *rows,
        Row("compass", case, "yaw rates within one sigma (68)", rates, "%", None, "higher"),
        Row("compass", case, "yaws within one sigma (68)", yaws, "%", None, "higher"),
    ]


def measure_sizes(engine: str) -> list[Row]:
    """Rows for each of SIZES; `engine` is "cpu" or "virtual"."""
    rows = []
    engines = {
        size: open_engine(engine, features.name(size, size), features.build(size, size)) for size in SIZES
    }
    for case, flights in (("drone that only turns", (ON_THE_SPOT,)), ("drone that drifts", FLIGHTS)):
        runs = {size: [follow(each, _clip(flight)) for flight in flights] for size, each in engines.items()}
        for size, of_size in runs.items():
            name = f"{case}, input of {size} px"
            rows += [
                Row("compass", name, "yaw rate RMSE", rms(of_size, rate_of), "deg/s", None, "lower"),
                Row("compass", name, "yaw RMSE", rms(of_size, yaw_of), "deg", None, "lower"),
                Row(
                    "compass",
                    name,
                    "yaw rates within one sigma (68)",
                    percentage(of_size, rate_inside),
                    "%",
                    None,
                    "higher",
                ),
            ]
    return rows


def follow(engine: Engine, clip: FlightClip) -> HeadingErrors:
    """Run the compass over one flight."""
    compass = VisualCompass(engine, clip.camera)
    results = [compass.update(image, time) for image, time in zip(clip.images, clip.times, strict=True)]
    yaw, yaw_sigma = (np.degrees([getattr(each, name) for each in results]) for name in ("yaw", "yaw_sigma"))
    # The yaw axis is the optical axis y, which points down.
    down = np.degrees([each.angular_velocity[1] for each in results])[1:]
    sigma = np.degrees(np.sqrt([each.angular_velocity_covariance[4] for each in results]))[1:]
    begin = slice(SETTLED, None)
    return HeadingErrors(
        (yaw - clip.yaw)[begin], yaw_sigma[begin], (down - clip.velocity[:, 1])[begin], sigma[begin]
    )


def _plain(method: Callable[..., Floats], clip: FlightClip, size: tuple[int, int] | None) -> HeadingErrors:
    yaw = method(clip.images, clip.camera, size)
    unknown = np.full(len(yaw), np.nan)
    rate = -np.diff(yaw) * FRAME_RATE - clip.velocity[:, 1]
    return HeadingErrors((yaw - clip.yaw)[SETTLED:], unknown, rate[SETTLED:], unknown)


@functools.cache
def _clip(flight: Flight) -> FlightClip:
    return flight.clip()
