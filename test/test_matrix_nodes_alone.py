"""Matrix nodes with drivers of their own, without one, and with parameters that are refused."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from rclpy.parameter import Parameter
from rclpy.subscription import Subscription
from std_msgs.msg import Float32MultiArray, Header

from edgetpu_driver.errors import ArchiveError, EdgeTpuError, GraphProcessError, InputError
from edgetpu_driver.files import npz_archive as archive
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductResult
from edgetpu_matrix.nodes.reservoir_node import KIND, ReservoirNode, _Step
from edgetpu_matrix.reservoir.broken_samples import IN_A_ROW
from edgetpu_matrix.reservoir.ridge_readout import RidgeReadout
from edgetpu_msgs.msg import ErrorCode, Prediction, Spectrum
from edgetpu_msgs.srv import AddPlace, FindPlace, TrainReadout
from testdata import ModelFolder
from testdata.running_nodes.matrix_node_messages import (
    EMBEDDINGS,
    MATRIX,
    QUEUE_DEPTH,
    Exchange,
    numbers,
    start_matrix_driver,
    train,
)

random = np.random.default_rng(28)


@pytest.mark.skipif(not hasattr(Subscription, "CallbackType"), reason="rclpy of Humble has no times")
def test_targets_without_stamps_that_are_delivered_late_belong_to_the_samples_before_them(
    start_node: Callable[..., Any], graph: Any, matrix_home: Path
) -> None:
    start_matrix_driver(start_node, matrix_home)
    values = {"driver": "/edgetpu", "model_dir": str(matrix_home), "model": "dense_64", "qos_depth": 100}
    overrides = [
        Parameter(name, value=value) for name, value in (values | {"size": 20, "washout": 0}).items()
    ]
    node = ReservoirNode(parameter_overrides=overrides, namespace="/late")
    graph.add_node(node)
    callbacks = {subscription.topic_name: subscription.callback for subscription in node.subscriptions}
    samples = random.uniform(-1, 1, 60)
    for step, sample in enumerate(samples):
        callbacks["/late/signal"](numbers(sample), {"source_timestamp": 10 * step})
    graph.spin_until(lambda: node.counters.results == len(samples))
    for step, sample in enumerate(samples):
        callbacks["/late/target"](numbers(2 * sample), {"source_timestamp": 10 * step + 5})
    training = graph.call(TrainReadout, "/late/reservoir/train_readout")
    graph.remove_node(node)
    node.destroy_node()
    assert (training.success, training.samples) == (True, 60)
    assert training.residual_rms[0] < 1e-3


@pytest.fixture
def untrained(graph: Any, matrix_home: Path) -> Iterator[tuple[ReservoirNode, Callable[[list[float]], None]]]:
    """A reservoir without a driver, and what hands it a signal's sample."""
    values = {
        "driver": "/nobody",
        "model_dir": str(matrix_home),
        "model": "dense_64",
        "size": 20,
        "washout": 0,
    }
    node = ReservoirNode(
        parameter_overrides=[Parameter(name, value=value) for name, value in values.items()],
        namespace="/untrained",
    )
    graph.add_node(node)
    yield node, functools.partial(node._on_input, Header())
    graph.remove_node(node)
    node.destroy_node()


def test_a_first_sample_of_another_size_does_not_silence_the_reservoir(untrained: Any) -> None:
    node, hear = untrained
    node._network.inputs_are(3)  # as after a sample of three values
    for _ in range(IN_A_ROW - 1):
        with pytest.raises(InputError, match="expected a sample of 3 values"):
            hear(np.array([0.5]))
    hear(np.array([0.5]))
    assert node._network.inputs == 1


def test_after_samples_of_another_size_no_target_goes_to_those_before(untrained: Any) -> None:
    node, hear = untrained
    hear(np.array([0.5, 0.5, 0.5]))
    node._network.inputs_are(3)
    for _ in range(IN_A_ROW - 1):
        with pytest.raises(InputError):
            hear(np.array([0.5]))
    hear(np.array([0.5]))
    assert [step.inputs.size for step in node._recent] == [1]


def test_two_signals_with_different_clocks_do_not_flood_the_log(
    untrained: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    node, _ = untrained
    for second in (9, 2, 9, 2, 9, 2):
        node._on_input(Header(stamp=Time(sec=second)), np.array([0.5]))
    assert capfd.readouterr().err.count("time jumped back") == 1


def test_a_trained_reservoir_keeps_its_size(untrained: Any) -> None:
    node, hear = untrained
    node._network.inputs_are(3)
    node._readout = RidgeReadout(24, 1)
    node._readout.weights = np.zeros((1, 24))
    for _ in range(2 * IN_A_ROW):
        with pytest.raises(InputError, match="expected a sample of 3 values"):
            hear(np.array([0.5]))
    assert node._network.inputs == 3


class FailingMatrix:
    """A client of an identity matrix whose products fail with these errors, one each, None for a product."""

    ready, problem, effective = True, "", np.eye(20)

    def __init__(self, *errors: EdgeTpuError | None) -> None:
        self._errors = list(errors)

    def multiply(self, vector: Any, done: Callable[[ProductResult], None]) -> bool:
        error = self._errors.pop(0) if self._errors else None
        product: Any = None if error is not None else SimpleNamespace(outputs=vector)
        done(ProductResult(product, error))
        return True

    def close(self) -> None:
        pass


DIED, WRONG = GraphProcessError("the process has ended"), InputError("expected 20 numbers")


@pytest.mark.parametrize(
    ("errors", "steps"),
    [
        ((None, DIED), [1, 2, 3]),
        ((None, DIED, DIED), [1, 3]),
        ((None, WRONG), [1, 3]),
    ],
    ids=["failed once", "failed twice", "refused"],
)
def test_a_sample_whose_product_fails_is_sent_again_once(
    untrained: Any, errors: tuple[EdgeTpuError | None, ...], steps: list[int]
) -> None:
    node, hear = untrained
    node.client.close()
    node.client = FailingMatrix(*errors)
    node.on_ready()
    for sample in (1.0, 2.0, 3.0):
        hear(np.array([sample]))
    assert [step.inputs[0] for step in node._recent if step.features is not None] == steps
    failed = sum(error is not None for error in errors)
    assert (node.counters.results, node.counters.failed) == (len(steps), failed)


def trained(outputs: int = 1) -> RidgeReadout:
    """A readout of the reservoir of one input that has forgotten its samples, as after training."""
    readout = RidgeReadout(features=22, outputs=outputs)
    readout.add(np.ones(22), np.ones(outputs))
    readout.solve(1.0)
    readout.clear()
    return readout


def test_a_target_of_another_size_does_not_replace_a_trained_readout(untrained: Any) -> None:
    node, _hear = untrained
    node._readout = readout = trained()
    for _ in range(IN_A_ROW - 1):
        with pytest.raises(InputError, match="expected a target of 1 values; got 2"):
            node._on_target(Header(), np.zeros(2))
    assert node._readout is readout


def test_many_targets_of_another_size_in_a_row_begin_a_new_readout(untrained: Any) -> None:
    node, _hear = untrained
    node._readout = trained()
    for _ in range(IN_A_ROW - 1):
        with pytest.raises(InputError, match="expected a target of 1 values"):
            node._on_target(Header(), np.zeros(2))
    node._on_target(Header(), np.zeros(2))
    assert node._readout is None


def test_without_a_trained_readout_there_is_no_confidence(graph: Any, untrained: Any) -> None:
    node, _hear = untrained
    predictions = graph.collect(Prediction, "/untrained/reservoir/prediction")
    node._readout, node._confidence = trained(), 0.9
    for _ in range(IN_A_ROW - 1):
        with pytest.raises(InputError):
            node._on_target(Header(), np.zeros(2))
    node._on_target(Header(), np.zeros(2))  # begins a new readout

    def published() -> bool:
        node._publish(_Step(Header(), np.array([0.5])))
        return bool(predictions)

    graph.spin_until(published)
    assert math.isnan(predictions[0].confidence)


def test_targets_of_another_size_do_not_replace_samples_that_a_readout_was_trained_on(untrained: Any) -> None:
    node, _hear = untrained
    node._readout = readout = trained()
    readout.add(np.ones(22), [1.0])
    for _ in range(2 * IN_A_ROW):
        with pytest.raises(InputError, match="expected a target of 1 values"):
            node._on_target(Header(), np.zeros(2))
    assert node._readout is readout


def test_a_first_target_of_another_size_does_not_keep_the_others_out(untrained: Any) -> None:
    node, _hear = untrained
    node._readout = RidgeReadout(features=22, outputs=2)
    node._readout.add(np.ones(22), [1.0, 1.0])
    for _ in range(IN_A_ROW - 1):
        with pytest.raises(InputError, match="expected a target of 2 values; got 1"):
            node._on_target(Header(), np.zeros(1))
    node._on_target(Header(), np.zeros(1))
    assert node._readout is None


def test_a_waiting_target_of_another_size_does_not_replace_a_trained_readout(untrained: Any) -> None:
    node, _hear = untrained
    step = _Step(Header(), np.zeros(1), number=1, features=np.ones(22), target=np.zeros(2))
    node._readout = readout = trained()
    node._train(step)
    assert node._readout is readout
    assert node.counters.malformed == 1


def test_a_forecast_refuses_a_readout_of_other_targets(untrained: Any, tmp_path: Path) -> None:
    node, _hear = untrained
    node.values["horizon"] = 4
    network = {"network": np.array(node._description()), "confidence": np.array(1.0)}
    archive.save(tmp_path / "two.npz", KIND, trained(outputs=2).to_arrays() | network)
    with pytest.raises(ArchiveError, match="expected 1 outputs, as it forecasts the input; got 2"):
        node._load(tmp_path / "two.npz")


def test_a_target_without_values_is_refused(untrained: Any) -> None:
    node, _hear = untrained
    with pytest.raises(InputError, match="expected a target of one value or more; got none"):
        node._on_target(Header(), np.zeros(0))


@pytest.mark.skipif(not hasattr(Subscription, "CallbackType"), reason="rclpy of Humble has no times")
def test_targets_without_stamps_belong_to_the_samples_they_came_after_however_busy_the_node_is(
    start_node: Callable[..., Any], graph: Any, matrix_home: Path
) -> None:
    start_node(
        "edgetpu_perception",
        "single_process",
        *("-r", "__ns:=/busy"),
        *("--", "--nodes", "reservoir"),
        backend="cpu",
        model_dirs=f"['{matrix_home}']",
        model_dir=matrix_home,
        model="dense_64",
        size=20,
        washout=20,
        qos_reliability="reliable",
        qos_depth=QUEUE_DEPTH,
    )
    talk = Exchange(graph, Float32MultiArray, "/busy/signal", Prediction, "/busy/reservoir/prediction")
    targets = graph.node.create_publisher(Float32MultiArray, "/busy/target", QUEUE_DEPTH)
    graph.spin_until(lambda: targets.get_subscription_count() == 1)
    for _ in range(20):  # the washout
        talk.ask(numbers(0.0))
        targets.publish(numbers(0.0))
    for sample in random.uniform(-1, 1, 100):
        talk.say(numbers(sample))
        targets.publish(numbers(2 * sample))
    talk.wait(100)
    training = train(graph, "/busy/reservoir", 100)
    assert (training.success, training.samples) == (True, 100)
    assert training.residual_rms[0] < 1e-3


def labels_found(graph: Any, node: str, embedding: np.ndarray) -> list[str]:
    """The places most similar to an embedding; a driver that has stood still for seconds may be back late."""
    answers: list[FindPlace.Response] = []

    def found() -> bool:
        answers.append(graph.call(FindPlace, f"{node}/find_place", embedding=embedding.tolist()))
        return answers[-1].error.value != ErrorCode.UNAVAILABLE

    graph.spin_until(found)
    return list(answers[-1].labels)


def test_in_one_process_the_driver_is_called_directly(
    start_node: Callable[..., Any], graph: Any, matrix_home: Path
) -> None:
    process = start_node(
        "edgetpu_perception",
        "single_process",
        *("-r", "__ns:=/alone"),
        *("--", "--nodes", "place_recognition,spectrum,reservoir"),
        backend="virtual",
        model_dirs=f"['{matrix_home}']",
        model_dir=matrix_home,
        model="dense_64",
        sample_rate=128.0,
        length=128,
        size=100,
        washout=0,
        horizon=1,
        passes=2,
        qos_reliability="reliable",
    )
    predictions = graph.collect(Prediction, "/alone/reservoir/prediction")
    spectra = Exchange(graph, Float32MultiArray, "/alone/signal", Spectrum, "/alone/spectrum/spectrum", 2)
    spectrum = spectra.ask(numbers(np.sin(2 * np.pi * 20 / 128 * np.arange(128))))
    assert spectrum.peak_frequency == pytest.approx(20.0, abs=0.1)
    graph.spin_until(lambda: bool(predictions))
    embeddings = EMBEDDINGS
    for number, embedding in enumerate(embeddings):
        graph.call(
            AddPlace,
            "/alone/place_recognition/add_place",
            label=str(number),
            embedding=embedding.tolist(),
        )
    for number in (0, 80, 149):
        assert labels_found(graph, "/alone/place_recognition", embeddings[number]) == [str(number)]
    process.stop()


def test_on_a_model_of_google_s_compiler(
    start_node: Callable[..., Any], graph: Any, golden: ModelFolder, tmp_path: Path
) -> None:
    golden.model("dense_256.tflite")
    golden.model("dense_256_edgetpu.tflite")
    start_node(
        "edgetpu_driver",
        "edgetpu_node",
        *("-r", "__ns:=/real"),
        backend="virtual",
        model_dirs=[str(golden.path)],
    )
    start_node(
        *(MATRIX, "spectrum", "-r", "__ns:=/real"),
        model_dir=tmp_path,
        sample_rate=256.0,
        qos_reliability="reliable",
    )
    talk = Exchange(graph, Float32MultiArray, "/real/signal", Spectrum, "/real/spectrum/spectrum")
    samples = random.normal(size=256)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(256) / 256)
    exact = np.abs(np.fft.rfft((samples - samples.mean()) * window))[1:-1] * 2 / window.sum()
    error = np.array(talk.ask(numbers(samples)).amplitudes)[1:-1] - exact
    assert 10 * np.log10((exact**2).sum() / (error**2).sum()) > 28


@pytest.mark.parametrize(
    ("node", "values", "message"),
    [
        (
            "reservoir",
            {"activation": "identity", "spectral_radius": 1.1},
            "expected a spectral radius below 1",
        ),
        ("reservoir", {"readout": "none"}, "parameter 'readout': "),
        ("reservoir", {"input_type": "nose"}, "expected a message type"),
        ("place_recognition", {"places": "none"}, "parameter 'places': "),
        ("spectrum", {"length": 255}, "expected an even block length"),
        ("spectrum", {"input_fields": "noise"}, "expected the path of a field of Float32MultiArray"),
        ("spectrum", {"model": "dense_9999"}, "cannot write the model dense_9999"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_bad_parameter_ends_the_node_with_a_reason(
    start_node: Callable[..., Any], tmp_path: Path, node: str, values: dict[str, Any], message: str
) -> None:
    process = start_node(MATRIX, node, model_dir=tmp_path, **values)
    assert process.wait() == 1
    assert message in process.output
    assert "Traceback" not in process.output
