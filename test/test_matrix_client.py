"""The matrix client with a driver in the same process: its products, what it refuses, and its states."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import UnavailableError
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.matrix import product_passes
from edgetpu_driver.node_kit.clients import local_drivers, matrix_client
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductResult
from edgetpu_driver.node_kit.clients.matrix_client import MatrixClient, MatrixState
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.graph_draft import Graph
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_matrix import EngineMatrix
from testdata.timeouts import PATIENCE

DRIVER = "/in_this_process"
random = np.random.default_rng(2)


class LocalDriver:
    """A model host that is called as the driver node of this process."""

    def __init__(self, folder: Path) -> None:
        self.host = ModelHost(CpuBackend(), [folder])
        self.host.connect()
        self.submit_load = self.host.submit_load

    def active_host(self) -> ModelHost:
        return self.host


def dense_with(**options: Any) -> bytes:
    graph = GraphBuilder("more")
    x = graph.input("x", (1, 8), np.int8, scale=1 / 127, zero_point=0)
    weights = np.eye(8, dtype=np.int8)
    graph.output(graph.fully_connected(x, weights, [1 / 127] * 8, scale=0.1, zero_point=0, **options))
    return graph.build()


def unsigned_dense(zero_point: int) -> bytes:
    """A Dense graph of 8 rows with uint8 tensors, whose weights have this zero point."""
    signed = GraphBuilder()
    x = signed.input("x", (1, 8), np.int8, scale=1 / 127, zero_point=0)
    signed.output(signed.fully_connected(x, np.eye(8, dtype=np.int8), 1 / 127, scale=8 / 127, zero_point=0))
    tensors = []
    for tensor in signed.tensors:
        point = zero_point if tensor.data else 128
        quantisation = replace(tensor.quantization, zero_points=np.array([point]))
        tensors.append(replace(tensor, dtype=np.dtype(np.uint8), quantization=quantisation))
    return Graph.of("unsigned", tensors, signed.operators, [0], [len(tensors) - 1]).build()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[LocalDriver]:
    (tmp_path / "dense_64.tflite").write_bytes(dense.build(64))
    (tmp_path / "biased.tflite").write_bytes(dense_with(bias=np.full(8, 100_000)))
    (tmp_path / "activated.tflite").write_bytes(dense_with(activation="RELU"))
    (tmp_path / "unsigned.tflite").write_bytes(unsigned_dense(30))
    driver = LocalDriver(tmp_path)
    local_drivers.register(DRIVER, driver)
    yield driver
    local_drivers.unregister(DRIVER)
    driver.host.close()


@pytest.fixture
def make_client(
    graph: Any,
    driver: LocalDriver,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., MatrixClient]]:
    # On a busy machine no request counts as lost.
    patient = functools.partial(matrix_client.ModelClient, request_timeout=PATIENCE)
    monkeypatch.setattr(matrix_client, "ModelClient", patient)
    clients = []

    def make(model: str = "dense_64", **options: Any) -> MatrixClient:
        clients.append(MatrixClient(graph.node, model, name="matrix", driver=DRIVER, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def product_of(client: MatrixClient, graph: Any, vector: Any) -> ProductResult:
    results: list[ProductResult] = []
    assert client.multiply(vector, results.append)
    graph.spin_until(lambda: bool(results))
    return results[0]


@pytest.mark.parametrize("rescale_rows", [False, True], ids=["compiled scales", "rescaled rows"])
def test_its_products_are_those_of_engines_of_this_process(
    graph: Any, make_client: Any, rescale_rows: bool
) -> None:
    matrix = random.normal(size=(100, 150))
    here = EngineMatrix([CpuEngine(dense.build(64)) for _ in range(6)], rescale_rows=rescale_rows)
    here.set(matrix)
    client = make_client(rescale_rows=rescale_rows, passes=2)
    client.set_matrix(matrix)
    graph.spin_until(lambda: client.ready)
    assert np.array_equal(client.effective, here.effective)
    vectors = [*random.normal(size=(20, 150)), matrix[3]]  # the last one has to be repeated
    for vector in vectors:
        there, expected = product_of(client, graph, vector).product, here.multiply(vector, passes=2)
        assert there is not None
        assert np.array_equal(there.outputs, expected.outputs)
        assert np.array_equal(there.inputs, expected.inputs)


def test_weights_of_uint8_are_planned_with_their_zero_point(graph: Any, make_client: Any) -> None:
    matrix = random.uniform(-30, 225, (10, 12)) / 127
    here = EngineMatrix([CpuEngine(unsigned_dense(30)) for _ in range(4)])
    here.set(matrix)
    client = make_client("unsigned")
    client.set_matrix(matrix)
    graph.spin_until(lambda: client.ready)
    assert np.array_equal(client.effective, here.effective)
    assert np.abs(client.effective - matrix).max() < 0.01
    vector = random.normal(size=12)
    product = product_of(client, graph, vector).product
    assert product is not None
    assert np.array_equal(product.outputs, here.multiply(vector).outputs)


@pytest.mark.parametrize("model", ["biased", "activated"])
@pytest.mark.parametrize("rescale_rows", [False, True], ids=["compiled scales", "rescaled rows"])
def test_a_layer_that_does_more_than_multiply_is_refused(
    graph: Any, make_client: Any, model: str, rescale_rows: bool
) -> None:
    client = make_client(model, rescale_rows=rescale_rows)
    client.set_matrix(np.eye(4))
    graph.spin_until(lambda: client.state is MatrixState.REFUSED)
    assert client.problem.startswith(f"model '{model}': expected a Dense model, which only multiplies")
    assert not client.multiply(np.ones(4), lambda _: None)


def test_it_is_ready_once_a_matrix_is_set(graph: Any, make_client: Any) -> None:
    states: list[MatrixState] = []
    client = make_client(on_ready=lambda: states.append(client.state))
    assert client.state is MatrixState.LOADING
    graph.spin_until(lambda: client.state is MatrixState.IDLE)
    assert states == []
    client.set_matrix(np.eye(3))
    graph.spin_until(lambda: client.ready)
    assert states == [MatrixState.READY]
    client.set_matrix(2 * np.eye(3))
    graph.spin_until(lambda: client.ready)
    assert states == [MatrixState.READY] * 2
    product = product_of(client, graph, [1.0, 0.0, -1.0]).product
    assert product is not None
    assert product.outputs == pytest.approx([2.0, 0.0, -2.0], abs=0.05)


def test_a_product_may_be_requested_from_a_result_callback(graph: Any, make_client: Any) -> None:
    client = make_client()
    client.set_matrix(np.eye(3))
    graph.spin_until(lambda: client.ready)
    asked: list[bool] = []
    client.multiply(np.ones(3), lambda _: asked.append(client.multiply(np.ones(3), lambda _: None)))
    graph.spin_until(lambda: bool(asked))
    assert asked == [True]


def test_a_matrix_of_too_many_tiles_is_refused_and_a_smaller_one_taken(graph: Any, make_client: Any) -> None:
    client = make_client()
    client.set_matrix(np.ones((64 * 257, 1)))
    graph.spin_until(lambda: client.state is MatrixState.REFUSED)
    assert client.problem.endswith("64 x 64; got 16448 x 1")
    client.set_matrix(np.eye(3))
    graph.spin_until(lambda: client.state is MatrixState.READY)


def test_weights_are_set_again_when_the_driver_has_lost_the_model(
    graph: Any, make_client: Any, driver: LocalDriver
) -> None:
    client = make_client()
    client.set_matrix(np.eye(3))
    graph.spin_until(lambda: client.ready)
    driver.host.unload("matrix/0", "/tester")
    assert product_of(client, graph, np.ones(3)).error is not None
    assert not client.ready
    graph.spin_until(lambda: client.ready)
    product = product_of(client, graph, np.ones(3)).product
    assert product is not None
    assert product.outputs == pytest.approx(np.ones(3), abs=0.05)


def test_a_problem_of_a_tile_that_is_not_needed_any_more_does_not_count(
    graph: Any, make_client: Any, driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy of the model gets no more requests, of which one would have to succeed."""

    def no_host() -> ModelHost:
        raise UnavailableError("the stick was pulled")

    client = make_client()
    client.set_matrix(np.ones((100, 3)))
    graph.spin_until(lambda: client.ready)
    with monkeypatch.context() as patched:
        patched.setattr(driver, "active_host", no_host)
        assert isinstance(product_of(client, graph, np.ones(3)).error, UnavailableError)
        assert client.problem == "the stick was pulled"
    client.set_matrix(np.eye(3))
    graph.spin_until(lambda: client.ready)
    assert client.problem == ""


def test_weights_that_the_driver_refused_are_sent_again(
    graph: Any, make_client: Any, driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_client, "REFUSAL_PERIOD", 0.0)
    replicas: list[ModelReplica] = []

    def refuse() -> None:
        replica = driver.host.model("matrix/0").replicas[0]
        replica.unsupported_reason = "its weights are lost"
        replicas.append(replica)

    client = make_client()
    graph.spin_until(lambda: client.state is MatrixState.IDLE)
    refuse()
    client.set_matrix(np.eye(3))
    graph.spin_until(lambda: client.refusal is not None)
    assert client.problem == "model 'matrix/0' cannot run here: its weights are lost"
    replicas[0].unsupported_reason = ""
    graph.spin_until(lambda: client.ready)


def test_a_product_that_fails_unexpectedly_does_not_hold_up_others(
    graph: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client()
    client.set_matrix(np.eye(3))
    graph.spin_until(lambda: client.ready)

    def failing(*_arguments: Any) -> Iterator[Any]:
        yield []
        raise ValueError("no reason")

    with monkeypatch.context() as patched:
        patched.setattr(product_passes, "multiply", failing)
        result = product_of(client, graph, np.ones(3))
    assert str(result.error) == "unexpected ValueError: no reason"
    assert product_of(client, graph, np.ones(3)).product is not None


def test_a_client_that_is_closed_does_not_multiply(graph: Any, make_client: Any) -> None:
    client = make_client()
    client.set_matrix(np.eye(3))
    graph.spin_until(lambda: client.ready)
    client.close()
    assert client.state is MatrixState.CLOSED
    assert not client.multiply(np.ones(3), lambda _: None)
