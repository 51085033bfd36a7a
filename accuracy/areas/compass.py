"""Accuracy of the visual compass: turns inside panoramas, and a camera that is carried along."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accuracy.areas.flow import GABOR
from accuracy.conditions import (
    compass_disturbances,
    compass_drives,
    compass_drone,
    compass_small_images,
    compass_swings,
    compass_walk,
)
from accuracy.conditions.compass_turns import (
    FRAME_RATE,
    FULL_SIZE,
    Track,
    Turn,
    finite,
    follow,
    lucas_kanade_track,
    phase_correlation,
    rms,
    within,
)
from accuracy.conditions.heading_errors import Floats
from accuracy.engines import open_engine
from accuracy.exact_features import ExactFeatures
from accuracy.scenes.compass_scenes import SETTLED
from accuracy.scenes.panorama_turns import (
    PANORAMAS,
    PHOTOGRAPHS,
    available,
)
from edgetpu_driver.engines.protocol import Engine
from edgetpu_perception.graphs import flow_and_compass_features as features
from measured_figures.row import Row
from testdata import GOLDEN

FIELDS_OF_VIEW = (60.0, 75.0, 90.0)
RATES = (10.0, -30.0, 60.0, -90.0)
"""Turn rates, deg/s."""

DISTORTION = (-0.25, 0.06, 0.001, -0.001)
"""Distortion coefficients k1, k2, p1 and p2 of an ordinary wide-angle lens."""

WALL = 110.0
"""Width of a wall without texture, deg; wider than every field of view."""


def measure(engine: str, quick: bool = False) -> list[Row]:
    """Rows of the compass protocol; `engine` is "cpu" or "virtual". Rows without their data are omitted."""
    run = open_engine(engine, features.name(), features.build())
    rows = []
    names = available()
    if names:
        fields, rates = ((75.0,), (60.0,)) if quick else (FIELDS_OF_VIEW, RATES)
        # Yaw errors within one turn are correlated: sigmas can be judged only over several panoramas.
        turns = [Turn(*each) for each in itertools.product(names, fields, rates)]
        rows += _turn_rows(run, turns, "full turns", limited=True)
        rows += _disturbed_rows(run, names[:1] if quick else names)
        rows += _wall_rows(run, names[:1] if quick else names)
        rows += _repeated_rows(run, names[:1] if quick else names)
        rows += compass_small_images.measure(run, names, quick)
    if compass_walk.is_available():
        rows += compass_walk.measure(run)
    rows += compass_swings.measure(run, names, quick)
    rows += compass_disturbances.measure(run, quick)
    rows += compass_drone.measure(run)
    rows += compass_drives.measure(run, quick)
    return rows if quick else rows + _informative_rows(engine, run)


def _informative_rows(engine: str, run: Engine) -> list[Row]:
    """Rows without limits: photographs wrapped into panoramas, and other models."""
    settings = [(60.0, 30.0), (75.0, -60.0), (90.0, -90.0), (90.0, 10.0)]
    wrapped = [Turn(name, *each) for name in PHOTOGRAPHS for each in settings]
    rows = _turn_rows(run, wrapped, "full turns in wrapped photographs", limited=False)
    return rows + compass_drone.measure_sizes(engine) + _gabor_rows(engine)


def plots(engine: str = "cpu", quick: bool = False) -> dict[str, Any]:
    """Matplotlib figures by title: the error along a turn, how errors compare with sigmas, and the walk."""
    from matplotlib.figure import Figure

    run = open_engine(engine, features.name(), features.build())
    names = available()
    tracks = [follow(run, Turn(name, 75.0, -30.0)) for name in (names[:1] if quick else names)]
    figures: dict[str, Any] = {}

    def axes(title: str, x: str, y: str) -> Any:
        figure = Figure(figsize=(7, 3.5), layout="constrained")
        figures[title] = figure
        return figure.subplots(subplot_kw={"xlabel": x, "ylabel": y})

    along = axes("Error of the yaw along a full turn, 30 deg/s, FOV 75 deg", "turned, deg", "error, deg")
    spread = axes("Errors of the yaw rate over their sigma", "error / sigma", "frames")
    for track in tracks:
        along.plot(
            np.abs(track.true_yaw), track.yaw - track.true_yaw, label=track.turn and track.turn.panorama
        )
    if tracks:
        ratio = [finite((t.rate - t.true_rate)[SETTLED:] / t.rate_sigma[SETTLED:]) for t in tracks]
        spread.hist(np.concatenate(ratio), bins=np.linspace(-4, 4, 41).tolist())
        along.legend()
    if compass_walk.is_available():
        walk = compass_walk.Walk.read()
        plot = axes("Yaw of a camera carried by a walking person", "frame", "deg")
        plot.plot(walk.true_yaw, label="its own orientation track")
        plot.plot(walk.follow(run), label="compass")
        plot.legend()
    return figures


def _share(rmse: Callable[[Track], float], limit: float) -> Callable[[list[Track]], float]:
    """Measures the share of tracks with a root mean square error up to a limit, %."""
    return lambda runs: 100.0 * float(np.mean([rmse(track) <= limit for track in runs]))


def _worst(error: Callable[[Track], float]) -> Callable[[list[Track]], float]:
    """Measures the largest error of all tracks."""
    return lambda runs: max(map(error, runs))


def _turn_rows(engine: Engine, turns: Sequence[Turn], label: str, limited: bool) -> list[Row]:
    """Rows of full turns; `limited`: whether they have limits."""
    tracks = [follow(engine, turn) for turn in turns]
    exact = [follow(ExactFeatures(), turn) for turn in turns]
    plain, full = ([lucas_kanade_track(turn, side) for turn in turns] for side in (64, FULL_SIZE))
    case = f"{label}, FOV 60-90 deg, 10-90 deg/s, pitch 2 deg/s, noise 2"

    def row(metric: str, measured: Callable[[list[Track]], float], unit: str, **goal: Any) -> Row:
        reach, better = goal.get("reach") if limited else None, goal.get("better", "lower")
        value, baseline, bound, full_size = (measured(each) for each in (tracks, plain, exact, full))
        return Row(
            "compass",
            case,
            metric,
            value,
            unit,
            reach,
            better,
            baseline,
            bound,
            full_size_baseline=full_size,
        )

    per_frame, five = (lambda t: t.rate_rmse), (lambda t: t.mean_rate_rmse)
    rows = [
        row(
            "runs with a yaw rate RMSE of 1 deg/s per frame",
            _share(per_frame, 1.0),
            "%",
            reach=95,
            better="higher",
        ),
        row("runs with 0.5 deg/s over 5 frames", _share(five, 0.5), "%", reach=95, better="higher"),
        row("yaw rate RMSE per frame, worst run", _worst(per_frame), "deg/s"),
        row("yaw rate RMSE over 5 frames, worst run", _worst(five), "deg/s"),
        row("yaw error by keyframes, worst on the way", _worst(lambda t: t.open_error), "deg", reach=2.0),
        row("yaw error, first view recognised, worst", _worst(lambda t: t.end_error), "deg", reach=0.5),
    ]
    return rows + _coverage_rows(tracks, case, limited)


def _coverage_rows(tracks: Sequence[Track], case: str, limited: bool) -> list[Row]:
    rows = []
    for metric, inside in (
        ("yaw rates within one sigma", [within(t.rate - t.true_rate, t.rate_sigma) for t in tracks]),
        ("yaws within one sigma", [within(t.yaw - t.true_yaw, t.yaw_sigma) for t in tracks]),
    ):
        value = 100.0 * float(np.mean(np.concatenate(inside)))
        rows.append(Row("compass", case, f"{metric} (68)", value, "%", 60 if limited else None, "higher"))
        rows.append(
            Row("compass", case, f"{metric} (68), at most", value, "%", 76 if limited else None, "lower")
        )
    return rows


def _disturbed_rows(engine: Engine, names: Sequence[str]) -> list[Row]:
    rows = []
    for case, changes in (
        ("every second frame dropped at random, 30 deg/s", {"kept": 0.5}),
        ("lens distortion k1 -0.25, 30 deg/s", {"distortion": DISTORTION}),
    ):
        turns = [Turn(name, 75.0, -30.0, **changes) for name in names]
        tracks = [follow(engine, turn) for turn in turns]
        exact = [follow(ExactFeatures(), turn) for turn in turns]
        plain = [phase_correlation(turn) for turn in turns]
        for metric, of in (
            ("yaw error by keyframes, worst on the way", lambda t: t.open_error),
            ("yaw rate RMSE per frame, worst run", lambda t: t.rate_rmse),
        ):
            reach = 2.0 if "yaw error" in metric else 1.0
            value, bound, other = (max(map(of, each)) for each in (tracks, exact, plain))
            unit = "deg" if "yaw error" in metric else "deg/s"
            rows.append(Row("compass", case, metric, value, unit, reach, "lower", other, bound))
    return rows


def _wall_rows(engine: Engine, names: Sequence[str]) -> list[Row]:
    """Rows of turns past a wall without any texture."""
    case = f"turns past a blank wall {WALL:.0f} deg wide, FOV 75 deg, 30 and 90 deg/s"
    turns = [Turn(name, 75.0, rate, wall=WALL) for name in names for rate in (30.0, -90.0)]
    tracks = [follow(engine, turn) for turn in turns]
    plain = [phase_correlation(turn) for turn in turns]
    over_sigma = [finite((t.yaw - t.true_yaw) / t.yaw_sigma)[SETTLED:] for t in tracks]
    rows = []
    worst, plain_worst = (
        [max(t.open_error for t in of), max(t.end_error for t in of)] for of in (tracks, plain)
    )
    for metric, value, unit, reach, other in (
        ("yaw error past the wall, worst", worst[0], "deg", None, plain_worst[0]),
        ("yaw error over its sigma, 95 % of frames", _most(np.concatenate(over_sigma)), "", 3.0, None),
        ("yaw error, first view recognised, worst", worst[1], "deg", 0.5, plain_worst[1]),
    ):
        rows.append(Row("compass", case, metric, value, unit, reach, "lower", other))
    return rows


def _repeated_rows(engine: Engine, names: Sequence[str]) -> list[Row]:
    """Rows of turns after a first full turn, which has shown the whole panorama."""
    case = "three more turns after a full one, FOV 75 deg, 60 deg/s"
    turns = [Turn(name, 75.0, 60.0, turns=4) for name in names]
    tracks, plain = [follow(engine, turn) for turn in turns], [phase_correlation(turn) for turn in turns]
    again = slice(round(360.0 / 60.0 * FRAME_RATE), None)
    errors, other = (np.concatenate([(t.yaw - t.true_yaw)[again] for t in of]) for of in (tracks, plain))
    over_sigma = finite(errors / np.concatenate([t.yaw_sigma[again] for t in tracks]))
    inside = 100.0 * float(np.mean(np.abs(over_sigma) <= 1.0))
    return [
        Row("compass", case, "yaw RMSE", rms(finite(errors)), "deg", 0.5, "lower", rms(finite(other))),
        Row(
            "compass",
            case,
            "yaw error over its sigma, 95 % of frames",
            _most(over_sigma),
            "",
            3.0,
            "lower",
        ),
        Row("compass", case, "yaws within one sigma (68)", inside, "%", None, "higher"),
    ]


def _most(errors: Floats) -> float:
    return float(np.percentile(np.abs(errors), 95))


def _gabor_rows(engine: str) -> list[Row]:
    """Other published models, on one turn."""
    turn = Turn(PANORAMAS[0], 75.0, -30.0)
    rows = []
    for name in GABOR:
        path = GOLDEN.find(f"models/{name}.tflite")
        if path is not None and turn.panorama in available():
            track = follow(open_engine(engine, name, path.read_bytes()), turn)
            case = f"model {name}, one turn at 30 deg/s"
            for metric, value, unit in (
                ("yaw rate RMSE per frame", track.rate_rmse, "deg/s"),
                ("yaw error by keyframes, worst on the way", track.open_error, "deg"),
                ("yaw error, first view recognised", track.end_error, "deg"),
            ):
                rows.append(Row("compass", case, metric, value, unit, None, "lower"))
    return rows
