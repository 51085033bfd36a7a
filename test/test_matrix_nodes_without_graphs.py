"""Matrix nodes with a driver whose virtual stick runs a program written here, without a graph."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from std_msgs.msg import Float32MultiArray

from edgetpu_driver.cli.main import main
from edgetpu_driver.toolchain import dense_graph
from edgetpu_msgs.msg import Prediction, Spectrum
from edgetpu_msgs.srv import AddPlace, FindPlace, ListModels
from testdata.running_nodes.matrix_node_messages import (
    MATRIX,
    Exchange,
    numbers,
    options,
    start_matrix_driver,
)

SINE = np.sin(2 * np.pi * np.arange(64) / 8)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory with a compiled file alone."""
    graph = tmp_path_factory.mktemp("graph") / "dense_64.tflite"
    graph.write_bytes(dense_graph.build(64))
    models = tmp_path_factory.mktemp("models")
    assert main(["models", "compile", str(graph)]) == 0
    shutil.copy(graph.with_name("dense_64_edgetpu.tflite"), models)
    return models


@pytest.fixture(scope="module", autouse=True)
def driver(start_node: Callable[..., Any], directory: Path) -> Any:
    return start_matrix_driver(start_node, directory)


def exchange(graph: Any, node: str, result: Any, results: str) -> Exchange:
    return Exchange(graph, Float32MultiArray, "/signal", result, f"/{node}/{results}")


def test_the_spectrum_of_a_sine(start_node: Callable[..., Any], graph: Any, directory: Path) -> None:
    parameters = options(directory)
    del parameters["directory"]
    start_node(MATRIX, "spectrum", length=32, sample_rate=80.0, **parameters)
    signal = exchange(graph, "spectrum", Spectrum, "spectrum")
    for sample in SINE:
        signal.say(numbers(sample))
    spectrum = signal.wait(3)[0]
    assert spectrum.peak_frequency == pytest.approx(10.0, abs=0.1)
    assert spectrum.peak_amplitude == pytest.approx(1.0, abs=0.02)


def test_the_states_of_a_reservoir(start_node: Callable[..., Any], graph: Any, directory: Path) -> None:
    start_node(MATRIX, "reservoir", size=50, washout=0, horizon=1, **options(directory))
    signal = exchange(graph, "reservoir", Prediction, "prediction")
    for sample in SINE:
        signal.say(numbers(sample))
    predictions = signal.wait(len(SINE))
    assert [each.step for each in predictions] == list(range(1, len(SINE) + 1))


def test_the_nearest_of_three_places(start_node: Callable[..., Any], graph: Any, directory: Path) -> None:
    start_node(MATRIX, "place_recognition", **options(directory))
    embeddings = np.random.default_rng(8).normal(size=(3, 20)).astype(np.float32)
    for number, embedding in enumerate(embeddings):
        assert graph.call(
            AddPlace, "/place_recognition/add_place", label=str(number), embedding=embedding
        ).success
    answers: list[Any] = []

    def found_it() -> bool:  # at first the driver, or the matrix on it, may not be ready in time
        request = {"embedding": embeddings[1], "count": 1}
        answers.append(graph.call(FindPlace, "/place_recognition/find_place", **request))
        return bool(answers[-1].success)

    graph.spin_until(found_it)
    found = answers[-1]
    assert (list(found.labels), list(found.scores)) == (["1"], [pytest.approx(1.0, abs=1e-6)])


def test_the_driver_has_nothing_but_the_compiled_file(graph: Any, directory: Path) -> None:
    assert [path.name for path in directory.glob("*.tflite")] == ["dense_64_edgetpu.tflite"]
    models = graph.call(ListModels, "/edgetpu/list_models").models
    assert {Path(model.path).name for model in models} == {"dense_64_edgetpu.tflite"}
