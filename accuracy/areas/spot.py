"""Accuracy of the spot tracker: discs, smooth spots, colours on photographs, and images without a spot."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.conditions import balls, lamps
from accuracy.engines import open_engine
from accuracy.scenes import photographs
from accuracy.scenes import spot_scenes as scenes
from accuracy.scenes.spot_scenes import SIDE, Scene
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception import SpotResult, SpotTracker
from edgetpu_perception.graphs import families as models
from edgetpu_perception.graphs import spot_tracker_evidence as graph
from edgetpu_perception.graphs.color_weights import color_filter
from measured_figures.row import Row
from testdata import GOLDEN

COLORFUL = ("colorwheel", "microaneurysms", "retina")
"""The hardest photographs of skimage.data for colours: a wheel of all colours, and two red pictures."""

SCENES_FOR_SIGMAS = 240
"""Fewest scenes for the share inside one sigma: with 60, that share is uncertain by 4 %."""

HELD_OUT = ("motorcycle_left.png", "motorcycle_right.png")
"""Files of skimage.data. Constants were chosen with a view to all other photographs."""

SPOT_FRAMES = range(115, 250, 30)
"""Numbers of frames of the video that lie between those of photographs.held_out."""

CAMERA_PX = (SIDE - 1) / 2
"""Px of a 64x64 picture per unit of a result's position, which ranges from -1 to 1."""

LARGER_SIZES = (96, 128)
"""Widths and heights of the model's input, px, that are measured in addition to the default."""

SURE = 0.5
"""Confidence from which a result counts as certain."""


class ExactEvidence:
    """The graph of a bright or a coloured spot in float64, without rounding."""

    def __init__(self, color: str | None = None) -> None:
        channels = 1 if color is None else 3
        self._weights = np.ones(1) if color is None else color_filter(color).ravel().astype(np.float64)
        self._cells = cv2.boxFilter(np.ones((SIDE, SIDE)), -1, (3, 3), borderType=cv2.BORDER_CONSTANT)
        self.inputs = (TensorSpec("image", (1, SIDE, SIDE, channels), np.dtype(np.uint8), 1.0, 0),)
        self.outputs = (TensorSpec("evidence", (1, SIDE, SIDE, 1), np.dtype(np.float64), 1.0, 0),)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Evidence of one image."""
        grey = np.maximum(inputs["image"][0] @ self._weights, 0.0)
        block = np.zeros_like(grey)
        block[1:, 1:] = np.minimum(
            np.minimum(grey[1:, 1:], grey[:-1, 1:]), np.minimum(grey[1:, :-1], grey[:-1, :-1])
        )
        limit = cv2.dilate(block, np.ones((4, 4), np.uint8), anchor=(1, 1))
        clean = np.minimum(grey, limit)
        smooth = cv2.boxFilter(clean, -1, (3, 3), borderType=cv2.BORDER_CONSTANT) / self._cells
        return {"evidence": smooth[np.newaxis, :, :, np.newaxis]}


@dataclass(frozen=True)
class Errors:
    """Errors over a set of scenes, in px; NaN for results that are not valid."""

    error: NDArray[np.float64]
    """[n, 2]"""
    sigma: NDArray[np.float64]
    confidence: NDArray[np.float64]
    """[n]"""

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Validity of each scene, bool [n]."""
        return np.isfinite(self.error[:, 0])

    @property
    def rmse(self) -> float:
        """Root mean square of the distance, over the valid results."""
        return float(np.sqrt(np.mean(np.sum(np.square(self.error[self.valid]), axis=1))))

    @property
    def valid_share(self) -> float:
        """Percentage of the scenes whose result is valid."""
        return 100.0 * float(np.mean(self.valid))

    @property
    def coverage(self) -> float:
        """Percentage of errors inside one sigma, over both axes of the valid results."""
        return 100.0 * float(np.mean(np.abs(self.error) <= self.sigma, where=self.valid[:, np.newaxis]))

    def hits(self, distance: float) -> NDArray[np.bool_]:
        """Whether each scene has a valid result within `distance`, px: bool [n]."""
        hits: NDArray[np.bool_] = np.hypot(*self.error.T) <= distance
        return hits

    def and_(self, other: Errors) -> Errors:
        """The errors of this run followed by those of another."""
        return Errors(
            np.concatenate([self.error, other.error]),
            np.concatenate([self.sigma, other.sigma]),
            np.concatenate([self.confidence, other.confidence]),
        )


def measure(engine: str, quick: bool = False) -> list[Row]:
    """Rows of the spot protocol; `engine` is "cpu" or "virtual"."""
    count = 60 if quick else 400
    tracker = _tracker(engine)
    exact = SpotTracker(ExactEvidence())
    for_sigmas = max(count, SCENES_FOR_SIGMAS)
    rows = (
        _plain_rows(tracker, exact, for_sigmas)
        + _odd_rows(tracker, exact, count)
        + _known_rows(engine, count)
    )
    of_each = 2 if quick else 8
    for label, names in (
        ("", photographs.DEVELOPMENT),
        ("more: ", photographs.held_out()),
        ("wheel and retina: ", COLORFUL),
        ("held-out: ", unseen()),
    ):
        if names:
            rows += _photograph_rows(engine, tracker, exact, names, of_each, label)
    open_tracker = functools.partial(_tracker, engine)
    rows += lamps.measure(open_tracker, quick) + balls.measure(open_tracker, quick)
    for size in () if quick else LARGER_SIZES:
        of_size = functools.partial(_tracker, engine, size=size)
        larger = lamps.measure(of_size, quick) + balls.measure(of_size, quick)
        rows += [replace(row, case=f"{row.case}, input of {size} px", reach=None) for row in larger]
    return rows


def unseen() -> tuple[str, ...]:
    """Paths of HELD_OUT and of SPOT_FRAMES; only those that are present."""
    from skimage import data

    files = [Path(data.__file__).parent / name for name in HELD_OUT]
    frames = photographs.video_frames(SPOT_FRAMES)
    return tuple(str(path) for path in files if path.is_file()) + frames


def run(tracker: SpotTracker, drawn: Iterable[Scene]) -> Errors:
    """Find the spot of each scene."""
    errors, sigmas, confidences = [], [], []
    for scene in drawn:
        result = tracker.update(scene.image)
        x, y = in_px(result)
        errors.append((x - scene.x, y - scene.y))
        sigmas.append((result.x_sigma * CAMERA_PX, result.y_sigma * CAMERA_PX))
        confidences.append(result.confidence)
    return Errors(np.array(errors), np.array(sigmas), np.array(confidences))


def in_px(result: SpotResult) -> tuple[float, float]:
    """Position in px of a 64x64 picture."""
    return (result.x + 1) * CAMERA_PX, (result.y + 1) * CAMERA_PX


def _tracker(engine: str, color: str | None = None, size: int = SIDE) -> SpotTracker:
    name = graph.name(color, size, size)
    return SpotTracker(open_engine(engine, name, models.build(name)), color=color)


def _plain_rows(tracker: SpotTracker, exact: SpotTracker, count: int) -> list[Row]:
    cases = (
        ("discs of radius 2-24", scenes.discs(count, 1), 0.08, None),
        ("discs of radius 2-4", scenes.discs(count, 2, 2.0, 4.0), 0.15, None),
        ("discs with soft edges", scenes.covered(count, 15), 0.08, None),
        ("discs that touch the edge", scenes.touching(count, 3), 0.15, 3.0),
        ("smooth spots", scenes.gaussians(count, 4), 0.03, 0.66),
        ("noise 8 at amplitude 160", scenes.noisy(count, 5), 0.08, 0.81),
        ("one hot pixel", scenes.hot(count, 6), 0.1, 32.0),
        ("discs on texture", scenes.textured(count, 7), None, None),
    )
    rows = []
    for name, made, reach, baseline in cases:
        drawn = list(made)
        found, bound = run(tracker, drawn), run(exact, drawn)
        rows.append(_row(name, "rmse", found.rmse, "px", reach, "lower", baseline, bound.rmse))
        rows.append(_row(name, "valid", found.valid_share, "%", None, "higher", None, bound.valid_share))
        rows.append(_coverage_row(name, found, bound))
    return rows


def _odd_rows(tracker: SpotTracker, exact: SpotTracker, count: int) -> list[Row]:
    empty = list(scenes.nothing(count, 8))
    bright = np.array([scene.source == "white" for scene in empty])
    refused, refused_bound = (~run(each, empty).valid for each in (tracker, exact))
    outside = list(scenes.cut(count, 9))
    found, bound = run(tracker, outside), run(exact, outside)
    # Only the axis across the border counts: the cut widens its sigma.
    across = np.arange(len(outside)), np.array([_cut_axis(scene) for scene in outside])
    covered, covered_bound = (
        100.0 * float(np.mean((np.abs(errors.error) <= errors.sigma)[across])) for errors in (found, bound)
    )
    rows = [
        _row(
            name, "not valid", _share(refused[kind]), "%", 100.0, "higher", None, _share(refused_bound[kind])
        )
        for name, kind in (("none", ~bright), ("whole frame bright", bright))
    ]
    steady = _steady(tracker, max(count // 10, 5))
    return [
        *rows,
        _row("half out of the frame", "inside one sigma", covered, "%", 60.0, "higher", None, covered_bound),
        _row("two equal spots", "with the first", steady, "%", 100.0, "higher"),
    ]


def _share(met: NDArray[np.bool_]) -> float:
    """Percentage of the scenes for which a condition holds."""
    return 100.0 * float(np.mean(met))


def _cut_axis(scene: Scene) -> int:
    return 0 if min(scene.x, SIDE - 1 - scene.x) < min(scene.y, SIDE - 1 - scene.y) else 1


def _steady(tracker: SpotTracker, count: int) -> float:
    """Percentage of pictures with two spots in which the earlier one is found to 0.5 px."""
    held: list[bool] = []
    for alone, both in scenes.pairs(count, 10):
        tracker.update(alone.image)
        held += run(tracker, both).hits(0.5).tolist()
    return 100.0 * float(np.mean(held))


def _photograph_rows(
    engine: str, bright: SpotTracker, exact: SpotTracker, names: Sequence[str], count: int, label: str
) -> list[Row]:
    drawn = list(scenes.beacons(names, count, 11))
    found, bound = run(bright, drawn), run(exact, drawn)
    name = label + "white discs on half-contrast grey photographs"
    rows = [_row(name, "rmse", found.rmse, "px", None, "lower", None, bound.rmse)]
    for contrast, name in ((0.5, "colours, half contrast"), (1.0, "colours, full contrast")):
        both: list[tuple[Errors, Errors]] = []
        for preset in scenes.PRESETS:
            drawn = list(scenes.colored(names, preset, contrast, count, 12))
            found = run(_tracker(engine, preset), drawn)
            bound = run(SpotTracker(ExactEvidence(preset), color=preset), drawn)
            rows += _color_rows(f"{label}{name}, {preset}", contrast, found, bound)
            both.append((found, bound))
        total, total_bound = (functools.reduce(Errors.and_, errors) for errors in zip(*both, strict=True))
        rows.append(_coverage_row(label + name, total, total_bound))
    return rows


def _color_rows(name: str, contrast: float, found: Errors, bound: Errors) -> list[Row]:
    if contrast < 1.0:
        return [_row(name, "rmse", found.rmse, "px", 0.1, "lower", 8.0, bound.rmse)]
    hit, hit_bound = _share(found.hits(0.3)), _share(bound.hits(0.3))
    sure, sure_bound = _right_or_unsure(found), _right_or_unsure(bound)
    return [
        _row(name, "within 0.3", hit, "%", 90.0, "higher", None, hit_bound),
        _row(name, "right or unsure", sure, "%", 100.0, "higher", None, sure_bound),
    ]


def _right_or_unsure(errors: Errors) -> float:
    """Percentage of scenes with an error below 0.3 px or a low confidence."""
    return _share(errors.hits(0.3) | (errors.confidence < SURE))


def _known_rows(engine: str, count: int) -> list[Row]:
    """Rows of another published model, which responds only to hot pixels brighter than the spot."""
    path = GOLDEN.find("models/bright_64x64.tflite")
    if path is None:
        return []
    tracker = SpotTracker(open_engine(engine, "bright_64x64", path.read_bytes()))
    discs, hot = run(tracker, scenes.discs(count, 13, 2.0, 10.0)), run(tracker, scenes.hot(count, 14))
    right = 100.0 * float(np.mean(~hot.valid | hot.hits(1.0)))
    return [
        _row("bright_64x64: discs of radius 2-10", "rmse", discs.rmse, "px", None, "lower"),
        _row("bright_64x64: discs of radius 2-10", "valid", discs.valid_share, "%", None, "higher"),
        _row("bright_64x64: one hot pixel", "right or not valid", right, "%", None, "higher"),
    ]


def _coverage_row(name: str, found: Errors, bound: Errors) -> Row:
    """A row whose limit asks for 60 to 76 % of the errors inside one sigma."""
    off, bound_off = abs(found.coverage - 68), abs(bound.coverage - 68)
    return _row(name, "|inside one sigma - 68|", off, "%", 8.0, "lower", None, bound_off)


def _row(
    case: str,
    metric: str,
    value: float,
    unit: str,
    reach: float | None,
    better: Literal["lower", "higher"],
    baseline: float | None = None,
    bound: float | None = None,
) -> Row:
    return Row("spot", case, metric, value, unit, reach, better, baseline, bound)


def plots(engine: str) -> dict[str, Any]:
    """Figures for the report, by title: errors over the radius, sigmas against errors, the worst scene."""
    from matplotlib.figure import Figure

    tracker = _tracker(engine)
    drawn = list(scenes.discs(300, 1))
    disc = run(tracker, drawn)
    smooth = run(tracker, scenes.noisy(300, 5))
    scatter = Figure(figsize=(9, 4), layout="constrained")
    left, right = scatter.subplots(1, 2)
    left.plot([float(scene.source.split()[-1]) for scene in drawn], np.hypot(*disc.error.T), ".")
    left.set(xlabel="radius of a flat disc, px", ylabel="error, px")
    for name, errors in (("discs", disc), ("noise", smooth)):
        right.loglog(errors.sigma.ravel(), np.abs(errors.error).ravel(), ".", label=name)
    line = np.array([np.nanmin(disc.sigma), np.nanmax(disc.sigma)])
    right.plot(line, line, "k", label="one sigma")
    right.set(xlabel="sigma, px", ylabel="|error|, px")
    right.legend()
    return {"Spots": scatter, "Worst of the colours": _worst(engine)}


def _worst(engine: str) -> Any:
    """The scenes of full contrast with the largest errors, one of each preset."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 2.4), layout="constrained")
    for axes, preset in zip(figure.subplots(1, len(scenes.PRESETS)), scenes.PRESETS, strict=True):
        drawn = list(scenes.colored(photographs.DEVELOPMENT, preset, 1.0, 4, 12))
        errors = run(_tracker(engine, preset), drawn)
        distance = np.nan_to_num(np.hypot(*errors.error.T), nan=math.inf)
        k = int(np.argmax(distance))
        axes.imshow(drawn[k].image)
        axes.plot(drawn[k].x, drawn[k].y, "k+")
        if errors.valid[k]:
            axes.plot(drawn[k].x + errors.error[k, 0], drawn[k].y + errors.error[k, 1], "kx")
        told = f"{distance[k]:.2f} px" if errors.valid[k] else "not valid"
        axes.set_title(f"{drawn[k].source}\n{told}", fontsize=7)
        axes.set_axis_off()
    return figure
