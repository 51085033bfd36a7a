"""Errors due to 8 bits, and times, of the reservoir, place recognition and the spectrum.

All run on the suite's own Dense graph in LiteRT, which gives the same integers as the chip. Baseline: the
same computation in floating point with NumPy, or with 8-bit numbers at the best static scales.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.ideal_8_bits import ideally_rounded
from bench.timing import compare
from edgetpu_driver import CpuEngine
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_matrix import EchoStateNetwork, EngineMatrix, PlaceRecognition, RidgeReadout, SpectrumTransform
from edgetpu_matrix.reservoir.benchmark_series import mackey_glass, narma10
from edgetpu_matrix.reservoir.host_subspace import DIRECTIONS, HostSubspace
from edgetpu_matrix.spectrum.fourier_transform import HEADROOM
from measured_figures.row import Row

_SIZE = 256
_PLACES, _QUERIES, _FOUND = 4096, 200, 5
_BLOCKS = 300
_GAUSSIAN_WITHIN_SIGMA = 68.27  # %

Array = NDArray[np.float64]


def rows() -> Iterator[Row]:
    """Measure all three algorithms."""
    yield from _reservoir()
    yield from _places()
    yield from _spectrum()


def _reservoir() -> Iterator[Row]:
    """Mean error over several series of each task, with that of float64 as the bound."""
    narma = [narma10(3000, seed) for seed in range(4)]
    as_defined = [((inputs + 1) / 4, targets) for inputs, targets in narma]
    mackey = [mackey_glass(3000, 17, start) for start in (1.2, 0.9, 0.6)]
    tasks: tuple[tuple[str, list[tuple[Array, Array]], float, dict[str, Any]], ...] = (
        ("NARMA-10", narma, 1.05, {"spectral_radius": 0.9}),
        ("NARMA-10, inputs of 0 to 0.5", as_defined, 1.05, {"spectral_radius": 0.9}),
        ("Mackey-Glass 17 ahead", mackey, 1.1, {"spectral_radius": 0.95, "leak": 0.5}),
    )
    for case, series, factor, arguments in tasks:
        network = EchoStateNetwork(_SIZE, **arguments)
        exact = _mean_error(network, network.matrix.__matmul__, series)
        for rescale_rows, directions in ((False, DIRECTIONS), (True, DIRECTIONS), (False, 0), (True, 0)):
            matrix = EngineMatrix(
                [CpuEngine(dense.build(_SIZE))],
                rescale_rows=rescale_rows,
                host_directions=directions,
            )
            matrix.set(network.matrix)
            network.bind(matrix.effective)
            error = _mean_error(network, functools.partial(_outputs, matrix), series)
            name = f"{case}{', rescaled rows' if rescale_rows else ''}"
            name += "" if directions else ", all on the stick"
            reach = factor * exact if directions else None
            yield Row("reservoir", name, "nrmse", error, "", reach, "lower", exact, bound=exact)
        alone = _mean_error(network, _HostPart(network.matrix), series)
        name = f"{case}, the host's part alone"
        yield Row("reservoir", name, "nrmse", alone, "", None, "lower", exact, bound=exact)

    def step() -> None:
        network.advance(_outputs(matrix, network.state), [0.1])

    def plain_step() -> None:
        np.tanh(network.matrix @ network.state)

    yield compare(step, plain_step).row("reservoir", "a step of 256 neurons", "NumPy float64", None)


class _HostPart:
    """The products if the stick returned only zeros."""

    def __init__(self, matrix: Array) -> None:
        self._host_subspace = HostSubspace(matrix)

    def __call__(self, vector: Array) -> Array:
        return self._host_subspace.split(vector).product


def _outputs(matrix: EngineMatrix, vector: Array) -> Array:
    return matrix.multiply(vector).outputs


def _mean_error(
    network: EchoStateNetwork, multiply: Callable[[Array], Array], series: list[tuple[Array, Array]]
) -> float:
    return float(np.mean([_error(network, multiply, *each) for each in series]))


def _error(
    network: EchoStateNetwork, multiply: Callable[[Array], Array], inputs: Array, targets: Array
) -> float:
    """Error on the last third, relative to the standard deviation of the targets there."""
    network.reset()
    trained = len(inputs) * 2 // 3
    readout = RidgeReadout(1 + 1 + network.size, 1)
    predicted = []
    for t, sample in enumerate(inputs):
        network.advance(multiply(network.state), [sample])
        features = network.features([sample])
        if 200 <= t < trained:
            readout.add(features, [targets[t]])
        elif t >= trained:
            predicted.append(features)
    readout.solve(1e-7)
    errors = np.array([readout.predict(each)[0] for each in predicted]) - targets[trained:]
    return float(np.sqrt(np.mean(errors**2)) / targets[trained:].std())


def _places() -> Iterator[Row]:
    """Measure random embeddings; the baseline is an exact search with embeddings and queries in 8 bits."""
    random = np.random.default_rng(1)
    engines = [CpuEngine(dense.build(_SIZE)) for _ in range(_PLACES // _SIZE)]
    places = PlaceRecognition(engines)
    embeddings = random.normal(size=(_PLACES, _SIZE))
    for number, embedding in enumerate(embeddings):
        places.database.add(str(number), embedding)
    exact, rounded = _normalised(embeddings), _normalised(ideally_rounded(embeddings))
    wrong, worst = np.zeros(2), np.zeros(2)
    for query in random.normal(size=(_QUERIES, _SIZE)):
        cosines = exact @ _normalised(query)
        best = _best(cosines)
        found = places.find(query, _FOUND)
        plain = rounded @ _normalised(ideally_rounded(query))
        plain_best = _best(plain)
        wrong += [int(place.label) for place in found] != best.tolist(), plain_best.tolist() != best.tolist()
        scores = np.array([place.score for place in found])
        errors = np.abs(scores - cosines[best]), np.abs(plain[plain_best] - cosines[plain_best])
        worst = np.maximum(worst, [each.max() for each in errors])
    case = f"{_PLACES} places of {_SIZE} values"
    share = wrong / _QUERIES
    yield Row("places", case, "other than exact search", share[0], "", 0.0, "lower", share[1])
    yield Row("places", case, "worst error of a score", worst[0], "", 1e-5, "lower", worst[1])
    query = embeddings[7]

    def plain_search() -> object:
        return _best(exact @ _normalised(query))

    comparison = compare(lambda: places.find(query, _FOUND), plain_search)
    yield comparison.row("places", f"a search in {case}", "NumPy float64", None)


def _normalised(vectors: Array) -> Array:
    """Normalise vectors, or the rows of a matrix, to length 1."""
    normalised: Array = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return normalised


def _best(scores: Array) -> NDArray[np.intp]:
    """Indices of the largest scores, in descending order."""
    return np.argsort(-scores)[:_FOUND]


def _spectrum() -> Iterator[Row]:
    """Measure errors over all bins above 0 Hz of many blocks with a Hann window."""
    for rescale_rows, passes, reaches in (
        (False, 1, {"lines between bins": 35.0, "white noise": 29.0}),
        (True, 1, {"lines between bins": 40.0, "white noise": 29.0}),
        (True, 4, {"lines between bins": 43.0, "white noise": 33.0}),
    ):
        transform = SpectrumTransform(_SIZE)
        matrix = EngineMatrix([CpuEngine(dense.build(_SIZE))], headroom=HEADROOM, rescale_rows=rescale_rows)
        matrix.set(transform.matrix())
        for name, reach in reaches.items():
            case = f"{name}{', rescaled rows' if rescale_rows else ''}{', 4 passes' if passes > 1 else ''}"
            measured = _spectra(transform, matrix, passes, name)
            errors, exact = measured.errors, measured.exact
            baseline = _snr(measured.ideal_errors, exact)
            yield Row(
                "spectrum", case, "SNR to FFT, all bins", _snr(errors, exact), "dB", reach, "higher", baseline
            )
            worst, baseline = _worst_bin(errors, exact), _worst_bin(measured.ideal_errors, exact)
            yield Row(
                "spectrum", case, "worst bin below the strongest", worst, "dB", None, "higher", baseline
            )
            strongest = exact.argmax(axis=1)[:, np.newaxis]
            within = np.abs(np.take_along_axis(errors, strongest, 1)[:, 0]) <= measured.sigmas
            yield Row(
                "spectrum",
                case,
                "strongest within sigma",
                100 * within.mean(),
                "%",
                58.0,
                "higher",
                _GAUSSIAN_WITHIN_SIGMA,
            )


def _snr(errors: Array, exact: Array) -> float:
    return float(10 * np.log10((exact**2).sum() / (errors**2).sum()))


def _worst_bin(errors: Array, exact: Array) -> float:
    """Ratio of a block's strongest bin to its largest error, dB; for the worst block."""
    return float(20 * np.log10((exact.max(axis=1) / np.abs(errors).max(axis=1)).min()))


class _Spectra(NamedTuple):
    """Amplitudes of many blocks above 0 Hz: arrays [blocks, bins]."""

    exact: Array
    errors: Array
    ideal_errors: Array
    """Errors of a transform whose matrix, inputs and outputs have 8 bits at the best static scales."""
    sigmas: Array
    """Standard deviations that the transform reports, [blocks]."""


def _spectra(transform: SpectrumTransform, matrix: EngineMatrix, passes: int, name: str) -> _Spectra:
    random, time = np.random.default_rng(2), np.arange(_SIZE)
    blocks, exact, measured, sigmas = [], [], [], []
    for _ in range(_BLOCKS):
        phase, frequency = random.uniform(0, 2 * np.pi), random.uniform(2, _SIZE / 2 - 2)
        line = np.sin(2 * np.pi * frequency / _SIZE * time + phase)
        samples = random.normal(size=_SIZE) if name == "white noise" else line
        prepared = transform.preprocess(samples)
        spectrum = transform.postprocess(samples, 1.0, matrix.multiply(prepared, passes))
        blocks.append(prepared)
        exact.append(_amplitudes(np.fft.rfft(prepared))[1:])
        measured.append(spectrum.amplitudes[1:])
        sigmas.append(spectrum.sigma)
    inputs = ideally_rounded(np.array(blocks))
    angles = 2 * np.pi / _SIZE * np.outer(np.arange(_SIZE // 2 + 1), time)
    real, imaginary = (
        ideally_rounded(inputs @ ideally_rounded(part).T) for part in (np.cos(angles), np.sin(angles))
    )
    ideal = _amplitudes(real - 1j * imaginary)[:, 1:]
    exact_array = np.array(exact)
    return _Spectra(exact_array, np.array(measured) - exact_array, ideal - exact_array, np.array(sigmas))


def _amplitudes(spectrum: NDArray[np.complex128]) -> Array:
    """Amplitudes of the lines of a spectrum that was taken with a Hann window, [.., bins]."""
    amplitudes = np.abs(spectrum) * 2 / (_SIZE / 2)
    amplitudes[..., -1] /= 2
    return amplitudes
