"""Accuracy of optical flow: shifts, changes of light, and pairs of frames without a common shift."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.conditions import moving_objects, repeating_textures, small_images
from accuracy.engines import open_engine
from accuracy.exact_features import ExactFeatures
from accuracy.scenes import flow_scenes as scenes
from accuracy.scenes.flow_scenes import POOLED, Pair
from accuracy.scenes.photographs import DEVELOPMENT
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.optical_flow.optical_flow import FlowResult, OpticalFlow
from measured_figures.row import Row
from testdata import GOLDEN

GABOR = ("gabor_64x64_7k_4o_2s", "gabor_64x64_p4")

HIT = 0.25
"""Largest error along each axis that still counts as a hit, in pooled px."""

PAIRS_FOR_SIGMAS = 24
"""Fewest pairs per photograph for the share inside one sigma: with 8, that share is uncertain by 3.5 %."""

LARGER_SIDES = (48, 40, 32)
"""Sides of the small images that models with a larger input are measured on, px."""

CHANGED_LIGHT = scenes.Disturbance(noise=4.0, gain=0.2, offset=20.0)

LITTLE_NOISE = scenes.Disturbance(noise=0.5)
"""Noise that remains in a large image after its reduction to the size of the model's input."""


@dataclass(frozen=True)
class Errors:
    """Errors over a set of pairs, in pooled px; NaN for results that are not valid."""

    true: NDArray[np.float64]
    """[n, 2]"""
    found: NDArray[np.float64]
    sigma: NDArray[np.float64]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Validity of each pair, bool [n]."""
        return np.isfinite(self.found[:, 0])

    @property
    def error(self) -> NDArray[np.float64]:
        """Errors of the valid results: [m, 2]."""
        return (self.found - self.true)[self.valid]

    @property
    def rmse(self) -> float:
        """Root mean square error along an axis, over the valid results."""
        return float(np.sqrt(np.mean(np.square(self.error))))

    @property
    def gain(self) -> float:
        """Slope of measured over true shifts, over the valid results."""
        true = self.true[self.valid]
        return float(np.sum(true * self.found[self.valid]) / np.sum(true * true))

    def within(self, of_valid: bool = False) -> float:
        """Percentage of the pairs, or of the valid ones, whose error is below HIT along both axes."""
        hits = np.count_nonzero(np.abs(self.error).max(axis=1, initial=0.0) < HIT)
        return 100.0 * hits / (np.count_nonzero(self.valid) if of_valid else len(self.true))

    @property
    def valid_share(self) -> float:
        """Percentage of the pairs whose result is valid."""
        return 100.0 * float(np.mean(self.valid))

    @property
    def coverage(self) -> float:
        """Percentage of errors inside one sigma, over both axes of the valid results."""
        return 100.0 * float(np.mean(np.abs(self.error) < self.sigma[self.valid]))


def measure(engine: str, quick: bool = False) -> list[Row]:
    """Rows of the flow protocol; `engine` is "cpu" or "virtual"."""
    count = 8 if quick else 60
    flow = OpticalFlow(open_engine(engine, features.name(), features.build()))
    exact = OpticalFlow(ExactFeatures())
    rows = []
    held_out = () if quick else scenes.held_out()
    for label, names in (("", DEVELOPMENT), ("more: ", scenes.MORE), ("held-out: ", held_out)):
        if names:
            rows += _shift_rows(flow, exact, names, count, label)
            rows += _rejection_rows(flow, exact, names, count, label)
    rows += moving_objects.measure(flow, quick) + repeating_textures.measure(flow, quick)
    rows += small_images.measure(flow, quick)
    return rows + ([] if quick else _size_rows(engine)) + _gabor_rows(engine, max(count // 3, 4))


def run(flow: OpticalFlow, pairs: Iterable[Pair]) -> Errors:
    """Measure each pair, after a reset of the algorithm."""
    true, found, sigma = [], [], []
    for pair in pairs:
        result = _result(flow, pair)
        true.append((pair.dx, pair.dy))
        found.append((result.dx, result.dy))
        sigma.append((result.dx_sigma, result.dy_sigma))
    return Errors(np.array(true) / POOLED, np.array(found) / POOLED, np.array(sigma) / POOLED)


def phase_correlation(pairs: Iterable[Pair]) -> Errors:
    """OpenCV's phase correlation of the raw frames; all of its results count as valid."""
    true, found = [], []
    for pair in pairs:
        shift, _ = cv2.phaseCorrelate(pair.first.astype(np.float32), pair.second.astype(np.float32))
        true.append((pair.dx, pair.dy))
        found.append(shift)
    return Errors(np.array(true) / POOLED, np.array(found) / POOLED, np.full((len(true), 2), math.nan))


def _result(flow: OpticalFlow, pair: Pair) -> FlowResult:
    flow.reset()
    flow.update(pair.first, 0.0)
    return flow.update(pair.second, 1.0)


def _shift_rows(
    flow: OpticalFlow, exact: OpticalFlow, names: Sequence[str], count: int, label: str
) -> list[Row]:
    def case(name: str, *details: Any) -> tuple[str, Errors, Errors, Errors]:
        pairs = list(scenes.shifted(names, *details))
        return label + name, run(flow, pairs), run(exact, pairs), phase_correlation(pairs)

    rows, for_sigmas = [], max(count, PAIRS_FOR_SIGMAS)
    name, whole, bound, plain = case("whole shifts to 4", scenes.whole, count, 1)
    rows.append(_rmse(name, whole, bound, 0.02, 1.63))
    rows.append(_within(name, whole, bound, 99.5, 64.0))
    rows.append(_lower(name, "|gain - 1|", abs(whole.gain - 1), abs(bound.gain - 1), "", 0.01, 0.36))
    name, any_shift, bound, plain = case("any shift to 4", scenes.any_shift, for_sigmas, 2)
    rows.append(_rmse(name, any_shift, bound, 0.03, plain.rmse))
    rows.append(_higher(name, "valid", any_shift.valid_share, bound.valid_share, 92.0))
    rows.append(_within(name, any_shift, bound, 98.5, plain.within()))
    rows.append(_coverage(name, any_shift, bound))
    name, small, bound, plain = case("shifts to 1.5", scenes.small, count, 3)
    rows.append(_rmse(name, small, bound, 0.03, plain.rmse))
    name, slow, bound, plain = case("a camera at rest", scenes.slow, for_sigmas, 10, LITTLE_NOISE)
    rows.append(_rmse(name, slow, bound, None, plain.rmse))
    rows.append(_coverage(name, slow, bound))
    name, light, bound, plain = case(
        "gain 20 %, offset 20, noise 4", scenes.any_shift, for_sigmas, 4, CHANGED_LIGHT
    )
    rows.append(_within(name, light, bound, 98.5, plain.within()))
    of_valid = light.within(of_valid=True)
    rows.append(_higher(name, "valid within 0.25", of_valid, bound.within(of_valid=True), 99.8))
    rows.append(_rmse(name, light, bound, None, plain.rmse))
    rows.append(_coverage(name, light, bound))
    return rows


def _rejection_rows(
    flow: OpticalFlow, exact: OpticalFlow, names: Sequence[str], count: int, label: str
) -> list[Row]:
    cases = {
        "shift beyond the range": scenes.shifted(names, scenes.beyond, count, 5),
        "two photographs": scenes.unrelated(names, count, 6),
        "two places of a photograph": scenes.elsewhere(names, count, 7),
    }
    if not label:
        cases["no texture"] = scenes.textureless(len(names) * count, 8)
    rows = []
    for name, drawn in cases.items():
        pairs = list(drawn)
        refused, bound = (100.0 - run(each, pairs).valid_share for each in (flow, exact))
        rows.append(_higher(label + name, "not valid", refused, bound, 99.5))
    return rows


def _size_rows(engine: str) -> list[Row]:
    """Rows of the moving objects and of small images, for models with larger inputs."""
    rows = []
    for size in (96, 128):
        label = f", input of {size} px"
        graph = features.name(size, size), features.build(size, size)
        flow = OpticalFlow(open_engine(engine, *graph))
        rows += moving_objects.measure(flow, False, label)
        rows += small_images.measure(flow, False, LARGER_SIDES, label)
    return rows


def _gabor_rows(engine: str, count: int) -> list[Row]:
    """Other published models; their figures are for information."""
    rows = []
    for model in GABOR:
        path = GOLDEN.find(f"models/{model}.tflite")
        if path is None:
            continue
        flow = OpticalFlow(open_engine(engine, model, path.read_bytes()))
        for name, draw, known in (
            ("whole shifts to 4", scenes.whole, 1.63),
            ("any shift to 4", scenes.any_shift, 2.4),
            ("shifts to 1.5", scenes.small, 0.86),
        ):
            errors = run(flow, scenes.shifted(DEVELOPMENT, draw, count, 9))
            rows.append(_rmse(f"{model}: {name}", errors, None, None, known))
            rows.append(_higher(f"{model}: {name}", "valid", errors.valid_share, None, None))
    return rows


def _rmse(
    case: str, errors: Errors, bound: Errors | None, reach: float | None, baseline: float | None
) -> Row:
    limit = bound.rmse if bound else None
    return Row("flow", case, "rmse of valid", errors.rmse, "pooled px", reach, "lower", baseline, limit)


def _within(case: str, errors: Errors, bound: Errors, reach: float, baseline: float | None) -> Row:
    return _higher(case, "within 0.25", errors.within(), bound.within(), reach, baseline)


def _coverage(case: str, errors: Errors, bound: Errors) -> Row:
    off, bound_off = abs(errors.coverage - 68), abs(bound.coverage - 68)
    return _lower(case, "|inside one sigma - 68|", off, bound_off, "%", 8.0, None)


def _lower(
    case: str, metric: str, value: float, bound: float, unit: str, reach: float, baseline: float | None
) -> Row:
    return Row("flow", case, metric, value, unit, reach, "lower", baseline, bound)


def _higher(
    case: str,
    metric: str,
    value: float,
    bound: float | None,
    reach: float | None,
    baseline: float | None = None,
) -> Row:
    return Row("flow", case, metric, value, "%", reach, "higher", baseline, bound)


def plots(engine: str) -> dict[str, Any]:
    """Figures for the report, by title: errors over the shift, sigmas against errors, the worst pair."""
    from matplotlib.figure import Figure

    flow = OpticalFlow(open_engine(engine, features.name(), features.build()))
    pairs = list(scenes.shifted(DEVELOPMENT, scenes.any_shift, 30, 2, CHANGED_LIGHT))
    errors = run(flow, pairs)
    error = errors.found - errors.true
    scatter = Figure(figsize=(9, 4), layout="constrained")
    left, right = scatter.subplots(1, 2)
    for axis, label in ((0, "dx"), (1, "dy")):
        left.plot(errors.true[:, axis], error[:, axis], ".", label=label)
        right.loglog(errors.sigma[:, axis], np.abs(error[:, axis]), ".", label=label)
    left.set(xlabel="true shift, pooled px", ylabel="error, pooled px")
    line = np.array([np.nanmin(errors.sigma), np.nanmax(errors.sigma)])
    right.plot(line, line, "k", label="one sigma")
    right.set(xlabel="sigma, pooled px", ylabel="|error|, pooled px")
    left.legend()
    right.legend()
    return {"Flow with changed light": scatter, "Worst flow": _worst(flow, pairs, error)}


def _worst(flow: OpticalFlow, pairs: Sequence[Pair], error: NDArray[np.float64]) -> Any:
    from matplotlib.figure import Figure

    pair = pairs[int(np.nanargmax(np.abs(error).max(axis=1)))]
    result = _result(flow, pair)
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    first, second, surface = figure.subplots(1, 3)
    first.imshow(pair.first, cmap="gray", vmin=0, vmax=255)
    first.set_title(f"{pair.source}, true {pair.dx:.2f}, {pair.dy:.2f} px")
    second.imshow(pair.second, cmap="gray", vmin=0, vmax=255)
    second.set_title(f"found {result.dx:.2f}, {result.dy:.2f} px")
    if flow.surface is not None:
        half_y, half_x = (side // 2 for side in flow.surface.evidence.shape)
        surface.imshow(
            flow.surface.evidence, extent=(-half_x - 0.5, half_x + 0.5, half_y + 0.5, -half_y - 0.5)
        )
    surface.set_title("evidence of each shift")
    return figure
