"""Reservoir, place recognition and spectrum beside a driver with a virtual stick, a process each."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Point, PointStamped, Vector3, Vector3Stamped
from rclpy.parameter import Parameter
from rclpy.subscription import Subscription
from sensor_msgs.msg import Imu
from std_msgs.msg import Float32MultiArray, Header
from std_srvs.srv import Trigger

from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.matrix_client import MatrixClient
from edgetpu_driver.node_kit.product_in_progress import ProductResult
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_matrix import EchoStateNetwork
from edgetpu_matrix.nodes.reservoir_node import ReservoirNode
from edgetpu_matrix.reservoir.ridge_readout import RidgeReadout
from edgetpu_matrix.reservoir.signal_scale import IN_A_ROW
from edgetpu_msgs.msg import ErrorCode, PlaceMatch, Prediction, Spectrum
from edgetpu_msgs.srv import (
    AddPlace,
    FindPlace,
    GetDeviceInfo,
    ListModels,
    ListPlaces,
    LoadFile,
    RemovePlace,
    SaveFile,
    TrainReadout,
)
from testdata import ModelFolder

MATRIX = "edgetpu_matrix"
QUEUE_DEPTH = 1000
"""Messages; so long that nothing is lost if a process stands still for a while."""
random = np.random.default_rng(8)


def numbers(values: Any) -> Float32MultiArray:
    return Float32MultiArray(data=np.atleast_1d(values).astype(np.float32).tolist())


def time_of(seconds: float) -> Time:
    nanoseconds = round(seconds * 1e9)
    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def imu(seconds: float, z: float) -> Imu:
    header = Header(stamp=time_of(seconds), frame_id="imu")
    return Imu(header=header, linear_acceleration=Vector3(z=float(z)))


class Talk:
    """Publishes on a topic of a node, and waits for what the node makes of it."""

    def __init__(
        self, graph: Any, kind: Any, topic: str, result: Any, results: str, listeners: int = 1
    ) -> None:
        self._graph = graph
        self._publisher = graph.node.create_publisher(kind, topic, QUEUE_DEPTH)
        self.results = graph.collect(result, results, QUEUE_DEPTH)
        graph.spin_until(lambda: self._publisher.get_subscription_count() == listeners)
        graph.meet(results.rpartition("/")[0])

    def say(self, message: Any) -> None:
        self._publisher.publish(message)

    def wait(self, count: int = 1) -> list[Any]:
        """So many results, which are then forgotten."""
        self._graph.spin_until(lambda: len(self.results) >= count)
        found = self.results[:count]
        del self.results[:count]
        return found

    def ask(self, message: Any) -> Any:
        self.results.clear()
        self.say(message)
        return self.wait()[0]


def train(graph: Any, node: str, samples: int, **options: Any) -> Any:
    """Train a readout once so many samples with their targets have come; the answer."""
    answers: list[Any] = []

    def trained() -> bool:
        answers.append(graph.call(TrainReadout, f"{node}/train_readout", **options))
        return answers[-1].samples >= samples

    graph.spin_until(trained)
    return answers[-1]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix_home")


@pytest.fixture(scope="module")
def start_driver(start_node: Callable[..., Any], home: Path) -> Callable[[], Any]:
    return lambda: start_node("edgetpu_driver", "edgetpu_node", backend="virtual", model_dirs=f"['{home}']")


@pytest.fixture(scope="module")
def processes(start_node: Callable[..., Any], start_driver: Callable[[], Any], home: Path) -> dict[str, Any]:
    """A driver, and the nodes with topics of their own; the matrices of two are larger than the model."""
    common = {
        "model_dir": home,
        "directory": home,
        "model": "dense_64",
        "qos_reliability": "reliable",
        "qos_depth": QUEUE_DEPTH,
    }
    return {
        "edgetpu": start_driver(),
        "reservoir": start_node(
            MATRIX,
            "reservoir",
            *("-r", "signal:=/input"),
            size=100,
            washout=20,
            input_type="geometry_msgs/msg/PointStamped",
            input_fields="point.x",
            target_type="geometry_msgs/msg/Vector3Stamped",
            target_fields="vector.x,vector.y",
            **common,
        ),
        "forecast": start_node(
            MATRIX,
            "reservoir",
            *("-r", "signal:=/forecast_input", "-r", "__node:=forecast"),
            size=64,
            washout=20,
            horizon=4,
            passes=3,
            **common,
        ),
        "place_recognition": start_node(
            MATRIX,
            "place_recognition",
            input_type="std_msgs/msg/Float32MultiArray",
            input_fields="data",
            **common,
        ),
        "spectrum": start_node(
            MATRIX,
            "spectrum",
            *("-r", "signal:=/vibration"),
            length=128,
            input_type="sensor_msgs/msg/Imu",
            input_fields="linear_acceleration.z",
            **{name: value for name, value in common.items() if name != "directory"},
        ),
    }


@pytest.fixture(scope="module")
def reservoir(graph: Any, processes: dict[str, Any]) -> Talk:  # noqa: ARG001
    return Talk(graph, PointStamped, "/input", Prediction, "/reservoir/prediction")


@pytest.fixture(scope="module")
def forecast(graph: Any, processes: dict[str, Any]) -> Talk:  # noqa: ARG001
    return Talk(graph, Float32MultiArray, "/forecast_input", Prediction, "/forecast/prediction")


@pytest.fixture(scope="module")
def places(graph: Any, processes: dict[str, Any]) -> Talk:  # noqa: ARG001
    return Talk(graph, Float32MultiArray, "/embedding", PlaceMatch, "/place_recognition/match")


@pytest.fixture(scope="module")
def vibration(graph: Any, processes: dict[str, Any]) -> Talk:  # noqa: ARG001
    return Talk(graph, Imu, "/vibration", Spectrum, "/spectrum/spectrum")


class TestSpectrum:
    RATE = 500.0
    TIMES = 1000 + np.arange(192) / RATE

    def spectra(self, vibration: Talk, signal: np.ndarray, offset: float = 0.0) -> list[Spectrum]:
        for seconds, value in zip(self.TIMES + offset, signal, strict=True):
            vibration.say(imu(seconds, value))
        return vibration.wait(2)

    def test_blocks_of_an_axis_of_an_imu(self, vibration: Talk) -> None:
        signal = 9.81 + 0.5 * np.sin(2 * np.pi * 62.5 * self.TIMES)
        first, second = self.spectra(vibration, signal)
        assert first.header == Header(stamp=time_of(self.TIMES[127]), frame_id="imu")
        assert second.header.stamp == time_of(self.TIMES[191])
        assert first.sample_rate == pytest.approx(self.RATE)
        assert first.frequency_step == pytest.approx(self.RATE / 128)
        assert len(first.amplitudes) == 65
        assert first.valid
        assert not first.resampled
        assert first.peak_frequency == pytest.approx(62.5, abs=0.2)
        assert first.peak_amplitude == pytest.approx(0.5, abs=5 * first.sigma)
        assert first.amplitudes[0] == pytest.approx(9.81, abs=0.01)
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(128) / 128)
        exact = np.abs(np.fft.rfft((signal[:128] - signal[:128].mean()) * window))[1:] * 2 / window.sum()
        error = np.array(first.amplitudes)[1:] - exact
        assert 10 * np.log10((exact**2).sum() / (error**2).sum()) > 33

    def test_a_constant_has_no_line(self, vibration: Talk) -> None:
        spectrum = self.spectra(vibration, np.full(192, 9.81), offset=10.0)[0]
        assert not spectrum.valid
        assert math.isnan(spectrum.peak_frequency)
        assert math.isnan(spectrum.peak_amplitude)

    def test_a_gap_begins_a_block_anew(self, vibration: Talk) -> None:
        for sample in range(100):
            vibration.say(imu(2000 + sample / self.RATE, 1.0))
        spectra = self.spectra(vibration, np.sin(self.TIMES), offset=2000.0)
        assert spectra[0].header.stamp == time_of(3000 + 127 / self.RATE)

    def test_samples_that_come_in_bursts_have_a_spectrum(
        self, vibration: Talk, processes: dict[str, Any]
    ) -> None:
        numbers = np.arange(192)
        bursts = 5000 + (numbers // 8 + 1) * 8 / self.RATE + numbers % 8 * 1e-4
        for seconds, value in zip(bursts, np.sin(2 * np.pi * 62.5 * numbers / self.RATE), strict=True):
            vibration.say(imu(seconds, value))
        spectra = vibration.wait(2)
        assert [spectrum.sample_rate for spectrum in spectra] == pytest.approx([self.RATE] * 2)
        assert not spectra[0].resampled
        assert spectra[0].peak_frequency == pytest.approx(62.5, abs=0.2)
        assert spectra[0].peak_amplitude == pytest.approx(1.0, abs=5 * spectra[0].sigma)
        assert processes["spectrum"].output.count("/vibration come in bursts") == 1

    def test_samples_with_jitter_in_their_stamps_are_resampled(
        self, vibration: Talk, processes: dict[str, Any]
    ) -> None:
        stamps = 6000 + (np.arange(128) + np.random.default_rng(3).uniform(-0.2, 0.2, 128)) / self.RATE
        for seconds in stamps:
            vibration.say(imu(seconds, math.sin(2 * math.pi * 62.5 * seconds)))
        (spectrum,) = vibration.wait(1)
        assert spectrum.valid
        assert spectrum.resampled
        assert spectrum.peak_frequency == pytest.approx(62.5, abs=0.2)
        assert spectrum.peak_amplitude == pytest.approx(1.0, abs=5 * spectrum.sigma)
        assert processes["spectrum"].output.count("samples are interpolated to") == 1


class TestReservoir:
    @staticmethod
    def signal(step: int) -> float:
        return math.sin(0.2 * step) + 0.5 * math.sin(0.311 * step)

    def sample(self, step: int) -> PointStamped:
        return PointStamped(header=Header(stamp=time_of(100 + step)), point=Point(x=self.signal(step)))

    def target(self, step: int) -> list[float]:
        return [self.signal(step + 3), 2 * self.signal(step - 5) + 7]

    def test_it_learns_from_targets_that_come_before_or_after_the_samples(
        self, reservoir: Talk, graph: Any
    ) -> None:
        targets = graph.node.create_publisher(Vector3Stamped, "/target", 100)
        graph.spin_until(lambda: targets.get_subscription_count() == 1)
        for step in range(300):
            x, y = self.target(step)
            target = Vector3Stamped(header=self.sample(step).header, vector=Vector3(x=x, y=y))
            if step % 2:
                targets.publish(target)
            prediction = reservoir.ask(self.sample(step))
            if not step % 2:
                targets.publish(target)
            assert not prediction.valid
            assert prediction.header == self.sample(step).header
        assert prediction.step == 300
        training = train(graph, "/reservoir", 280, regularization=1e-8)
        assert training.success, training.message
        assert training.samples == 280
        assert all(np.array(training.residual_rms) < 0.05 * np.array(training.target_sigma))
        errors = []
        for step in range(300, 340):
            prediction = reservoir.ask(self.sample(step))
            errors.append(np.array(prediction.values) - self.target(step))
        assert prediction.valid
        assert 0.995 < prediction.confidence <= 1
        assert prediction.sigma == pytest.approx(training.residual_rms, rel=1e-5)
        assert (np.sqrt(np.mean(np.square(errors), axis=0)) < 3 * np.array(prediction.sigma)).all()

    def test_the_trained_readout_is_saved_and_loaded(self, reservoir: Talk, graph: Any, home: Path) -> None:
        saved = graph.call(SaveFile, "/reservoir/save_readout", name="sines")
        assert (saved.success, saved.path) == (True, str(home / "sines.npz"))
        training = graph.call(TrainReadout, "/reservoir/train_readout", regularization=1e6)
        assert training.success
        assert reservoir.ask(self.sample(340)).confidence < 0.1
        loaded = graph.call(LoadFile, "/reservoir/load_readout", name="sines")
        assert (loaded.success, loaded.path) == (True, saved.path)
        assert reservoir.ask(self.sample(341)).confidence > 0.995

    def test_after_a_reset_it_forgets_the_past_but_not_the_readout(self, reservoir: Talk, graph: Any) -> None:
        assert graph.call(Trigger, "/reservoir/reset").success
        prediction = reservoir.ask(self.sample(342))
        assert (prediction.step, prediction.valid) == (1, False)
        assert all(map(math.isnan, prediction.values))
        for step in range(343, 363):
            prediction = reservoir.ask(self.sample(step))
        assert (prediction.step, prediction.valid) == (21, True)

    def test_when_time_goes_back_it_begins_anew(self, reservoir: Talk) -> None:
        assert reservoir.ask(self.sample(0)).step == 1

    def test_bad_samples_are_skipped(self, reservoir: Talk) -> None:
        for bad in (math.nan, math.inf):
            sample = self.sample(1)
            sample.point.x = bad
            reservoir.say(sample)
        assert reservoir.ask(self.sample(2)).step == 2

    def test_it_can_predict_the_signal_itself(self, forecast: Talk, graph: Any) -> None:
        for step in range(150):
            prediction = forecast.ask(numbers(self.signal(step)))
        assert prediction.samples == 149 - 4 - 20  # the newest is only predicted yet
        assert graph.call(TrainReadout, "/forecast/train_readout", forget=True).success
        prediction = forecast.ask(numbers(self.signal(150)))
        assert prediction.valid
        assert prediction.samples == 0
        assert prediction.values[0] == pytest.approx(self.signal(154), abs=4 * prediction.sigma[0])
        assert prediction.sigma[0] < 0.1

    def test_without_targets_there_is_nothing_to_train_on(self, graph: Any) -> None:
        for _ in range(2):
            answer = graph.call(TrainReadout, "/forecast/train_readout", forget=True)
        assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_INPUT)
        assert "expected samples to train on" in answer.message

    @pytest.mark.usefixtures("processes")
    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("../x", "expected the name of a file"),
            ("", "expected the name"),
            ("none", "none.npz; that directory holds"),
        ],
    )
    def test_a_bad_file_is_refused(self, graph: Any, name: str, reason: str) -> None:
        answer = graph.call(LoadFile, "/reservoir/load_readout", name=name)
        assert not answer.success
        assert answer.error.value == ErrorCode.BAD_INPUT
        assert reason in answer.message

    def test_a_matrix_of_several_tiles_is_uploaded_once(
        self, reservoir: Talk, forecast: Talk, graph: Any, home: Path
    ) -> None:
        def uploads() -> int:
            return int(graph.call(GetDeviceInfo, "/edgetpu/get_device_info").status.uploads)

        (home / "dense_256.tflite").write_bytes(dense.build(256))
        network = EchoStateNetwork(512)
        reservoir.ask(self.sample(0))  # the nodes have set weights of their own
        forecast.ask(numbers(0.0))
        client = MatrixClient(graph.node, "dense_256", name="wide")
        client.set_matrix(network.matrix)
        graph.spin_until(lambda: client.ready)
        results: list[ProductResult] = []
        counted = []
        for count in range(1, 5):
            assert client.multiply(random.normal(size=512), results.append)
            graph.spin_until(lambda count=count: len(results) == count)
            counted.append(uploads())
        client.close()
        assert [result.error for result in results] == [None] * 4
        assert counted == counted[:1] * 4


@pytest.mark.usefixtures("places")
class TestPlaceRecognition:
    EMBEDDINGS = random.normal(size=(150, 80))

    def find(self, graph: Any, embedding: np.ndarray, count: int = 1) -> Any:
        return graph.call(FindPlace, "/place_recognition/find_place", embedding=list(embedding), count=count)

    def add(self, graph: Any, label: str, embedding: Any, **options: Any) -> Any:
        return graph.call(
            AddPlace, "/place_recognition/add_place", label=label, embedding=list(embedding), **options
        )

    def test_without_places_there_is_no_match(self, places: Talk, graph: Any) -> None:
        match = places.ask(numbers([1.0, 2.0, 3.0]))
        assert (match.valid, match.label, match.labels) == (False, "", [])
        answer = self.find(graph, np.ones(3))
        assert (answer.success, answer.labels) == (True, [])

    def test_places_are_found_as_by_an_exact_search(self, places: Talk, graph: Any) -> None:
        for number, embedding in enumerate(self.EMBEDDINGS):
            answer = self.add(graph, f"place {number}", embedding)
            assert (answer.success, answer.places) == (True, number + 1)
        query = self.EMBEDDINGS[70] + self.EMBEDDINGS[140]
        units = self.EMBEDDINGS / np.linalg.norm(self.EMBEDDINGS, axis=1, keepdims=True)
        cosines = units @ query / np.linalg.norm(query)
        best = np.argsort(-cosines)[:5]
        answer = self.find(graph, query, 5)
        assert answer.labels == [f"place {number}" for number in best]
        assert answer.scores == pytest.approx(cosines[best], abs=1e-5)
        match = places.ask(numbers(query))
        assert match.labels == answer.labels
        assert not match.valid
        assert match.label == ""
        match = places.ask(numbers(self.EMBEDDINGS[33] * 100))
        assert (match.valid, match.label) == (True, "place 33")
        assert match.scores[0] == pytest.approx(1.0)

    def test_the_last_embedding_can_be_named(self, places: Talk, graph: Any) -> None:
        embedding = random.normal(size=80)
        places.ask(numbers(embedding))
        assert self.add(graph, "here", []).places == 151
        assert places.ask(numbers(embedding)).label == "here"

    def test_a_place_is_removed(self, graph: Any) -> None:
        answer = graph.call(RemovePlace, "/place_recognition/remove_place", label="place 33")
        assert (answer.success, answer.removed, answer.places) == (True, 1, 150)
        assert self.find(graph, self.EMBEDDINGS[33]).labels != ["place 33"]
        answer = graph.call(RemovePlace, "/place_recognition/remove_place", label="place 33")
        assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_INPUT)
        assert "expected one of 150 places" in answer.message
        assert (answer.removed, answer.places, answer.embeddings) == (0, 150, 150)

    def test_a_place_is_replaced(self, graph: Any) -> None:
        assert self.add(graph, "place 5", self.EMBEDDINGS[33], replace=True).embeddings == 150
        assert self.find(graph, self.EMBEDDINGS[33]).labels == ["place 5"]
        assert self.find(graph, self.EMBEDDINGS[5]).scores[0] < 0.9

    def test_places_are_saved_and_loaded(self, graph: Any, home: Path) -> None:
        saved = graph.call(SaveFile, "/place_recognition/save_places", name="home")
        assert saved.path == str(home / "home.npz")
        listed = graph.call(ListPlaces, "/place_recognition/list_places")
        for label in listed.labels:
            assert graph.call(RemovePlace, "/place_recognition/remove_place", label=label).success
        assert self.find(graph, self.EMBEDDINGS[7]).labels == []
        assert graph.call(LoadFile, "/place_recognition/load_places", name="home").success
        again = graph.call(ListPlaces, "/place_recognition/list_places")
        assert (again.labels, again.embeddings, again.dimension) == (listed.labels, listed.embeddings, 80)
        assert self.find(graph, self.EMBEDDINGS[7]).labels == ["place 7"]

    @pytest.mark.parametrize(
        ("label", "embedding", "reason"),
        [
            ("x", [1.0] * 79, "expected an embedding of 80 values; got 79"),
            ("x", [math.nan] * 80, "NaN"),
            ("x", [0.0] * 80, "zeros only"),
            ("", [1.0] * 80, "expected a label"),
        ],
        ids=["dimension", "NaN", "zeros", "no label"],
    )
    def test_an_invalid_place_is_refused(
        self, graph: Any, label: str, embedding: list[float], reason: str
    ) -> None:
        answer = self.add(graph, label, embedding)
        assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_INPUT)
        assert reason in answer.message
        assert answer.embeddings == 150

    def test_a_missing_file_of_places_is_answered_with_the_files_there_are(
        self, graph: Any, home: Path
    ) -> None:
        answer = graph.call(LoadFile, "/place_recognition/load_places", name="office")
        assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_INPUT)
        assert f"expected a file {home / 'office.npz'}; that directory holds: home" in answer.message

    def test_a_bad_embedding_is_reported_once_and_skipped(
        self, places: Talk, processes: dict[str, Any]
    ) -> None:
        for _ in range(3):
            places.say(numbers([1.0, 2.0]))
        assert places.ask(numbers(self.EMBEDDINGS[7])).label == "place 7"
        assert processes["place_recognition"].output.count("got 2. Further ones") == 1


@pytest.mark.skipif(not hasattr(Subscription, "CallbackType"), reason="rclpy of Humble has no times")
@pytest.mark.usefixtures("processes")
def test_targets_without_stamps_that_are_delivered_late_belong_to_the_samples_before_them(
    graph: Any, home: Path
) -> None:
    values = {"driver": "/edgetpu", "model_dir": str(home), "model": "dense_64", "qos_depth": 100}
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
def untrained(graph: Any, home: Path) -> Iterator[tuple[ReservoirNode, Callable[[list[float]], None]]]:
    """A reservoir without a driver, and what hands it a signal's sample."""
    values = {"driver": "/nobody", "model_dir": str(home), "model": "dense_64", "size": 20, "washout": 0}
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


def test_a_trained_reservoir_keeps_its_size(untrained: Any) -> None:
    node, hear = untrained
    node._network.inputs_are(3)
    node._readout = RidgeReadout(24, 1)
    node._readout.weights = np.zeros((1, 24))
    for _ in range(2 * IN_A_ROW):
        with pytest.raises(InputError, match="expected a sample of 3 values"):
            hear(np.array([0.5]))
    assert node._network.inputs == 3


@pytest.mark.skipif(not hasattr(Subscription, "CallbackType"), reason="rclpy of Humble has no times")
def test_targets_without_stamps_belong_to_the_samples_they_came_after_however_busy_the_node_is(
    start_node: Callable[..., Any], graph: Any, home: Path
) -> None:
    start_node(
        "edgetpu_perception",
        "single_process",
        *("-r", "__ns:=/busy"),
        *("--", "--nodes", "reservoir"),
        backend="cpu",
        model_dirs=f"['{home}']",
        model_dir=home,
        model="dense_64",
        size=20,
        washout=20,
        qos_reliability="reliable",
        qos_depth=QUEUE_DEPTH,
    )
    talk = Talk(graph, Float32MultiArray, "/busy/signal", Prediction, "/busy/reservoir/prediction")
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


def test_in_one_process_the_driver_is_called_directly(
    start_node: Callable[..., Any], graph: Any, home: Path
) -> None:
    process = start_node(
        "edgetpu_perception",
        "single_process",
        *("-r", "__ns:=/alone"),
        *("--", "--nodes", "place_recognition,spectrum,reservoir"),
        backend="virtual",
        model_dirs=f"['{home}']",
        model_dir=home,
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
    spectra = Talk(graph, Float32MultiArray, "/alone/signal", Spectrum, "/alone/spectrum/spectrum", 2)
    spectrum = spectra.ask(numbers(np.sin(2 * np.pi * 20 / 128 * np.arange(128))))
    assert spectrum.peak_frequency == pytest.approx(20.0, abs=0.1)
    graph.spin_until(lambda: bool(predictions))
    embeddings = TestPlaceRecognition.EMBEDDINGS
    for number, embedding in enumerate(embeddings):
        graph.call(
            AddPlace,
            "/alone/place_recognition/add_place",
            label=str(number),
            embedding=embedding.tolist(),
        )
    for number in (0, 80, 149):
        answer = graph.call(
            FindPlace, "/alone/place_recognition/find_place", embedding=embeddings[number].tolist()
        )
        assert list(answer.labels) == [str(number)]
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
    talk = Talk(graph, Float32MultiArray, "/real/signal", Spectrum, "/real/spectrum/spectrum")
    samples = random.normal(size=256)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(256) / 256)
    exact = np.abs(np.fft.rfft((samples - samples.mean()) * window))[1:-1] * 2 / window.sum()
    error = np.array(talk.ask(numbers(samples)).amplitudes)[1:-1] - exact
    assert 10 * np.log10((exact**2).sum() / (error**2).sum()) > 28


@pytest.mark.usefixtures("reservoir", "places")
def test_weights_are_set_on_models_of_their_own(graph: Any) -> None:
    loaded = [info.name for info in graph.call(ListModels, "/edgetpu/list_models").models]
    tiles = sorted(name for name in loaded if name.startswith("reservoir/dense_64/"))
    assert tiles == [f"reservoir/dense_64/{index}" for index in range(4)]


@pytest.mark.usefixtures("places")
def test_everything_goes_on_after_the_driver_was_started_anew(
    graph: Any,
    processes: dict[str, Any],
    start_driver: Callable[[], Any],
    reservoir: Talk,
) -> None:
    embedding = np.random.default_rng(9).normal(size=TestPlaceRecognition.EMBEDDINGS.shape[1]).tolist()
    graph.call(AddPlace, "/place_recognition/add_place", label="the kitchen", embedding=embedding)
    processes["edgetpu"].stop()
    diagnostics = graph.collect(DiagnosticArray, "/diagnostics")
    graph.spin_until(
        lambda: any(
            status.name == "place_recognition: messages" and "waiting for the driver" in status.message
            for report in diagnostics
            for status in report.status
        )
    )
    answer = graph.call(FindPlace, "/place_recognition/find_place", embedding=embedding)
    assert (answer.success, answer.error.value) == (False, ErrorCode.UNAVAILABLE)
    reservoir.results.clear()
    reservoir.say(TestReservoir().sample(400))
    processes["edgetpu"] = start_driver()
    assert reservoir.wait()[0].header.stamp.sec > 0

    def found() -> bool:
        answer = graph.call(FindPlace, "/place_recognition/find_place", embedding=embedding)
        return list(answer.labels) == ["the kitchen"]

    graph.spin_until(found)


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


@pytest.mark.parametrize("name", ["reservoir", "forecast", "place_recognition", "spectrum", "edgetpu"])
def test_it_stops_cleanly(processes: dict[str, Any], name: str) -> None:
    processes[name].stop()
