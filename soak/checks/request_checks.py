"""The expected answers to requests of a foreign client, by the version of the model's weights.

A client always sets the weights `weights_of(version)` as that version. So a result can be judged by the
version it names, without any state of the client.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.weights.weight_request import WeightRequest
from soak.outcome_journal import Judgement, Outcome

Arrays = Mapping[str, NDArray[np.generic]]


class Refusal(Enum):
    """Error codes that do not blame the request; the numbers are those of ErrorCode."""

    UNKNOWN_MODEL = 1
    UNAVAILABLE = 5
    DEVICE = 6
    EXPIRED = 7
    BUSY = 8


_OUTCOMES = {
    Refusal.UNKNOWN_MODEL: Outcome.UNKNOWN_MODEL,
    Refusal.UNAVAILABLE: Outcome.UNAVAILABLE,
    Refusal.DEVICE: Outcome.UNAVAILABLE,
    Refusal.BUSY: Outcome.BUSY,
}


def judge_refusal(code: int, message: str, *, has_deadline: bool) -> Judgement:
    """The outcome of a request without success; wrong if a correct request was blamed."""
    try:
        refusal = Refusal(code)
    except ValueError:
        return Outcome.WRONG, f"error {code}: {message}"
    if refusal is Refusal.EXPIRED:
        return (Outcome.EXPIRED, "") if has_deadline else (Outcome.WRONG, f"without a deadline: {message}")
    return _OUTCOMES[refusal], message


class ExpectedResults:
    """The exact results of a model by the version of its weights, from engines of this process."""

    _KEPT = 4

    def __init__(self, graph: bytes, weights_of: Callable[[int], NDArray[np.float32]]) -> None:
        """weights_of: gives the weights of a version from 1; version 0 has the weights of the file."""
        self._graph, self._weights_of = graph, weights_of
        self._engines: OrderedDict[int, CpuEngine] = OrderedDict()

    def run(self, version: int, inputs: Arrays) -> Arrays:
        """Every output for these inputs."""
        return self._engine(version).run(inputs)

    def judge(self, version: int, possible: range, inputs: Arrays, outputs: Arrays) -> Judgement:
        """Compare all outputs of a result. possible: see `judge_version_in_use`."""
        judgement = judge_version_in_use(version, possible)
        if judgement[0] is Outcome.WRONG:
            return judgement
        return compare(outputs, self.run(version, inputs), f"version {version}")

    def _engine(self, version: int) -> CpuEngine:
        engine = self._engines.pop(version, None)
        if engine is None:
            engine = CpuEngine(self._graph)
            if version:
                engine.set_weights(WeightRequest(self._weights_of(version), accept_clipping=True))
        self._engines[version] = engine
        if len(self._engines) > self._KEPT:
            self._engines.popitem(last=False)
        return engine


def compare(outputs: Arrays, expected: Arrays, what: str) -> Judgement:
    """Right if names, dtypes, shapes and all values are the same."""
    if outputs.keys() != expected.keys():
        return Outcome.WRONG, f"{what}: outputs {sorted(outputs)}, expected {sorted(expected)}"
    for name, true in expected.items():
        found = outputs[name]
        if (found.dtype, found.shape) != (true.dtype, true.shape):
            return (
                Outcome.WRONG,
                f"{what}: {name} {found.dtype}{found.shape}, expected {true.dtype}{true.shape}",
            )
        different = int(np.count_nonzero(found != true))
        if different:
            return Outcome.WRONG, f"{what}: {different} of {true.size} values of {name} differ"
    return Outcome.RIGHT, ""


def judge_version_in_use(version: int, possible: range) -> Judgement:
    """Check the version that a result names.

    possible: versions from the last one that was acknowledged when the request was sent, to the last one that
    was requested.
    """
    if version not in possible:
        return (
            Outcome.WRONG,
            f"weights of version {version}, expected {possible.start} to {possible.stop - 1}",
        )
    return Outcome.RIGHT, ""


def judge_version(version: int, expected: int) -> Judgement:
    """Check that a replacement of weights got the next version number."""
    if version != expected:
        return Outcome.WRONG, f"the weights got version {version}, expected {expected}"
    return Outcome.RIGHT, ""


@dataclass(frozen=True)
class DenseScales:
    """Sizes of the quantisation steps of a Dense model in real units, from ~/load_model and the file."""

    inputs: float
    outputs: float
    weights: float
    """The smallest scale of the rows of weights."""


def product_bound(
    matrix: NDArray[np.floating],
    vectors: NDArray[np.floating],
    input_scale: float,
    scales: DenseScales,
    tiles: int,
) -> NDArray[np.float64]:
    """The largest error of a product [B, M] of `matrix` [M, K] and `vectors` [B, K] without clipping.

    Inputs, weights and the outputs of each of the `tiles` along K are rounded by at most a step. Weights may
    have been scaled by a gain of at least 1/2, which doubles the steps of weights and outputs.
    """
    weight_step = 2 * scales.weights * (1 + 1 / 64)
    output_step = 2 * scales.outputs * input_scale / scales.inputs
    sizes = np.abs(np.asarray(matrix, np.float64))
    lengths = np.abs(np.asarray(vectors, np.float64))
    of_inputs = input_scale / 2 * sizes.sum(axis=1)[np.newaxis, :]
    of_weights = weight_step / 2 * lengths.sum(axis=1)[:, np.newaxis]
    of_both = matrix.shape[1] * input_scale / 2 * weight_step / 2
    return np.asarray(of_inputs + of_weights + of_both + tiles * output_step, np.float64)


def judge_product(
    outputs: NDArray[np.floating],
    matrix: NDArray[np.floating],
    vectors: NDArray[np.floating],
    bound: NDArray[np.floating],
) -> Judgement:
    """Compare a product with the product in float64: each error within its bound, and a small total error."""
    true = np.asarray(vectors, np.float64) @ np.asarray(matrix, np.float64).T
    if outputs.size != true.size:
        return Outcome.WRONG, f"{outputs.size} outputs, expected {true.size}"
    error = np.abs(outputs.reshape(true.shape) - true)
    beyond = int(np.count_nonzero(~(error <= bound)))
    if beyond:
        return (
            Outcome.WRONG,
            f"{beyond} of {true.size} outputs beyond their bound, by up to {error.max():.3g}",
        )
    relative = float(np.sqrt(np.mean(error**2) / np.mean(true**2)))
    if relative > LARGEST_PRODUCT_ERROR:
        return Outcome.WRONG, f"root mean square error {100 * relative:.1f} % of the product"
    return Outcome.RIGHT, ""


LARGEST_PRODUCT_ERROR = 0.05
"""Largest root mean square error of a product, relative to the root mean square of the product. With random
matrices, rounding to 8 bits causes 0.01 to 0.02; the product of another matrix is off by more than 1."""
