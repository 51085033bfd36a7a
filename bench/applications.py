"""What eight bits cost the reservoir, the search for places and the spectrum, and how long they take.

All run on the suite's own Dense graph by LiteRT, whose integers are those of the chip.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.timing import milliseconds
from edgetpu_driver import CpuEngine
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_matrix import EchoStateNetwork, EngineMatrix, PlaceRecognition, RidgeReadout, SpectrumTransform
from edgetpu_matrix.reservoir.benchmark_series import mackey_glass, narma10
from edgetpu_matrix.reservoir.echo_state_network import HEADROOM
from edgetpu_matrix.reservoir.host_subspace import DIRECTIONS, HostSubspace
from measured_figures.row import Row

_SIZE = 256
_PLACES, _QUERIES = 4096, 200
_BLOCKS = 300
_KNOWN_LIBRARY_OFF = 0.18  # what its documentation says of its scores

Array = NDArray[np.float64]


def rows() -> Iterator[Row]:
    """Measure the three."""
    yield from _reservoir()
    yield from _places()
    yield from _spectrum()


def _reservoir() -> Iterator[Row]:
    """The mean over several series of each task; that of float64 as the bound."""
    narma = [narma10(3000, seed) for seed in range(4)]
    as_defined = [((inputs + 1) / 4, targets) for inputs, targets in narma]
    mackey = [mackey_glass(3000, 17, start) for start in (1.2, 0.9, 0.6)]
    tasks: tuple[tuple[str, list[tuple[Array, Array]], float, dict[str, Any]], ...] = (
        ("NARMA-10", narma, 1.05, {"spectral_radius": 0.9}),
        ("NARMA-10, inputs of 0 to 0.5", as_defined, 1.05, {"spectral_radius": 0.9}),
        ("Mackey-Glass 17 ahead", mackey, 1.1, {"spectral_radius": 0.95, "leak": 0.5}),
    )
    for case, series, reach, arguments in tasks:
        network = EchoStateNetwork(_SIZE, **arguments)
        exact = _mean_error(network, network.matrix.__matmul__, series)
        for rescale_rows, directions in ((False, DIRECTIONS), (True, DIRECTIONS), (False, 0), (True, 0)):
            matrix = EngineMatrix(
                [CpuEngine(dense.build(_SIZE))],
                headroom=HEADROOM,
                rescale_rows=rescale_rows,
                host_directions=directions,
            )
            matrix.set(network.matrix)
            network.bind(matrix.effective)
            error = _mean_error(network, functools.partial(_outputs, matrix), series)
            name = f"{case}{', rescaled rows' if rescale_rows else ''}"
            name += "" if directions else ", all on the stick"
            asked = reach * exact if directions else None
            yield Row("reservoir", name, "nrmse", error, "", asked, "lower", bound=exact)
        alone = _mean_error(network, _HostPart(network.matrix), series)
        yield Row(
            "reservoir", f"{case}, the host's part alone", "nrmse", alone, "", None, "lower", bound=exact
        )
    step = milliseconds(lambda: network.advance(_outputs(matrix, network.state), [0.1]))[0]
    yield Row("reservoir", "256 neurons", "time of a step", step, "ms", None, "lower")


class _HostPart:
    """What would come of the products if the stick gave nothing but zeros."""

    def __init__(self, matrix: Array) -> None:
        self._common = HostSubspace(matrix)

    def __call__(self, vector: Array) -> Array:
        return self._common.split(vector).product


def _outputs(matrix: EngineMatrix, vector: Array) -> Array:
    return matrix.multiply(vector).outputs


def _mean_error(
    network: EchoStateNetwork, multiply: Callable[[Array], Array], series: list[tuple[Array, Array]]
) -> float:
    return float(np.mean([_error(network, multiply, *each) for each in series]))


def _error(
    network: EchoStateNetwork, multiply: Callable[[Array], Array], inputs: Array, targets: Array
) -> float:
    """Error on the last third / standard deviation of the targets there."""
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
    random = np.random.default_rng(1)
    engines = [CpuEngine(dense.build(_SIZE)) for _ in range(_PLACES // _SIZE)]
    places = PlaceRecognition(engines)
    embeddings = random.normal(size=(_PLACES, _SIZE))
    for number, embedding in enumerate(embeddings):
        places.database.add(str(number), embedding)
    exact = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    wrong, off = 0, 0.0
    for query in random.normal(size=(_QUERIES, _SIZE)):
        cosines = exact @ (query / np.linalg.norm(query))
        best = np.argsort(-cosines)[:5]
        found = places.find(query, 5)
        wrong += [int(place.label) for place in found] != best.tolist()
        off = max(off, float(np.abs([place.score for place in found] - cosines[best]).max()))
    case = f"{_PLACES} places of {_SIZE} values"
    yield Row("places", case, "other than exact search", wrong / _QUERIES, "", 0.0, "lower")
    yield Row("places", case, "worst error of a score", off, "", 1e-5, "lower", _KNOWN_LIBRARY_OFF)
    time = milliseconds(lambda: places.find(embeddings[7], 5))[0]
    yield Row("places", case, "time of a search", time, "ms", None, "lower")


def _spectrum() -> Iterator[Row]:
    """Over all bins above 0 Hz of many blocks, with the Hann window."""
    for rescale_rows, passes, reaches in (
        (False, 1, {"lines between bins": 35.0, "white noise": 29.0}),
        (True, 1, {"lines between bins": 40.0, "white noise": 29.0}),
        (True, 4, {"lines between bins": 43.0, "white noise": 33.0}),
    ):
        transform = SpectrumTransform(_SIZE)
        matrix = EngineMatrix([CpuEngine(dense.build(_SIZE))], rescale_rows=rescale_rows)
        matrix.set(transform.matrix())
        for name, reach in reaches.items():
            case = f"{name}{', rescaled rows' if rescale_rows else ''}{', 4 passes' if passes > 1 else ''}"
            errors, exact, sigmas = _spectra(transform, matrix, passes, name)
            snr = 10 * np.log10((exact**2).sum() / (errors**2).sum())
            yield Row("spectrum", case, "SNR to FFT, all bins", float(snr), "dB", reach, "higher")
            strongest = exact.argmax(axis=1)[:, np.newaxis]
            highest = np.take_along_axis(exact, strongest, 1)[:, 0]
            worst = 20 * np.log10((highest / np.abs(errors).max(axis=1)).min())
            yield Row("spectrum", case, "worst bin below the strongest", float(worst), "dB", None, "higher")
            within = np.abs(np.take_along_axis(errors, strongest, 1)[:, 0]) <= sigmas
            yield Row("spectrum", case, "strongest within sigma", 100 * within.mean(), "%", 58.0, "higher")


def _spectra(
    transform: SpectrumTransform, matrix: EngineMatrix, passes: int, name: str
) -> tuple[Array, Array, Array]:
    """Errors and exact amplitudes, [blocks, bins], and sigmas, [blocks]."""
    random, time = np.random.default_rng(2), np.arange(_SIZE)
    errors, exact, sigmas = [], [], []
    for _ in range(_BLOCKS):
        phase, frequency = random.uniform(0, 2 * np.pi), random.uniform(2, _SIZE / 2 - 2)
        line = np.sin(2 * np.pi * frequency / _SIZE * time + phase)
        samples = random.normal(size=_SIZE) if name == "white noise" else line
        prepared = transform.preprocess(samples)
        spectrum = transform.postprocess(samples, 1.0, matrix.multiply(prepared, passes))
        amplitudes = np.abs(np.fft.rfft(prepared)) * 2 / (_SIZE / 2)
        amplitudes[-1] /= 2
        errors.append((spectrum.amplitudes - amplitudes)[1:])
        exact.append(amplitudes[1:])
        sigmas.append(spectrum.sigma)
    return np.array(errors), np.array(exact), np.array(sigmas)
