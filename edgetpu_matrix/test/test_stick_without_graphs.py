"""Reservoir, places and spectra on a virtual stick with programs generated here and without graphs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import EdgeTpu, VirtualEdgeTpu, dense_model
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.toolchain import dense_graph
from edgetpu_matrix import EngineMatrix, PlaceRecognition, SpectrumTransform
from edgetpu_matrix.reservoir.echo_state_network import EchoStateNetwork

pytest.importorskip("ai_edge_litert", reason="needs LiteRT, which the results are compared with")

SIZE = 256


@pytest.fixture
def stick() -> Iterator[StickEngine]:
    with EdgeTpu.open(VirtualEdgeTpu()) as tpu:
        yield StickEngine(tpu, dense_model(SIZE))


def states(engine: SwappableEngine, steps: int) -> NDArray[np.float64]:
    """The states of a reservoir that is driven by a sine: [steps, size]."""
    network, matrix = EchoStateNetwork(200, inputs=1), EngineMatrix([engine])
    matrix.set(network.matrix)
    network.bind(matrix.effective)
    found = []
    for step in range(steps):
        network.advance(matrix.multiply(network.state).outputs, [np.sin(step / 5)])
        found.append(network.state)
    return np.array(found)


def test_a_reservoir_goes_through_the_states_that_it_has_on_the_cpu(stick: StickEngine) -> None:
    expected = states(CpuEngine(dense_graph.build(SIZE)), steps=30)
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(states(stick, steps=30), expected, atol=1e-6)


def test_places_are_found_in_the_order_of_an_exact_search(stick: StickEngine) -> None:
    random = np.random.default_rng(1)
    embeddings, query = random.normal(size=(400, 300)), random.normal(size=300)
    places = PlaceRecognition([stick])
    for number, embedding in enumerate(embeddings):
        places.database.add(str(number), embedding)
    cosines = embeddings @ query / np.linalg.norm(embeddings, axis=1)
    expected = [str(number) for number in np.argsort(-cosines)[:5]]
    assert [place.label for place in places.find(query, 5)] == expected


def test_a_spectrum_shows_the_frequency_of_a_sine(stick: StickEngine) -> None:
    transform, rate = SpectrumTransform(SIZE), 1000.0
    matrix = EngineMatrix([stick])
    matrix.set(transform.matrix())
    samples = 2 * np.sin(2 * np.pi * 125 * np.arange(SIZE) / rate)
    product = matrix.multiply(transform.preprocess(samples))
    spectrum = transform.postprocess(samples, rate, product)
    assert spectrum.peak_frequency == pytest.approx(125, abs=0.1)
    assert spectrum.peak_amplitude == pytest.approx(2, abs=0.02)
