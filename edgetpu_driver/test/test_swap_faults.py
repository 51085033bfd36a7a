"""Faults in every transfer of a swap: it completes or fails, results show which, weights never mix."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import DeviceError, ModelNotFoundError, ModelUnsupportedError, UnavailableError
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.matrix.loaded_matrix import ProductRequest, needs_tiles
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer, can_strike
from edgetpu_driver.virtual.simulated_clock import SimulatedClock
from edgetpu_driver.weights.weight_locations import WeightLocations
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata import ModelFolder
from testdata.devices.virtual_backend import backend_of
from testdata.timeouts import PATIENCE

SIZE = 64
GRAPH = dense.build(SIZE)
RNG = np.random.default_rng(0)
X = {"x": RNG.integers(0, 256, (1, SIZE), np.uint8)}
VECTOR = RNG.standard_normal(2 * SIZE)
OLD, NEW = (RNG.uniform(-1, 1, (SIZE, SIZE)).astype(np.float32) for _ in range(2))
OLD_TILES, NEW_TILES = (np.tile(matrix, (2, 2)) for matrix in (OLD, NEW))
FAULTS = DeviceError, UnavailableError
TRANSFERS = {Transfer.BULK_OUT: 2, Transfer.EVENT: 1}
"""The transfers of an upload: instructions, parameters, and the completion event."""
STRIKES = [
    (fault, on) for on in (Transfer.BULK_OUT, Transfer.EVENT) for fault in Fault if can_strike(fault, on)
]


@pytest.fixture(scope="module")
def expected() -> list[NDArray[Any]]:
    """Outputs of the model for X with the old and the new weights."""
    engine, results = CpuEngine(GRAPH), []
    for weights in (OLD, NEW):
        engine.set_weights(WeightRequest(weights))
        results.append(engine.run(X)["y"])
    return results


@pytest.fixture
def stick() -> VirtualEdgeTpu:
    stick = VirtualEdgeTpu()
    stick.clock = SimulatedClock()
    return stick


@pytest.fixture
def make_host(stick: VirtualEdgeTpu, tmp_path: Path) -> Callable[..., ModelHost]:
    """A host whose stick is opened again by the test when it did not recover."""
    (tmp_path / "dense.tflite").write_bytes(GRAPH)

    def make() -> ModelHost:
        backend = backend_of(stick)
        host = ModelHost(backend, [tmp_path])
        host.connect()
        host.load("dense")
        return host

    return make


def mend(host: ModelHost, stick: VirtualEdgeTpu) -> None:
    """What a host that was started and a user at the port do."""
    for _ in range(20):
        if host.state is State.READY:
            return
        if not stick.is_plugged:
            stick.plug()
        host.connect()
        stick.clock.sleep(1.0)
    pytest.fail(f"the stick did not come back: {host.status_message}")


def persistently(host: ModelHost, stick: VirtualEdgeTpu, work: Callable[[], Any]) -> Any:
    """Do the work once the stick is present; a pending fault may affect it too."""
    for _ in range(20):
        mend(host, stick)
        try:
            return work()
        except FAULTS:
            pass
    pytest.fail("the stick fails again and again")


def swapped(host: ModelHost, request: WeightRequest) -> bool:
    """Whether a swap was completed."""
    try:
        host.set_weights("dense", request)
    except FAULTS:
        return False
    return True


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("fault", "on"), STRIKES, ids=lambda each: each.name)
def test_a_swap_is_completed_or_leaves_the_old_weights(
    make_host: Any, stick: VirtualEdgeTpu, expected: Any, fault: Fault, on: Transfer, times: int
) -> None:
    host = make_host()
    version = 0
    for after in range(TRANSFERS[on]):
        persistently(host, stick, lambda: host.set_weights("dense", WeightRequest(OLD)))
        stick.fail(fault, on, after, times)
        completed = swapped(host, WeightRequest(NEW))
        assert times == 2 or not stick.faults.waiting
        version += 1 + completed
        for _ in range(2):
            inference = persistently(host, stick, lambda: host.invoke("dense", X))
            assert inference.weights_version == host.model("dense").weights_version == version
            np.testing.assert_array_equal(inference.outputs["y"], expected[completed])
    stick.fail(fault, on, TRANSFERS[on])
    assert swapped(host, WeightRequest(NEW))
    assert stick.faults.waiting, "there are more transfers than were tried"


@pytest.mark.parametrize("fault", [Fault.UNPLUG, Fault.TIMEOUT, Fault.SHORT_PACKET, Fault.CHIP_FAULT])
@pytest.mark.parametrize("on", [Transfer.BULK_OUT, Transfer.EVENT])
def test_so_is_a_swap_of_a_matrix_in_tiles(
    make_host: Any, stick: VirtualEdgeTpu, fault: Fault, on: Transfer
) -> None:
    host = make_host()
    version = 0
    for after in range(4 * TRANSFERS[on]):
        persistently(host, stick, lambda: host.set_weights("dense", WeightRequest(OLD_TILES)))
        stick.fail(fault, on, after)
        completed = swapped(host, WeightRequest(NEW_TILES))
        assert not stick.faults.waiting
        version += 1 + completed
        matrix = NEW_TILES if completed else OLD_TILES
        product = persistently(host, stick, lambda: host.multiply("dense", ProductRequest(VECTOR, passes=2)))
        assert product.weights_version == host.model("dense").weights_version == version
        np.testing.assert_allclose(product.outputs, matrix @ VECTOR, atol=0.6)


def test_results_carry_the_weights_version_through_failed_swaps_and_lost_sticks(
    make_host: Any, stick: VirtualEdgeTpu, expected: Any
) -> None:
    host = make_host()
    host.set_weights("dense", WeightRequest(OLD))
    effective, done = {1: False}, threading.Event()
    inferences: list[InferenceResult] = []

    def keep_asking() -> None:
        while not done.is_set():
            with suppress(*FAULTS):
                inferences.append(host.invoke("dense", X))

    threads = [threading.Thread(target=keep_asking, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(60):
        fault, on = STRIKES[number % len(STRIKES)]
        stick.fail(fault, on, int(RNG.integers(6)))
        new = bool(number % 2)
        version = host.model("dense").weights_version
        effective[version + 1] = new  # unless it fails: then the next swap has that number
        if not swapped(host, WeightRequest(NEW if new else OLD)):
            assert host.model("dense").weights_version == version
        inferences.append(persistently(host, stick, lambda: host.invoke("dense", X)))
    done.set()
    for thread in threads:
        thread.join()
    assert len({each.weights_version for each in inferences}) > 5
    for each in inferences:
        np.testing.assert_array_equal(each.outputs["y"], expected[effective[each.weights_version]])


@pytest.mark.parametrize("weights", [NEW, NEW_TILES], ids=["one tile", "four tiles"])
def test_weights_for_a_model_being_reloaded_take_effect_or_are_refused(
    make_host: Any, expected: Any, weights: NDArray[Any]
) -> None:
    host = make_host()
    done, outcomes, in_effect = threading.Event(), [], threading.Event()

    def keep_loading() -> None:
        for long_enough in cycle((False, True)):
            if done.is_set():
                return
            host.load("dense")
            if long_enough:
                in_effect.clear()
                done.is_set() or in_effect.wait(PATIENCE)
            else:
                time.sleep(0.01)  # too short for a swap of tiles
            host.unload("dense")

    loader = threading.Thread(target=keep_loading, daemon=True)
    loader.start()
    end = time.monotonic() + PATIENCE
    while min(outcomes.count("in effect"), outcomes.count("refused")) < 5 and time.monotonic() < end:
        try:
            version = host.set_weights("dense", WeightRequest(weights)).version
            inference = host.invoke("dense", X) if weights is NEW else None
        except ModelNotFoundError:  # noqa: PERF203
            outcomes.append("refused")
            time.sleep(0.001)  # lets the loader run
        else:
            outcomes.append("in effect")
            in_effect.set()
            if inference is not None and inference.weights_version == version:
                np.testing.assert_array_equal(inference.outputs["y"], expected[True])
    done.set()
    in_effect.set()
    loader.join()
    assert min(outcomes.count("in effect"), outcomes.count("refused")) >= 5


@pytest.mark.parametrize("weights", [NEW, NEW_TILES], ids=["one tile", "four tiles"])
def test_a_device_that_was_reopened_since_the_request_has_the_old_weights(
    make_host: Any, expected: Any, weights: NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host()
    host.set_weights("dense", WeightRequest(OLD))
    opened = threading.Event()

    def open_anew(*args: Any) -> bool:
        monkeypatch.undo()
        host.reset()
        host.connect()
        opened.set()
        return needs_tiles(*args)

    monkeypatch.setattr("edgetpu_driver.host.models.model_replica.needs_tiles", open_anew)
    with pytest.raises(FAULTS):
        host.set_weights("dense", WeightRequest(weights))
    assert opened.wait(PATIENCE)
    np.testing.assert_array_equal(host.invoke("dense", X).outputs["y"], expected[False])
    product = host.multiply("dense", ProductRequest(VECTOR[:SIZE], passes=2))
    np.testing.assert_allclose(product.outputs, OLD @ VECTOR[:SIZE], atol=0.4)


class TestWeightsOfACompiledModel:
    """Whose location was known from the graph next to it, which is gone when the device is reopened."""

    INPUTS: ClassVar = {"": np.zeros((1, 64, 64, 1), np.uint8)}

    @pytest.fixture
    def host(self, make_host: Any, tmp_path: Path, golden: ModelFolder) -> ModelHost:
        for name in ("looming_64x64_3x3.tflite", "looming_64x64_3x3_edgetpu.tflite"):
            shutil.copy(golden.model(name), tmp_path)
        host: ModelHost = make_host()
        host.load("looming_64x64_3x3_edgetpu", "looming")
        kernel = np.zeros((1, 3, 3, 1), np.float32)
        host.set_weights("looming", WeightRequest(kernel, tensor="tfl.pseudo_qconst"))
        (tmp_path / "looming_64x64_3x3.tflite").unlink()
        return host

    def test_they_are_put_back(self, host: ModelHost) -> None:
        host.reset()
        host.connect()
        assert host.invoke("looming", self.INPUTS).weights_version == 1

    def test_if_they_cannot_be_put_back_the_model_does_not_run_with_others(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(WeightLocations, "select", Mock(side_effect=ModelUnsupportedError("lost")))
        host.reset()
        host.connect()
        assert (host.state, host.model("looming").weights_version) == (State.READY, 1)
        with pytest.raises(ModelUnsupportedError, match="lost"):
            host.invoke("looming", self.INPUTS)
        assert host.invoke("dense", X).weights_version == 0

    def test_they_are_put_back_once_the_model_is_loaded_again(
        self, host: ModelHost, tmp_path: Path, golden: ModelFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(WeightLocations, "select", Mock(side_effect=ModelUnsupportedError("lost")))
            host.reset()
            host.connect()
            with pytest.raises(ModelUnsupportedError, match="lost"):
                host.invoke("looming", self.INPUTS)
        assert "lost" in host.model("looming").message
        shutil.copy(golden.model("looming_64x64_3x3.tflite"), tmp_path)
        again = host.load("looming_64x64_3x3_edgetpu", "looming", client="/other")
        assert (again.weights_version, host.invoke("looming", self.INPUTS).weights_version) == (1, 1)
