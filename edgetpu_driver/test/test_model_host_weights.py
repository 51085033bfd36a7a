"""New weights for a loaded model: never mixed, and effective until the next swap whatever happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

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
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.host.shared_inference.shared_inference import SharedInference
from edgetpu_driver.matrix.loaded_matrix import LoadedMatrix, ProductRequest
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from testdata.devices.hosted_matrix import ONES, SIZE, corner, effective
from testdata.timeouts import PATIENCE

pytestmark = pytest.mark.usefixtures("graphs_in_this_process")


Prepare = Callable[[], Callable[[], WeightResult]]


def around_prepare_weights(
    monkeypatch: pytest.MonkeyPatch, replaced: Callable[[Prepare], Callable[[], WeightResult]]
) -> None:
    """Let engines of either kind prepare weights through `replaced`, which gets the original call."""
    for kind in (CpuEngine, StickEngine):

        def prepare(engine: Any, request: WeightRequest, original: Any = kind.prepare_weights) -> Any:
            return replaced(lambda: original(engine, request))

        monkeypatch.setattr(kind, "prepare_weights", prepare)


def test_results_tell_with_which_weights_they_were_made(matrix_host: ModelHost) -> None:
    assert matrix_host.invoke("dense", ONES).weights_version == 0
    for version, value in ((1, 0.5), (2, -0.25)):
        assert matrix_host.set_weights("dense", corner(value)).version == version
        inference = matrix_host.invoke("dense", ONES)
        assert inference.weights_version == matrix_host.model("dense").weights_version == version
        assert effective(inference) == pytest.approx(value, abs=0.02)


def test_one_file_under_two_names_has_two_sets_of_weights(matrix_host: ModelHost) -> None:
    matrix_host.load("dense", "mine")
    matrix_host.set_weights("mine", corner(0.5))
    matrix_host.set_weights("dense", corner(-0.5))
    assert effective(matrix_host.invoke("mine", ONES)) == pytest.approx(0.5, abs=0.02)
    assert effective(matrix_host.invoke("dense", ONES)) == pytest.approx(-0.5, abs=0.02)
    assert matrix_host.model("mine").weights_version == 1


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
    matrix_host: ModelHost, name: str, request_: WeightRequest, error: type[Exception]
) -> None:
    matrix_host.load("sum")
    matrix_host.set_weights("dense", corner(0.5))
    with pytest.raises(error):
        matrix_host.set_weights(name, request_)
    inference = matrix_host.invoke("dense", ONES)
    assert (inference.weights_version, effective(inference)) == (1, pytest.approx(0.5, abs=0.02))


def test_new_weights_are_acknowledged_whatever_happens_to_joint_graphs(
    matrix_host: ModelHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(SharedInference, "weights_changed", fail)
    assert matrix_host.set_weights("dense", corner(0.5)).version == 1


def test_the_caller_may_reuse_its_arrays(matrix_host: ModelHost) -> None:
    weights, gains = np.array([[0.5]], np.float32), np.ones(1)
    matrix_host.set_weights("dense", WeightRequest(weights, row_gains=gains))
    weights[:], gains[:] = -0.5, 0.25
    matrix_host.reset()
    matrix_host.connect()
    assert effective(matrix_host.invoke("dense", ONES)) == pytest.approx(0.5, abs=0.02)


def test_loading_the_same_file_again_keeps_the_weights_and_unloading_drops_them(
    matrix_host: ModelHost,
) -> None:
    matrix_host.set_weights("dense", corner(0.5))
    matrix_host.load("dense")
    assert matrix_host.model("dense").weights_version == 1
    matrix_host.unload("dense")
    matrix_host.load("dense")
    assert matrix_host.invoke("dense", ONES).weights_version == 0
    assert effective(matrix_host.invoke("dense", ONES)) != pytest.approx(0.5, abs=0.02)


def test_without_a_device_new_weights_are_refused_and_the_present_ones_come_back_with_it(
    stick_matrix_host: ModelHost, stick: VirtualEdgeTpu
) -> None:
    stick_matrix_host.set_weights("dense", corner(0.5))
    stick.unplug()
    stick_matrix_host.refresh()
    with pytest.raises(UnavailableError, match="no device"):
        stick_matrix_host.set_weights("dense", corner(-0.5))
    stick.plug()
    stick_matrix_host.connect()
    inference = stick_matrix_host.invoke("dense", ONES)
    assert (inference.weights_version, effective(inference)) == (1, pytest.approx(0.5, abs=0.02))


@pytest.mark.parametrize("transfer", range(2))
def test_a_stick_that_fails_in_mid_swap_has_the_old_weights_afterwards(
    stick_matrix_host: ModelHost, stick: VirtualEdgeTpu, transfer: int
) -> None:
    stick_matrix_host.set_weights("dense", corner(0.5))
    stick.fail(Fault.UNPLUG, Transfer.BULK_OUT, after=transfer)
    with pytest.raises(DeviceError):
        stick_matrix_host.set_weights("dense", corner(-0.5))
    assert stick_matrix_host.state is State.ABSENT
    stick.plug()
    stick_matrix_host.connect()
    inference = stick_matrix_host.invoke("dense", ONES)
    assert (inference.weights_version, effective(inference)) == (1, pytest.approx(0.5, abs=0.02))
    assert stick_matrix_host.set_weights("dense", corner(-0.5)).version == 2


def test_weights_for_a_model_that_is_unloaded_meanwhile_are_refused(
    matrix_host: ModelHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    unloading = threading.Thread(target=matrix_host.unload, args=("dense",))

    def unload_first(prepare: Prepare) -> Callable[[], WeightResult]:
        unloading.start()
        while matrix_host.models():
            pass
        return prepare()

    around_prepare_weights(monkeypatch, unload_first)
    with pytest.raises(ModelNotFoundError, match="unloaded before its new weights were in effect"):
        matrix_host.set_weights("dense", corner(0.5))
    unloading.join()


def test_an_inference_during_a_swap_does_not_wait_for_its_end(
    matrix_host: ModelHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix_host.set_weights("dense", corner(0.5))
    before = effective(matrix_host.invoke("dense", ONES))
    answers: list[InferenceResult] = []

    def ask_meanwhile(prepare: Prepare) -> Callable[[], WeightResult]:
        commit = prepare()
        answers.append(matrix_host.invoke("dense", ONES))
        return commit

    around_prepare_weights(monkeypatch, ask_meanwhile)
    assert matrix_host.set_weights("dense", corner(-0.5)).version == 2
    assert [(effective(answer), answer.weights_version) for answer in answers] == [(before, 1)]
    after = matrix_host.invoke("dense", ONES)
    assert (effective(after), after.weights_version) == (-before, 2)


def test_every_result_belongs_to_the_weights_it_tells_while_they_are_swapped(matrix_host: ModelHost) -> None:
    matrix_host.load("dense", "other")
    matrix_host.set_weights("other", corner(0.75))
    values = [0.0, *np.random.default_rng(0).uniform(-1, 1, 40)]
    matrix_host.set_weights("dense", corner(0.0))
    inferences: list[InferenceResult] = []
    others: list[InferenceResult] = []
    done = threading.Event()

    def keep_asking(name: str, results: list[InferenceResult]) -> None:
        while not done.is_set():
            results.append(matrix_host.invoke(name, ONES))

    threads = [
        threading.Thread(target=keep_asking, args=pair) for pair in (("dense", inferences), ("other", others))
    ]
    for thread in threads:
        thread.start()
    for value in values[1:]:
        matrix_host.set_weights("dense", corner(value))
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
        self, stick_matrix_host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, go_on, run = threading.Event(), threading.Event(), StickEngine.run

        def held_run(engine: StickEngine, inputs: Any) -> Any:
            begun.set()
            go_on.wait(PATIENCE)
            return run(engine, inputs)

        monkeypatch.setattr(StickEngine, "run", held_run)
        answers: SimpleQueue[Any] = SimpleQueue()
        product = ProductRequest(np.ones(4 * SIZE, np.float32), batch=4, passes=2)
        stick_matrix_host.submit_multiply("dense", product, answers.put)
        assert begun.wait(PATIENCE)
        stick_matrix_host.submit_invoke(
            "dense", ONES, answers.put, RequestTerms("/tracker", Priority.REAL_TIME)
        )
        go_on.set()
        assert [type(answers.get(timeout=PATIENCE)) for _ in range(2)] == [InferenceResult, Product]

    def test_other_models_run_while_new_weights_are_prepared(
        self, matrix_host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go_on = threading.Event()
        matrix_host.load("other")

        def hold(prepare: Prepare) -> Callable[[], WeightResult]:
            go_on.wait(PATIENCE)
            return prepare()

        around_prepare_weights(monkeypatch, hold)
        answers: SimpleQueue[Any] = SimpleQueue()
        tiles = WeightRequest(np.zeros((4 * SIZE, 4 * SIZE), np.float32))
        matrix_host.submit_set_weights("other", tiles, answers.put)
        assert matrix_host.invoke("dense", ONES).weights_version == 0
        go_on.set()
        assert answers.get(timeout=PATIENCE).version == 1

    def test_a_swap_waits_for_the_product_under_way_which_has_the_old_weights(
        self, matrix_host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def held_product(_matrix: object, _product: object, _weights: object) -> Any:
            begun.set()
            yield lambda: go_on.wait(PATIENCE)
            return Product(np.zeros(1, np.float32), 0, 1.0, np.zeros(1, np.float32), 0)

        monkeypatch.setattr(LoadedMatrix, "multiplying", held_product)
        answers: SimpleQueue[Any] = SimpleQueue()
        matrix_host.submit_multiply("dense", ProductRequest(np.ones(SIZE, np.float32)), answers.put)
        assert begun.wait(PATIENCE)
        matrix_host.submit_set_weights("dense", corner(0.5), answers.put)
        assert matrix_host.invoke("dense", ONES).weights_version == 0
        go_on.set()
        product, swap = answers.get(timeout=PATIENCE), answers.get(timeout=PATIENCE)
        assert (product.weights_version, swap.version) == (0, 1)
        assert matrix_host.invoke("dense", ONES).weights_version == 1
