"""Matrices on real engines: LiteRT runs the suite's own Dense graph and the one of Google's compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_matrix import EngineMatrix, PlaceRecognition, SpectrumTransform
from edgetpu_matrix.reservoir.host_subspace import PERIOD
from testdata import ModelFolder

random = np.random.default_rng(6)


def engine(size: int = 64) -> CpuEngine:
    return CpuEngine(dense.build(size))


@pytest.mark.parametrize("engines", [1, 4, 6])
def test_a_matrix_of_four_tiles_on_few_or_many_engines(engines: int) -> None:
    matrix = EngineMatrix([engine() for _ in range(engines)])
    matrix.set(random.normal(size=(100, 128)))
    for vector in random.normal(size=(3, 128)):
        product = matrix.multiply(vector)
        assert (np.abs(product.outputs - matrix.effective @ product.inputs) <= product.errors.bound).all()


@pytest.mark.parametrize("rescale_rows", [False, True], ids=["compiled scales", "rescaled rows"])
def test_rescaled_rows_stay_within_their_bound_too(rescale_rows: bool) -> None:
    weights = random.normal(size=(64, 64)) * np.geomspace(1e-3, 1e3, 64)[:, None]
    matrix = EngineMatrix([engine()], rescale_rows=rescale_rows)
    matrix.set(weights)
    assert np.abs(matrix.effective / weights - 1)[np.abs(weights) > 1e-3].mean() < 0.05
    product = matrix.multiply(random.normal(size=64))
    assert (np.abs(product.outputs - matrix.effective @ product.inputs) <= product.errors.bound).all()


@pytest.mark.parametrize("passes", [-1, 0, 65])
def test_another_number_of_passes_is_refused(passes: int) -> None:
    matrix = EngineMatrix([engine()])
    matrix.set(np.eye(3))
    with pytest.raises(InputError, match=f"expected 1 to 64 passes; got {passes}"):
        matrix.multiply(np.ones(3), passes)


@pytest.mark.parametrize("shape", [(64, 64), (20, 100)])
def test_the_host_subspace_is_not_rounded(shape: tuple[int, int]) -> None:
    matrix = EngineMatrix([engine(), engine()], host_directions=3)
    matrix.set(random.normal(size=shape))
    basis, mean = random.normal(size=(3, shape[1])), random.normal(size=shape[1])
    errors = []
    for _ in range(2 * PERIOD):
        vector = mean + random.normal(size=3) @ basis + 0.01 * random.normal(size=shape[1])
        product = matrix.multiply(vector)
        assert (
            np.abs(product.outputs - matrix.effective @ product.inputs) <= product.errors.bound + 1e-12
        ).all()
        errors.append(np.abs(product.outputs - matrix.effective @ vector).max())
    assert max(errors[PERIOD:]) < 0.05 * np.mean(errors[:PERIOD])


def test_vectors_after_an_outlier_are_rounded_no_more_coarsely() -> None:
    weights, vectors = random.normal(size=(64, 64)), random.normal(size=(2 * PERIOD, 64))
    vectors[PERIOD - 1] *= 1e6
    errors = []
    for directions in (0, 3):
        matrix = EngineMatrix([engine()], host_directions=directions)
        matrix.set(weights)
        outputs = [matrix.multiply(vector).outputs for vector in vectors]
        errors.append(np.std((outputs - vectors @ matrix.effective.T)[PERIOD:]))
    assert errors[1] <= 1.05 * errors[0]


def test_none_of_it_is_on_the_host_unless_asked_for_or_for_states() -> None:
    plain, asked = EngineMatrix([engine()], host_directions=0), EngineMatrix([engine()])
    weights, vectors = random.normal(size=(64, 64)), np.ones((PERIOD + 1, 64))
    for matrix in (plain, asked):
        matrix.set(weights)
        outputs = [matrix.multiply(vector).outputs for vector in vectors]
        assert np.array_equal(outputs[0], outputs[-1])
    with pytest.raises(InputError, match="at least one direction"):
        EngineMatrix([engine()], host_directions=-1).set(weights)


def test_the_graph_of_a_compiled_model_takes_a_matrix(golden: ModelFolder) -> None:
    matrix = EngineMatrix([CpuEngine(golden.model("dense_256.tflite"))])
    matrix.set(random.normal(size=(256, 256)))
    product = matrix.multiply(random.normal(size=256))
    assert (np.abs(product.outputs - matrix.effective @ product.inputs) <= product.errors.bound).all()


def test_a_spectrum_has_the_frequency_and_amplitude_of_a_sine() -> None:
    transform = SpectrumTransform(64)
    matrix = EngineMatrix([engine()])
    matrix.set(transform.matrix())
    samples = 3 * np.sin(2 * np.pi * 10 / 64 * np.arange(64))
    spectrum = transform.postprocess(samples, 640.0, matrix.multiply(transform.preprocess(samples)))
    assert spectrum.peak_frequency == pytest.approx(100.0, abs=0.1)
    assert spectrum.peak_amplitude == pytest.approx(3.0, abs=5 * spectrum.sigma)


def test_places_come_and_go() -> None:
    places = PlaceRecognition([engine()])
    assert places.find([1.0, 2.0]) == ()
    embeddings = random.normal(size=(200, 80))
    for number, embedding in enumerate(embeddings):
        places.database.add(str(number), embedding)
    assert places.find(embeddings[150])[0].label == "150"
    places.database.remove("150")
    assert places.find(embeddings[150])[0].score < 0.9
    assert places.find(embeddings[199], 2)[0].label == "199"


def test_a_model_that_is_not_dense_is_refused() -> None:
    graph = GraphBuilder("one-sided")
    pixels = graph.input("pixels", (1, 4), np.uint8, scale=1.0, zero_point=0)
    graph.output(graph.quantize(pixels, np.int8, scale=1.0, zero_point=-128))
    with pytest.raises(ModelUnsupportedError, match="expected a Dense model"):
        EngineMatrix([CpuEngine(graph.build())])


@pytest.mark.parametrize(
    "options", [{"bias": np.full(8, 100_000)}, {"activation": "RELU"}], ids=["a bias", "an activation"]
)
def test_a_layer_with_more_than_a_matrix_is_refused(options: dict[str, Any]) -> None:
    graph = GraphBuilder("more")
    x = graph.input("x", (1, 8), np.int8, scale=1 / 127, zero_point=0)
    weights = np.eye(8, dtype=np.int8)
    graph.output(graph.fully_connected(x, weights, 1 / 127, scale=0.1, zero_point=0, **options))
    with pytest.raises(ModelUnsupportedError, match="only multiplies by a matrix"):
        EngineMatrix([CpuEngine(graph.build())])


@pytest.mark.parametrize("size", [256, 512])
def test_gaussian_products_are_as_exact_as_eight_bits_allow(size: int) -> None:
    repeatable = np.random.default_rng(0)
    weights, vectors = repeatable.normal(size=(size, size)), repeatable.normal(size=(20, size))
    matrix = EngineMatrix([engine(size)])
    matrix.set(weights)
    errors = [matrix.multiply(vector).outputs - weights @ vector for vector in vectors]
    assert np.std(errors) < 0.0165 * np.std(vectors @ weights.T)


def test_there_must_be_an_engine() -> None:
    with pytest.raises(InputError, match="at least one engine"):
        EngineMatrix([])
