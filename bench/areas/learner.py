"""The host's cost of learning: a new class, from its embeddings to a layer that is set on a Dense model.

Baseline: the same regression by SciPy's L-BFGS over all weights, as a user would write it, on the same
examples, without a device.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from bench.timing import compare
from edgetpu_driver import CpuEngine, EdgeTpu, VirtualEdgeTpu, dense_model
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_vision import Learner
from edgetpu_vision.learning.layer_training import PENALTY, regress
from edgetpu_vision.learning.taught_examples import ExampleSet
from measured_figures.row import Row
from testdata.graphs.color_embedding_graph import color_embedding_graph

AREA = "learner"

_THREADS = "OPENBLAS_NUM_THREADS"
_CLASSES, _EXAMPLES = 6, 10
_VALUES = 1001
_USABLE_SECONDS = 0.2
"""Limit of the time from showing a class until it can be used, s."""


def rows() -> Iterator[Row]:
    """Measure in a process where NumPy has one thread, as it has in the nodes."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            yield from pool.submit(_measure).result()
    finally:
        os.environ.pop(_THREADS)
        if before is not None:
            os.environ[_THREADS] = before


def _measure() -> list[Row]:
    """Measure on embeddings like those of MobileNet: positive, and similar to each other."""
    measured: list[Row] = []
    rng = np.random.default_rng(0)
    common, own = rng.exponential(size=_VALUES), rng.exponential(size=(_CLASSES, _VALUES))
    shown = common + own[:, None] + rng.exponential(0.7, (_CLASSES, _EXAMPLES, _VALUES))
    with EdgeTpu.open(VirtualEdgeTpu()) as tpu:
        head = StickEngine(tpu, dense_model(1024), SidecarFiles())
        learner = Learner(CpuEngine(color_embedding_graph()), head=head)
        for number, views in enumerate(shown):
            learner.examples.add(f"class {number}", list(views))
        examples = learner.examples.at_present()
        difference = float(np.abs(regress(examples).weights - _plain(examples)).max())
        if difference > 1e-3:
            raise ValueError(f"expected the weights of SciPy; they differ by {difference:.2g}")
        case = f"{_CLASSES} classes of {_EXAMPLES} views, {_VALUES} values"
        learned = compare(learner.train, lambda: _plain(examples))
        measured.append(
            learned.row(AREA, f"{case}, learned and set on the stick", "scipy.optimize L-BFGS", 1.0)
        )
        plain = learned.baseline_us / 1e6
        metric = "processor time until usable"
        measured.append(Row(AREA, case, metric, learned.ratio * plain, "s", _USABLE_SECONDS, "lower", plain))
    return measured


def _plain(examples: ExampleSet) -> NDArray[np.float64]:
    """The weights, [classes, values], of a regression in which all classes have the same weight."""
    count, width = len(examples.labels), examples.vectors.shape[1]
    wanted = np.eye(count)[examples.numbers]
    shares = (1 / (count * examples.counts[examples.numbers]))[:, np.newaxis]

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights, bias = values[:-count].reshape(count, width), values[-count:]
        logarithms = log_softmax(examples.vectors @ weights.T + bias, axis=1)
        errors = shares * (np.exp(logarithms) - wanted)
        total = -(shares * wanted * logarithms).sum() + PENALTY / 2 * (weights**2).sum()
        return total, np.concatenate(
            ((errors.T @ examples.vectors + PENALTY * weights).ravel(), errors.sum(axis=0))
        )

    found = minimize(loss, np.zeros(count * (width + 1)), jac=True, method="L-BFGS-B", options={"gtol": 1e-6})
    return np.asarray(found.x[:-count].reshape(count, width))
