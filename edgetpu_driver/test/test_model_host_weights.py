"""New weights for a loaded model: never mixed, and effective until the next swap whatever happens."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.backends.virtual import VirtualStickBackend, pack_for_virtual_stick
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import (
    ClippingError,
    DeviceError,
    InputError,
    ModelNotFoundError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host.host_limits import HostLimits
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.request_terms import Priority, RequestTerms
from edgetpu_driver.matrix.loaded_matrix import LoadedMatrix, ProductRequest
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.usb.firmware import FirmwareImage
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from edgetpu_driver.weights.weight_tensors import INT8_MAX

pytestmark = pytest.mark.usefixtures("graphs_in_this_process")

IMAGE = FirmwareImage(b"firmware", hashlib.sha256(b"firmware").hexdigest())
SIZE = 64
ONES = {"x": np.full((1, SIZE), 255, np.uint8)}


Prepare = Callable[[], Callable[[], WeightResult]]


def around_prepare_weights(
    monkeypatch: pytest.MonkeyPatch, replaced: Callable[[Prepare], Callable[[], WeightResult]]
) -> None:
    """Let engines of either kind prepare weights through `replaced`, which gets the original call."""
    for kind in (CpuEngine, StickEngine):

        def prepare(engine: Any, request: WeightRequest, original: Any = kind.prepare_weights) -> Any:
            return replaced(lambda: original(engine, request))

        monkeypatch.setattr(kind, "prepare_weights", prepare)


def corner(value: float) -> WeightRequest:
    """A matrix with one value in it."""
    return WeightRequest(np.array([[value]], np.float32))


def effective(inference: InferenceResult) -> float:
    """The weight value that a result was computed with, to the model's resolution."""
    return float((int(inference.outputs["y"][0, 0]) - 128) * dense.output_scale(SIZE))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "dense.tflite").write_bytes(dense.build(SIZE))
    (tmp_path / "other.tflite").write_bytes(dense.build(2 * SIZE))
    graph = GraphBuilder()
    x = graph.input("x", (1, 4), np.int8, scale=1, zero_point=0)
    graph.output(graph.add(x, x, scale=1, zero_point=0, name="y"))
    (tmp_path / "sum.tflite").write_bytes(graph.build())
    return tmp_path


@pytest.fixture
def stick() -> VirtualEdgeTpu:
    return VirtualEdgeTpu()


@pytest.fixture(params=["cpu", "virtual"])
def host(request: pytest.FixtureRequest, stick: VirtualEdgeTpu, models: Path) -> ModelHost:
    return make_host(request.param, stick, models)


@pytest.fixture
def stick_host(stick: VirtualEdgeTpu, models: Path) -> ModelHost:
    return make_host("virtual", stick, models)


def make_host(backend: str, stick: VirtualEdgeTpu, models: Path) -> ModelHost:
    if backend == "cpu":
        host = ModelHost(CpuBackend(), [models])
    else:
        device = VirtualStickBackend(
            lambda on_phase: EdgeTpu.open(stick, firmware=IMAGE, on_phase=on_phase),
            stick.register_model,
            pack,
        )
        host = ModelHost(device, [models])
    host.connect()
    host.load("dense")
    return host


def test_results_tell_with_which_weights_they_were_made(host: ModelHost) -> None:
    assert host.invoke("dense", ONES).weights_version == 0
    for version, value in ((1, 0.5), (2, -0.25)):
        assert host.set_weights("dense", corner(value)).version == version
        inference = host.invoke("dense", ONES)
        assert inference.weights_version == host.model("dense").weights_version == version
        assert effective(inference) == pytest.approx(value, abs=0.02)


def test_one_file_under_two_names_has_two_sets_of_weights(host: ModelHost) -> None:
    host.load("dense", "mine")
    host.set_weights("mine", corner(0.5))
    host.set_weights("dense", corner(-0.5))
    assert effective(host.invoke("mine", ONES)) == pytest.approx(0.5, abs=0.02)
    assert effective(host.invoke("dense", ONES)) == pytest.approx(-0.5, abs=0.02)
    assert host.model("mine").weights_version == 1


@pytest.mark.parametrize(
    ("name", "request_", "error"),
    [
        ("nobody", corner(0.5), ModelNotFoundError),
        ("sum", corner(0.5), ModelUnsupportedError),
        ("dense", corner(float("nan")), InputError),
        ("dense", corner(float("inf")), InputError),
        ("dense", corner(5.0), ClippingError),
        ("dense", WeightRequest(np.zeros((60 * SIZE, 60 * SIZE), np.float32)), InputError),
        ("dense", WeightRequest(np.zeros((1, SIZE, SIZE), np.float32)), InputError),
        ("dense", WeightRequest(np.zeros(0, np.float32)), InputError),
    ],
)
def test_a_refused_request_changes_nothing(
    host: ModelHost, name: str, request_: WeightRequest, error: type[Exception]
) -> None:
    host.load("sum")
    host.set_weights("dense", corner(0.5))
    with pytest.raises(error):
        host.set_weights(name, request_)
    inference = host.invoke("dense", ONES)
    assert (inference.weights_version, effective(inference)) == (1, pytest.approx(0.5, abs=0.02))


def test_the_caller_may_reuse_its_array(host: ModelHost) -> None:
    weights = np.array([[0.5]], np.float32)
    host.set_weights("dense", WeightRequest(weights))
    weights[:] = -0.5
    host.reset()
    host.connect()
    assert effective(host.invoke("dense", ONES)) == pytest.approx(0.5, abs=0.02)


def test_loading_the_same_file_again_keeps_the_weights_and_unloading_drops_them(host: ModelHost) -> None:
    host.set_weights("dense", corner(0.5))
    host.load("dense")
    assert host.model("dense").weights_version == 1
    host.unload("dense")
    host.load("dense")
    assert host.invoke("dense", ONES).weights_version == 0
    assert effective(host.invoke("dense", ONES)) != pytest.approx(0.5, abs=0.02)


def test_without_a_device_new_weights_are_refused_and_the_present_ones_come_back_with_it(
    stick_host: ModelHost, stick: VirtualEdgeTpu
) -> None:
    stick_host.set_weights("dense", corner(0.5))
    stick.unplug()
    stick_host.refresh()
    with pytest.raises(UnavailableError, match="no device"):
        stick_host.set_weights("dense", corner(-0.5))
    stick.plug()
    stick_host.connect()
    inference = stick_host.invoke("dense", ONES)
    assert (inference.weights_version, effective(inference)) == (1, pytest.approx(0.5, abs=0.02))


@pytest.mark.parametrize("transfer", range(2))
def test_a_stick_that_fails_in_mid_swap_has_the_old_weights_afterwards(
    stick_host: ModelHost, stick: VirtualEdgeTpu, transfer: int
) -> None:
    stick_host.set_weights("dense", corner(0.5))
    stick.fail(Fault.UNPLUG, Transfer.BULK_OUT, after=transfer)
    with pytest.raises(DeviceError):
        stick_host.set_weights("dense", corner(-0.5))
    assert stick_host.state is State.ABSENT
    stick.plug()
    stick_host.connect()
    inference = stick_host.invoke("dense", ONES)
    assert (inference.weights_version, effective(inference)) == (1, pytest.approx(0.5, abs=0.02))
    assert stick_host.set_weights("dense", corner(-0.5)).version == 2


def test_weights_for_a_model_that_is_unloaded_meanwhile_are_refused(
    host: ModelHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    unloading = threading.Thread(target=host.unload, args=("dense",))

    def unload_first(prepare: Prepare) -> Callable[[], WeightResult]:
        unloading.start()
        while host.models():
            pass
        return prepare()

    around_prepare_weights(monkeypatch, unload_first)
    with pytest.raises(ModelNotFoundError, match="unloaded before its new weights were in effect"):
        host.set_weights("dense", corner(0.5))
    unloading.join()


def test_an_inference_during_a_swap_does_not_wait_for_its_end(
    host: ModelHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.set_weights("dense", corner(0.5))
    before = effective(host.invoke("dense", ONES))
    answers: list[InferenceResult] = []

    def ask_meanwhile(prepare: Prepare) -> Callable[[], WeightResult]:
        commit = prepare()
        answers.append(host.invoke("dense", ONES))
        return commit

    around_prepare_weights(monkeypatch, ask_meanwhile)
    assert host.set_weights("dense", corner(-0.5)).version == 2
    assert [(effective(answer), answer.weights_version) for answer in answers] == [(before, 1)]
    after = host.invoke("dense", ONES)
    assert (effective(after), after.weights_version) == (-before, 2)


def test_every_result_belongs_to_the_weights_it_tells_while_they_are_swapped(host: ModelHost) -> None:
    host.load("dense", "other")
    host.set_weights("other", corner(0.75))
    values = [0.0, *np.random.default_rng(0).uniform(-1, 1, 40)]
    host.set_weights("dense", corner(0.0))
    inferences: list[InferenceResult] = []
    others: list[InferenceResult] = []
    done = threading.Event()

    def keep_asking(name: str, results: list[InferenceResult]) -> None:
        while not done.is_set():
            results.append(host.invoke(name, ONES))

    threads = [
        threading.Thread(target=keep_asking, args=pair) for pair in (("dense", inferences), ("other", others))
    ]
    for thread in threads:
        thread.start()
    for value in values[1:]:
        host.set_weights("dense", corner(value))
        before = len(inferences)
        while len(inferences) < before + 2:
            time.sleep(0)
    done.set()
    for thread in threads:
        thread.join()
    assert all(effective(each) == pytest.approx(0.75, abs=0.02) for each in others)
    for each in inferences:
        assert effective(each) == pytest.approx(values[each.weights_version - 1], abs=0.02)
    assert len({each.weights_version for each in inferences}) >= len(values) - 1


class TestLongWork:
    """The test holds one piece of long work, submits another request, and lets go."""

    def test_a_more_urgent_request_runs_between_two_inferences_of_a_product(
        self, stick_host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, go_on, run = threading.Event(), threading.Event(), StickEngine.run

        def held_run(engine: StickEngine, inputs: Any) -> Any:
            begun.set()
            go_on.wait(10)
            return run(engine, inputs)

        monkeypatch.setattr(StickEngine, "run", held_run)
        answers: SimpleQueue[Any] = SimpleQueue()
        product = ProductRequest(np.ones(4 * SIZE, np.float32), batch=4, passes=2)
        stick_host.submit_multiply("dense", product, answers.put)
        assert begun.wait(10)
        stick_host.submit_invoke("dense", ONES, answers.put, RequestTerms("/eye", Priority.REAL_TIME))
        go_on.set()
        assert [type(answers.get(timeout=10)) for _ in range(2)] == [InferenceResult, Product]

    def test_other_models_run_while_new_weights_are_prepared(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go_on = threading.Event()
        host.load("other")

        def hold(prepare: Prepare) -> Callable[[], WeightResult]:
            go_on.wait(10)
            return prepare()

        around_prepare_weights(monkeypatch, hold)
        answers: SimpleQueue[Any] = SimpleQueue()
        tiles = WeightRequest(np.zeros((4 * SIZE, 4 * SIZE), np.float32))
        host.submit_set_weights("other", tiles, answers.put)
        assert host.invoke("dense", ONES).weights_version == 0
        go_on.set()
        assert answers.get(timeout=10).version == 1

    def test_a_swap_waits_for_the_product_under_way_which_has_the_old_weights(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def held_product(_matrix: object, _product: object, _weights: object) -> Any:
            begun.set()
            yield lambda: go_on.wait(10)
            return Product(np.zeros(1, np.float32), 0, 1.0, np.zeros(1, np.float32), 0)

        monkeypatch.setattr(LoadedMatrix, "multiplying", held_product)
        answers: SimpleQueue[Any] = SimpleQueue()
        host.submit_multiply("dense", ProductRequest(np.ones(SIZE, np.float32)), answers.put)
        assert begun.wait(10)
        host.submit_set_weights("dense", corner(0.5), answers.put)
        assert host.invoke("dense", ONES).weights_version == 0
        go_on.set()
        product, swap = answers.get(timeout=10), answers.get(timeout=10)
        assert (product.weights_version, swap.version) == (0, 1)
        assert host.invoke("dense", ONES).weights_version == 1


class TestProducts:
    MATRIX = np.random.default_rng(1).standard_normal((SIZE, SIZE)).astype(np.float32)
    VECTOR = np.random.default_rng(2).standard_normal(SIZE)

    def error(self, host: ModelHost, matrix: Any, vector: Any) -> float:
        product = host.multiply("dense", ProductRequest(vector, passes=2))
        assert product.weights_version == host.model("dense").weights_version
        return float(np.linalg.norm(product.outputs - matrix @ vector) / np.linalg.norm(matrix @ vector))

    def test_weights_are_multiplied_by_as_they_are(self, host: ModelHost) -> None:
        matrix = self.MATRIX[:20, :30] / 5
        host.set_weights("dense", WeightRequest(matrix))
        assert self.error(host, matrix, self.VECTOR[:30]) < 0.03

    def test_rescaled_weights_use_the_full_range_without_changing_invoke(self, host: ModelHost) -> None:
        matrix = 1e-3 * self.MATRIX
        host.set_weights("dense", WeightRequest(matrix, rescale_rows=True))
        assert self.error(host, matrix, self.VECTOR) < 0.02
        steps = np.rint(self.VECTOR * 30).clip(-127, 127)
        outputs = host.invoke("dense", {"x": (steps + 128).astype(np.uint8)[np.newaxis]}).outputs["y"]
        expected = matrix @ (steps / INT8_MAX) / dense.output_scale(SIZE) + 128
        assert np.abs(outputs[0] - expected).max() <= 1
        assert self.error(host, matrix, self.VECTOR) < 0.02

    def test_a_larger_matrix_is_cut_into_tiles_which_invoke_refuses(self, host: ModelHost) -> None:
        matrix = np.tile(self.MATRIX, (2, 3))
        swap = host.set_weights("dense", WeightRequest(matrix, rescale_rows=True))
        assert (swap.version, swap.row_scales.shape) == (1, (2 * SIZE,))
        assert self.error(host, matrix, np.tile(self.VECTOR, 3)) < 0.02
        with pytest.raises(InputError, match=r"holds a matrix \[128, 192\] in tiles"):
            host.invoke("dense", ONES)
        host.set_weights("dense", corner(0.5))
        assert effective(host.invoke("dense", ONES)) == pytest.approx(0.5, abs=0.02)

    def test_tiles_are_limited(self, models: Path) -> None:
        host = ModelHost(CpuBackend(), [models], limits=HostLimits(tiles=4))
        host.connect()
        host.load("dense")
        host.set_weights("dense", WeightRequest(np.zeros((2 * SIZE, 2 * SIZE), np.float32)))
        with pytest.raises(
            InputError, match=r"at most 4 tiles of \[64, 64\]; got \[65, 129\], which takes 6"
        ):
            host.set_weights("dense", WeightRequest(np.zeros((SIZE + 1, 2 * SIZE + 1), np.float32)))
        host.close()

    def test_tiles_come_back_with_the_device(self, stick_host: ModelHost) -> None:
        matrix = np.tile(self.MATRIX, (2, 1))
        stick_host.set_weights("dense", WeightRequest(matrix, rescale_rows=True))
        stick_host.reset()
        stick_host.connect()
        assert self.error(stick_host, matrix, self.VECTOR) < 0.02

    def test_the_files_own_weights_can_be_multiplied_by(self, host: ModelHost) -> None:
        product = host.multiply("dense", ProductRequest(np.eye(SIZE)[0]))
        assert (product.outputs.shape, product.weights_version) == ((SIZE,), 0)
        assert np.abs(product.outputs).max() > 0.9

    def test_a_model_that_is_not_a_matrix_is_refused(self, host: ModelHost) -> None:
        host.load("sum")
        with pytest.raises(ModelUnsupportedError):
            host.multiply("sum", ProductRequest(np.ones(4)))

    def test_tiles_of_a_packed_graph_stay_in_memory_until_another_model_runs(
        self, stick_host: ModelHost
    ) -> None:
        def uploads() -> int:
            stick_host.refresh()
            return stick_host.status().readings.uploads

        matrix, vector = np.tile(self.MATRIX, (2, 3)), np.tile(self.VECTOR, 3)
        stick_host.set_weights("dense", WeightRequest(matrix, rescale_rows=True))
        assert uploads() == 6
        for _ in range(2):
            assert self.error(stick_host, matrix, vector) < 0.02
        assert uploads() == 6
        stick_host.load("other")
        stick_host.invoke("other", {"x": np.zeros((1, 2 * SIZE), np.uint8)})
        assert self.error(stick_host, matrix, vector) < 0.02
        assert uploads() == 6 + 1 + 6

    @pytest.mark.parametrize("copies", [0, 1, 3])
    def test_a_compiled_model_keeps_one_resident_tile_per_compiled_copy(
        self, stick_host: ModelHost, models: Path, copies: int
    ) -> None:
        stems = ["compiled", *(f"compiled_copy{number + 2}" for number in range(copies))]
        together = pack_for_virtual_stick(dict.fromkeys(stems, dense.build(SIZE)), together=True)
        for stem in stems:
            (models / f"{stem}.tflite").write_bytes(dense.build(SIZE))
            (models / f"{stem}_edgetpu.tflite").write_bytes(together[stem])
        stick_host.load("compiled_edgetpu", "compiled")
        matrix = np.tile(self.MATRIX, (2, 2))
        stick_host.set_weights("compiled", WeightRequest(matrix, rescale_rows=True))
        for _ in range(3):
            product = stick_host.multiply("compiled", ProductRequest(np.tile(self.VECTOR, 2), passes=2))
            expected = matrix @ np.tile(self.VECTOR, 2)
            assert np.linalg.norm(product.outputs - expected) < 0.02 * np.linalg.norm(expected)
        stick_host.refresh()
        # Tiles beyond the copies share the model's region, and are uploaded once for all passes; the one set
        # last is still there for the first product.
        in_turn = {0: 3 * 4 - 1, 1: 3 * 3 - 1, 3: 0}
        assert stick_host.status().readings.uploads == 4 + in_turn[copies]


def test_a_hidden_layer_may_be_larger_than_the_output_of_its_network(host: ModelHost, models: Path) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 4), np.int8, scale=1 / 127, zero_point=0)
    hidden = graph.fully_connected(
        x, np.zeros((16, 4), np.int8), 1 / 127, scale=1 / 127, zero_point=0, name="hidden"
    )
    mean = np.ones((2, 16), np.int8)
    graph.output(graph.fully_connected(hidden, mean, 1 / 16, scale=1 / 127, zero_point=0, name="y"))
    (models / "network.tflite").write_bytes(graph.build())
    host.load("network")
    host.set_weights("network", WeightRequest(np.full((16, 4), 0.25), tensor="hidden/weights"))
    outputs = host.invoke("network", {"x": np.full((1, 4), 100, np.int8)}).outputs["y"]
    np.testing.assert_allclose(outputs, [[101, 101]], atol=1)
