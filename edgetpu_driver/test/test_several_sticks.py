"""Several sticks of one host: they share the work, and hand it over when one is gone."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import DeviceLostError, TransferError, UnavailableError
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.sticks import stick_slot
from edgetpu_driver.host.sticks.model_spreading import Spreading
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.usb.link import ENDPOINT_ACTIVATIONS
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.devices.virtual_backend import backend_of
from testdata.timeouts import PATIENCE

SIZES = (64, 128)
RNG = np.random.default_rng(12)
IN_FLIGHT = 16
CHAOS_REQUESTS = 2000


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sticks leave requests to each other by their simulated clocks, however long a thread stands still."""
    monkeypatch.setattr(stick_slot, "STUCK_SECONDS", PATIENCE)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    for size in SIZES:
        (tmp_path / f"dense_{size}.tflite").write_bytes(dense.build(size))
    return tmp_path


def make_sticks(count: int) -> list[VirtualEdgeTpu]:
    return [VirtualEdgeTpu(ports=(number + 1,)) for number in range(count)]


def make_host(
    sticks: list[VirtualEdgeTpu], models: Path, spreading: Spreading = Spreading.REPLICATED
) -> ModelHost:
    host = ModelHost([backend_of(stick) for stick in sticks], [models], spreading=spreading)
    host.connect()
    for size in SIZES:
        host.load(f"dense_{size}")
    return host


@pytest.fixture
def sticks() -> list[VirtualEdgeTpu]:
    return make_sticks(2)


@pytest.fixture
def host(sticks: list[VirtualEdgeTpu], models: Path) -> Iterator[ModelHost]:
    host = make_host(sticks, models)
    yield host
    host.close()


def vector(size: int) -> dict[str, NDArray[Any]]:
    return {"x": RNG.integers(0, 256, (1, size), np.uint8)}


def run_all(
    host: ModelHost, requests: list[tuple[str, dict[str, NDArray[Any]]]], before: Callable[[int], None]
) -> list[Any]:
    """Answers to all requests, IN_FLIGHT at a time; `before` is called with the number of each request."""
    answers: list[Any] = [None] * len(requests)
    finished: queue.SimpleQueue[int] = queue.SimpleQueue()
    slots = threading.Semaphore(IN_FLIGHT)

    def submit(number: int) -> None:
        def done(answer: Any) -> None:
            assert answers[number] is None, "answered twice"
            answers[number] = answer
            finished.put(number)
            slots.release()

        host.submit_invoke(*requests[number], done)

    for number in range(len(requests)):
        assert slots.acquire(timeout=PATIENCE)
        before(number)
        submit(number)
    for _ in requests:
        finished.get(timeout=PATIENCE)
    return answers


def inferences(host: ModelHost) -> list[int]:
    """How many each stick has run."""
    return [stick.inferences for stick in host.status().sticks]


@pytest.mark.usefixtures("patience")
class TestThroughput:
    def rate(self, count: int, models: Path) -> float:
        """Requests by the largest of the simulated clocks."""
        sticks = make_sticks(count)
        host = make_host(sticks, models)
        requests = [(f"dense_{size}", vector(size)) for size in np.random.default_rng(0).choice(SIZES, 600)]
        start = [stick.clock.monotonic() for stick in sticks]
        run_all(host, requests, lambda _number: None)
        elapsed = max(stick.clock.monotonic() - begun for stick, begun in zip(sticks, start, strict=True))
        host.close()
        return len(requests) / elapsed

    @pytest.mark.parametrize("count", [2, 4])
    def test_so_many_sticks_are_so_many_times_as_fast(self, models: Path, count: int) -> None:
        assert self.rate(count, models) > 0.95 * count * self.rate(1, models)


class TestWeights:
    def test_all_sticks_have_new_weights_when_they_are_answered(self, host: ModelHost) -> None:
        x, engine = vector(64), CpuEngine(dense.build(64))
        for version in (1, 2, 3):
            weights = WeightRequest(RNG.uniform(-1, 1, (64, 64)).astype(np.float32))
            assert host.set_weights("dense_64", weights).version == version
            engine.set_weights(weights)
            expected = engine.run(x)["y"]
            before = inferences(host)
            while any(map(int.__eq__, before, inferences(host))):  # a stick has not run one yet
                for result in run_all(host, [("dense_64", x)] * 10, lambda _number: None):
                    assert result.weights_version == version
                    np.testing.assert_array_equal(result.outputs["y"], expected)

    def test_a_matrix_in_tiles_is_on_all_sticks(self, host: ModelHost) -> None:
        matrix, x = RNG.standard_normal((128, 128)).astype(np.float32), RNG.standard_normal(128)
        host.set_weights("dense_64", WeightRequest(matrix, rescale_rows=True))
        while min(inferences(host)) == 0:
            product = host.multiply("dense_64", ProductRequest(x, passes=2))
            assert product.weights_version == 1
            assert np.linalg.norm(product.outputs - matrix @ x) < 0.02 * np.linalg.norm(matrix @ x)


class TestLostSticks:
    @pytest.mark.usefixtures("patience")
    def test_another_stick_runs_what_a_lost_one_was_running(
        self, host: ModelHost, sticks: list[VirtualEdgeTpu]
    ) -> None:
        x = vector(64)
        expected = CpuEngine(dense.build(64)).run(x)["y"]
        sticks[0].fail(Fault.UNPLUG, Transfer.EVENT, after=2)
        for _ in range(6):
            np.testing.assert_array_equal(host.invoke("dense_64", x).outputs["y"], expected)
        assert [stick.is_plugged for stick in sticks].count(True) == 1
        assert [stick.state for stick in host.status().sticks].count(State.READY) == 1

    def test_without_any_stick_the_error_is_that_of_the_last_one(
        self, host: ModelHost, sticks: list[VirtualEdgeTpu]
    ) -> None:
        for stick in sticks:
            stick.unplug()
        with pytest.raises(DeviceLostError):
            host.invoke("dense_64", vector(64))
        with pytest.raises(UnavailableError, match="no device"):
            host.invoke("dense_64", vector(64))

    def test_a_request_that_makes_sticks_fail_is_not_handed_on_for_ever(self, models: Path) -> None:
        sticks = make_sticks(3)
        host = make_host(sticks, models)
        for stick in sticks:
            stick.fail(Fault.STALL, Transfer.OUTPUT, times=2)  # also when it is tried once more
        with pytest.raises(TransferError):
            host.invoke("dense_64", vector(64))
        assert [stick.state for stick in host.status().sticks].count(State.READY) == 1
        host.close()

    def test_a_stick_that_is_plugged_in_again_joins_with_the_weights_in_effect(
        self, host: ModelHost, sticks: list[VirtualEdgeTpu]
    ) -> None:
        x, engine = vector(64), CpuEngine(dense.build(64))
        sticks[0].unplug()
        host.refresh()
        weights = WeightRequest(RNG.uniform(-1, 1, (64, 64)).astype(np.float32))
        host.set_weights("dense_64", weights)
        engine.set_weights(weights)
        sticks[0].plug()
        host.connect()
        sticks[1].unplug()
        result = host.invoke("dense_64", x)
        assert result.weights_version == 1
        np.testing.assert_array_equal(result.outputs["y"], engine.run(x)["y"])

    def test_sticks_pulled_and_plugged_at_random_lose_nothing_and_give_nothing_wrong(
        self, models: Path
    ) -> None:
        sticks = make_sticks(3)
        host = make_host(sticks, models)
        host.start(refresh_period=0.02, retry_period=0.002)
        random = np.random.default_rng(3)
        sizes = random.choice(SIZES, CHAOS_REQUESTS)
        requests = [(f"dense_{size}", vector(size)) for size in sizes]
        weights = [RNG.uniform(-1, 1, (64, 64)).astype(np.float32) for _ in range(CHAOS_REQUESTS // 200)]
        by_version: dict[int, WeightRequest] = {}
        kills = 0

        def swap(request: WeightRequest) -> None:
            def done(answer: Any) -> None:
                by_version[answer.version] = request

            host.submit_set_weights("dense_64", request, done)

        def before(number: int) -> None:
            nonlocal kills
            if number % 200 == 100:
                swap(WeightRequest(weights[number // 200]))
            if random.random() > 0.05:
                return
            chosen = int(random.integers(len(sticks)))
            ready = [stick.state is State.READY for stick in host.status().sticks]
            if not sticks[chosen].is_plugged:
                sticks[chosen].plug()
            elif sum(ready[:chosen] + ready[chosen + 1 :]) and all(
                stick.is_plugged for stick, is_ready in zip(sticks, ready, strict=True) if is_ready
            ):
                sticks[chosen].unplug()
                kills += 1

        answers = run_all(host, requests, before)
        host.close()
        assert kills > CHAOS_REQUESTS / 200
        assert [type(answer) for answer in answers] == [InferenceResult] * len(answers)
        self.check(requests, answers, by_version)

    def check(self, requests: Any, answers: Any, weights: dict[int, WeightRequest]) -> None:
        """Compare each result with that of LiteRT for its own inputs and its own version of the weights."""
        by_version: dict[int, list[int]] = {}
        for number, answer in enumerate(answers):
            by_version.setdefault(answer.weights_version, []).append(number)
        assert len(by_version) > 5
        engines = {f"dense_{size}": CpuEngine(dense.build(size)) for size in SIZES}
        for version, numbers in sorted(by_version.items()):
            if version:
                engines["dense_64"].set_weights(weights[version])
            for number in numbers:
                name, inputs = requests[number]
                expected = engines[name].run(inputs)["y"]
                np.testing.assert_array_equal(answers[number].outputs["y"], expected)


class TestPluggedInLater:
    def test_it_joins_with_the_models_and_their_weights(self, models: Path) -> None:
        sticks = make_sticks(2)
        plugged, joined = threading.Event(), threading.Event()
        found: list[str] = []

        def find_more(known: Collection[str]) -> list[VirtualStickBackend]:
            if not plugged.is_set() or found:
                return []
            found.extend(known)
            return [backend_of(sticks[1])]

        def changed() -> None:
            if [stick.state for stick in host.status().sticks] == [State.READY] * 2:
                joined.set()

        host = ModelHost([backend_of(sticks[0])], [models], changed, find_more=find_more)
        host.connect()
        host.load("dense_64")
        weights = WeightRequest(RNG.uniform(-1, 1, (64, 64)).astype(np.float32))
        host.set_weights("dense_64", weights)
        host.start(refresh_period=0.01, retry_period=0.005)
        plugged.set()
        assert joined.wait(PATIENCE)
        sticks[0].unplug()
        x, engine = vector(64), CpuEngine(dense.build(64))
        engine.set_weights(weights)
        result = host.invoke("dense_64", x)
        assert (found, result.weights_version) == (["2-1"], 1)
        np.testing.assert_array_equal(result.outputs["y"], engine.run(x)["y"])
        host.close()


@pytest.mark.usefixtures("patience")
class TestHeat:
    def test_a_hot_stick_runs_slower_and_leaves_its_work_to_the_others(
        self, host: ModelHost, sticks: list[VirtualEdgeTpu]
    ) -> None:
        host.invoke("dense_64", vector(64))
        sticks[0].warn_of_heat()
        host.refresh()
        host.refresh()  # reads the new clock
        hot, cool = host.status().sticks
        assert (hot.throttled, hot.readings.clock_preset) == (True, "medium")
        assert (cool.throttled, cool.readings.clock_preset) == (False, "high")
        assert hot.status_message == "it is hot, and runs at 'medium' instead of 'high'"
        for _ in range(5):
            host.invoke("dense_64", vector(64))
        assert host.status().sticks[0].inferences == hot.inferences
        sticks[1].unplug()
        host.invoke("dense_64", vector(64))
        assert host.status().sticks[0].inferences == hot.inferences + 1


class FlippingStick(VirtualEdgeTpu):
    """A stick that flips a bit of each output, once it is told to, which nothing on the wire shows."""

    flips = False

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: Any, timeout: int) -> int:
        count = super().bulk_read(dev_handle, ep, intf, buff, timeout)
        if self.flips and ep == ENDPOINT_ACTIVATIONS and count:
            buff[0] ^= 1
        return count


class TestSelfCheck:
    def test_a_stick_that_gives_the_same_results_stays_in_service(self, host: ModelHost) -> None:
        for _ in range(4):
            host.check()
        assert [(stick.state, stick.failed_checks) for stick in host.status().sticks] == [
            (State.READY, 0)
        ] * 2

    def test_new_weights_make_a_new_answer(self, host: ModelHost) -> None:
        for _ in range(2):
            host.check()
        host.set_weights("dense_64", WeightRequest(RNG.uniform(-1, 1, (64, 64)).astype(np.float32)))
        host.set_weights("dense_128", WeightRequest(RNG.uniform(-1, 1, (9, 9)).astype(np.float32)))
        for _ in range(2):
            host.check()
        assert [stick.failed_checks for stick in host.status().sticks] == [0, 0]

    def test_a_stick_with_another_result_is_taken_out_of_service_until_it_is_reset(
        self, models: Path
    ) -> None:
        sticks = [FlippingStick(ports=(number,)) for number in (1, 2)]
        host = make_host(list(sticks), models)
        for _ in range(2):
            host.check()
        sticks[0].flips = True
        host.check()
        bad, good = host.status().sticks
        assert (bad.state, bad.failed_checks, good.state) == (State.FAILED, 1, State.READY)
        assert "gave a different output 'y' than before" in bad.status_message
        for _ in range(3):
            host.invoke("dense_64", vector(64))
        assert host.status().sticks[0].inferences == 0
        sticks[0].flips = False
        host.reset()
        host.connect()
        assert [stick.state for stick in host.status().sticks] == [State.READY] * 2
        host.close()

    def test_it_is_made_once_a_period(self, models: Path) -> None:
        stick = FlippingStick()
        states: queue.SimpleQueue[State] = queue.SimpleQueue()
        host = ModelHost(backend_of(stick), [models], lambda: states.put(host.state), self_check_period=0.01)
        host.load("dense_64")
        host.start(refresh_period=0.01)
        while host.status().readings.uploads == 0:
            time.sleep(0)  # until a first check has learned the answer
        stick.flips = True
        while states.get(timeout=PATIENCE) is not State.FAILED:
            pass
        host.close()


class TestSpreadModels:
    def test_each_model_is_on_one_stick_and_moves_when_that_is_gone(
        self, sticks: list[VirtualEdgeTpu], models: Path
    ) -> None:
        host = make_host(sticks, models, Spreading.SPREAD)
        homes = [host.model(f"dense_{size}").sticks for size in SIZES]
        assert sorted(homes) == [("2-1",), ("2-2",)]
        for size in SIZES:
            host.invoke(f"dense_{size}", vector(size))
        assert [stick.inferences for stick in host.status().sticks] == [1, 1]
        gone = sticks[int(homes[0] == ("2-2",))]
        gone.unplug()
        for size in SIZES:
            host.invoke(f"dense_{size}", vector(size))
        assert host.model("dense_64").sticks == host.model("dense_128").sticks == homes[1]
        gone.plug()
        host.connect()
        for size in SIZES:
            host.invoke(f"dense_{size}", vector(size))
        assert {host.model(f"dense_{size}").sticks for size in SIZES} == set(homes)
        host.close()
