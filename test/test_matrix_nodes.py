"""Reservoir and place recognition with a driver and a virtual stick, each in its own process."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Point, PointStamped, Vector3, Vector3Stamped
from std_msgs.msg import Float32MultiArray, Header
from std_srvs.srv import Trigger

from edgetpu_driver.node_kit.clients import matrix_client
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductResult
from edgetpu_driver.node_kit.clients.matrix_client import MatrixClient
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_matrix import EchoStateNetwork
from edgetpu_msgs.msg import ErrorCode, PlaceMatch, Prediction
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
from testdata.running_nodes.matrix_node_messages import (
    EMBEDDINGS,
    MATRIX,
    QUEUE_DEPTH,
    Exchange,
    numbers,
    options,
    start_matrix_driver,
    time_of,
    train,
)
from testdata.timeouts import PATIENCE

random = np.random.default_rng(18)


@pytest.fixture(scope="module")
def start_driver(start_node: Callable[..., Any], matrix_home: Path) -> Callable[[], Any]:
    return functools.partial(start_matrix_driver, start_node, matrix_home)


@pytest.fixture(scope="module")
def processes(
    start_node: Callable[..., Any], start_driver: Callable[[], Any], matrix_home: Path
) -> dict[str, Any]:
    """A driver, and the nodes with topics of their own; the matrices of two are larger than the model."""
    common = options(matrix_home)
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
    }


@pytest.fixture(scope="module")
def reservoir(graph: Any, processes: dict[str, Any]) -> Exchange:  # noqa: ARG001
    return Exchange(graph, PointStamped, "/input", Prediction, "/reservoir/prediction")


@pytest.fixture(scope="module")
def forecast(graph: Any, processes: dict[str, Any]) -> Exchange:  # noqa: ARG001
    return Exchange(graph, Float32MultiArray, "/forecast_input", Prediction, "/forecast/prediction")


@pytest.fixture(scope="module")
def places(graph: Any, processes: dict[str, Any]) -> Exchange:  # noqa: ARG001
    return Exchange(graph, Float32MultiArray, "/embedding", PlaceMatch, "/place_recognition/match")


class TestReservoir:
    @staticmethod
    def signal(step: int) -> float:
        return math.sin(0.2 * step) + 0.5 * math.sin(0.311 * step)

    def sample(self, step: int) -> PointStamped:
        return PointStamped(header=Header(stamp=time_of(100 + step)), point=Point(x=self.signal(step)))

    def target(self, step: int) -> list[float]:
        return [self.signal(step + 3), 2 * self.signal(step - 5) + 7]

    def test_it_learns_from_targets_that_come_before_or_after_the_samples(
        self, reservoir: Exchange, graph: Any
    ) -> None:
        targets = graph.node.create_publisher(Vector3Stamped, "/target", QUEUE_DEPTH)
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

    def test_the_trained_readout_is_saved_and_loaded(
        self, reservoir: Exchange, graph: Any, matrix_home: Path
    ) -> None:
        saved = graph.call(SaveFile, "/reservoir/save_readout", name="sines")
        assert (saved.success, saved.path) == (True, str(matrix_home / "sines.npz"))
        training = graph.call(TrainReadout, "/reservoir/train_readout", regularization=1e6)
        assert training.success
        assert reservoir.ask(self.sample(340)).confidence < 0.1
        loaded = graph.call(LoadFile, "/reservoir/load_readout", name="sines")
        assert (loaded.success, loaded.path) == (True, saved.path)
        assert reservoir.ask(self.sample(341)).confidence > 0.995

    def test_after_a_reset_it_forgets_the_past_but_not_the_readout(
        self, reservoir: Exchange, graph: Any
    ) -> None:
        assert graph.call(Trigger, "/reservoir/reset").success
        prediction = reservoir.ask(self.sample(342))
        assert (prediction.step, prediction.valid) == (1, False)
        assert all(map(math.isnan, prediction.values))
        for step in range(343, 363):
            prediction = reservoir.ask(self.sample(step))
        assert (prediction.step, prediction.valid) == (21, True)

    def test_when_time_goes_back_it_starts_again(self, reservoir: Exchange) -> None:
        assert reservoir.ask(self.sample(0)).step == 1

    def test_bad_samples_are_skipped(self, reservoir: Exchange) -> None:
        for bad in (math.nan, math.inf):
            sample = self.sample(1)
            sample.point.x = bad
            reservoir.say(sample)
        assert reservoir.ask(self.sample(2)).step == 2

    def test_it_can_predict_the_signal_itself(self, forecast: Exchange, graph: Any) -> None:
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
            ("none", "none.npz; that directory has"),
        ],
    )
    def test_a_bad_file_is_refused(self, graph: Any, name: str, reason: str) -> None:
        answer = graph.call(LoadFile, "/reservoir/load_readout", name=name)
        assert not answer.success
        assert answer.error.value == ErrorCode.BAD_INPUT
        assert reason in answer.message

    def test_a_matrix_of_several_tiles_is_uploaded_once(
        self,
        reservoir: Exchange,
        forecast: Exchange,
        graph: Any,
        matrix_home: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def uploads() -> int:
            return int(graph.call(GetDeviceInfo, "/edgetpu/get_device_info").status.uploads)

        (matrix_home / "dense_256.tflite").write_bytes(dense.build(256))
        network = EchoStateNetwork(512)
        reservoir.ask(self.sample(0))  # the nodes have set weights of their own
        forecast.ask(numbers(0.0))
        # A driver that stands still for a while is not taken for lost, after which it would upload again.
        patient = functools.partial(matrix_client.ModelClient, request_timeout=PATIENCE / 3)
        monkeypatch.setattr(matrix_client, "ModelClient", patient)
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
    def find(self, graph: Any, embedding: np.ndarray, count: int = 1) -> Any:
        """The places; asked for again while the driver does not answer the node."""
        request = {"embedding": list(embedding), "count": count}
        answer: Any = None
        while answer is None or answer.error.value == ErrorCode.UNAVAILABLE:
            answer = graph.call(FindPlace, "/place_recognition/find_place", **request)
        return answer

    def add(self, graph: Any, label: str, embedding: Any, **options: Any) -> Any:
        return graph.call(
            AddPlace, "/place_recognition/add_place", label=label, embedding=list(embedding), **options
        )

    def test_without_places_there_is_no_match(self, places: Exchange, graph: Any) -> None:
        match = places.ask(numbers([1.0, 2.0, 3.0]))
        assert (match.valid, match.label, match.labels) == (False, "", [])
        answer = self.find(graph, np.ones(3))
        assert (answer.success, answer.labels) == (True, [])

    def test_places_are_found_as_by_an_exact_search(self, places: Exchange, graph: Any) -> None:
        for number, embedding in enumerate(EMBEDDINGS):
            answer = self.add(graph, f"place {number}", embedding)
            assert (answer.success, answer.places) == (True, number + 1)
        query = EMBEDDINGS[70] + EMBEDDINGS[140]
        units = EMBEDDINGS / np.linalg.norm(EMBEDDINGS, axis=1, keepdims=True)
        cosines = units @ query / np.linalg.norm(query)
        best = np.argsort(-cosines)[:5]
        answer = self.find(graph, query, 5)
        assert answer.labels == [f"place {number}" for number in best]
        assert answer.scores == pytest.approx(cosines[best], abs=1e-5)
        match = places.ask_again(numbers(query))
        assert match.labels == answer.labels
        assert not match.valid
        assert match.label == ""
        match = places.ask_again(numbers(EMBEDDINGS[33] * 100))
        assert (match.valid, match.label) == (True, "place 33")
        assert match.scores[0] == pytest.approx(1.0)

    def test_the_last_embedding_can_be_named(self, places: Exchange, graph: Any) -> None:
        embedding = random.normal(size=80)
        places.ask_again(numbers(embedding))
        assert self.add(graph, "here", []).places == 151
        assert places.ask_again(numbers(embedding)).label == "here"

    def test_a_place_is_removed(self, graph: Any) -> None:
        answer = graph.call(RemovePlace, "/place_recognition/remove_place", label="place 33")
        assert (answer.success, answer.removed, answer.places) == (True, 1, 150)
        assert self.find(graph, EMBEDDINGS[33]).labels != ["place 33"]
        answer = graph.call(RemovePlace, "/place_recognition/remove_place", label="place 33")
        assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_INPUT)
        assert "expected the label of one of the 150 places" in answer.message
        assert (answer.removed, answer.places, answer.embeddings) == (0, 150, 150)

    def test_a_place_is_replaced(self, graph: Any) -> None:
        assert self.add(graph, "place 5", EMBEDDINGS[33], replace=True).embeddings == 150
        assert self.find(graph, EMBEDDINGS[33]).labels == ["place 5"]
        assert self.find(graph, EMBEDDINGS[5]).scores[0] < 0.9

    def test_places_are_saved_and_loaded(self, graph: Any, matrix_home: Path) -> None:
        saved = graph.call(SaveFile, "/place_recognition/save_places", name="home")
        assert saved.path == str(matrix_home / "home.npz")
        listed = graph.call(ListPlaces, "/place_recognition/list_places")
        for label in listed.labels:
            assert graph.call(RemovePlace, "/place_recognition/remove_place", label=label).success
        assert self.find(graph, EMBEDDINGS[7]).labels == []
        assert graph.call(LoadFile, "/place_recognition/load_places", name="home").success
        again = graph.call(ListPlaces, "/place_recognition/list_places")
        assert (again.labels, again.embeddings, again.dimension) == (listed.labels, listed.embeddings, 80)
        assert self.find(graph, EMBEDDINGS[7]).labels == ["place 7"]

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
        self, graph: Any, matrix_home: Path
    ) -> None:
        answer = graph.call(LoadFile, "/place_recognition/load_places", name="office")
        assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_INPUT)
        assert f"expected a file {matrix_home / 'office.npz'}; that directory has: home" in answer.message

    def test_a_bad_embedding_is_reported_once_and_skipped(
        self, places: Exchange, processes: dict[str, Any]
    ) -> None:
        for _ in range(3):
            places.say(numbers([1.0, 2.0]))
        assert places.ask_again(numbers(EMBEDDINGS[7])).label == "place 7"
        assert processes["place_recognition"].output.count("got 2. Further ones") == 1


@pytest.mark.usefixtures("reservoir", "places")
def test_weights_are_set_on_models_of_their_own(graph: Any) -> None:
    loaded = [info.name for info in graph.call(ListModels, "/edgetpu/list_models").models]
    tiles = sorted(name for name in loaded if name.startswith("reservoir/dense_64/"))
    assert tiles == [f"reservoir/dense_64/{index}" for index in range(4)]


@pytest.mark.usefixtures("places")
def test_everything_continues_after_the_driver_was_restarted(
    graph: Any,
    processes: dict[str, Any],
    start_driver: Callable[[], Any],
    reservoir: Exchange,
) -> None:
    embedding = np.random.default_rng(9).normal(size=EMBEDDINGS.shape[1]).tolist()
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


@pytest.mark.parametrize("name", ["reservoir", "forecast", "place_recognition", "edgetpu"])
def test_it_stops_cleanly(processes: dict[str, Any], name: str) -> None:
    processes[name].stop()
