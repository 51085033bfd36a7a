"""Whole models on a host while sticks and processes fail: every request is answered, and rightly."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends.cpu_parts import CpuPartsBackend, CpuStepEngine
from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.engines import litert_process
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import (
    DeviceLostError,
    GraphProcessError,
    ProcessStartError,
    UnavailableError,
)
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.sticks.stick_worker import StickWorker
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from testdata.devices.graph_processes import PATIENT
from testdata.devices.hosted_whole_models import IMAGE, SEGMENTS, by_litert, check_same
from testdata.devices.virtual_backend import backend_of
from testdata.graphs.compiled_graphs import segments, source_graph
from testdata.timeouts import PATIENCE

CHAOS_REQUESTS = 400


@pytest.fixture
def two_stick_host(sticks: list[VirtualEdgeTpu], whole_models: Path) -> Iterator[ModelHost]:
    whole_model_host = ModelHost([backend_of(stick) for stick in sticks], [whole_models])
    whole_model_host.connect()
    yield whole_model_host
    whole_model_host.close()


@pytest.mark.parametrize(
    ("wanting", "text"), [("launch", "cannot start a process for LiteRT"), ("_memory", "cannot share memory")]
)
@pytest.mark.parametrize(("backend", "model"), [("cpu", "one"), ("cpu", "parts"), ("virtual", "parts")])
def test_a_model_for_which_the_system_has_no_process_or_memory_can_be_loaded_later(
    whole_models: Path, monkeypatch: pytest.MonkeyPatch, backend: str, model: str, wanting: str, text: str
) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    host = ModelHost(make_backend(backend, limits=PATIENT), [whole_models], process_limits=PATIENT)
    host.connect()
    with monkeypatch.context() as short:
        short.setattr(litert_process, wanting, refuse)
        with pytest.raises(ProcessStartError, match=rf"{text}.*: Too many open files"):
            host.load(model)
    host.load(model)
    check_same(
        host.invoke(model, IMAGE).outputs, by_litert((whole_models / f"{model}.tflite").read_bytes(), IMAGE)
    )
    host.close()


@pytest.mark.usefixtures("graphs_in_this_process")
class TestFaults:
    @pytest.mark.parametrize("gone", [0, 1])
    def test_a_stick_that_dies_between_two_steps_leaves_the_rest_to_the_other(
        self,
        two_stick_host: ModelHost,
        sticks: list[VirtualEdgeTpu],
        monkeypatch: pytest.MonkeyPatch,
        gone: int,
    ) -> None:
        two_stick_host.load("parts_edgetpu")
        run = CpuStepEngine.run

        def unplugging(engine: CpuStepEngine, inputs: Any) -> Any:
            if "b0" in inputs:  # between the two parts for the Edge TPU
                sticks[gone].unplug()
            return run(engine, inputs)

        monkeypatch.setattr(CpuStepEngine, "run", unplugging)
        for _ in range(2):
            check_same(two_stick_host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))

    def test_a_stick_that_dies_within_a_step_hands_it_to_the_other(
        self, two_stick_host: ModelHost, sticks: list[VirtualEdgeTpu]
    ) -> None:
        two_stick_host.load("parts_edgetpu")
        sticks[0].fail(Fault.UNPLUG, Transfer.OUTPUT)
        for _ in range(3):
            check_same(two_stick_host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))
        assert [stick.is_plugged for stick in sticks] == [False, True]

    def test_without_a_stick_requests_are_refused_before_anything_runs(
        self, whole_model_host: ModelHost, sticks: list[VirtualEdgeTpu], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole_model_host.load("parts_edgetpu")
        sticks[0].unplug()
        with pytest.raises(DeviceLostError):
            whole_model_host.invoke("parts", IMAGE)
        monkeypatch.setattr(CpuStepEngine, "run", None)
        with pytest.raises(UnavailableError, match="no device"):
            whole_model_host.invoke("parts", IMAGE)

    def test_sticks_pulled_and_plugged_at_random_lose_nothing_and_give_nothing_wrong(
        self, whole_models: Path
    ) -> None:
        sticks = [VirtualEdgeTpu(ports=(number + 1,)) for number in range(3)]
        whole_model_host = ModelHost([backend_of(stick) for stick in sticks], [whole_models])
        whole_model_host.connect()
        whole_model_host.load("parts_edgetpu")
        whole_model_host.load(SEGMENTS)
        whole_model_host.start(refresh_period=0.02, retry_period=0.002)
        random, free = np.random.default_rng(4), threading.Semaphore(16)
        answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        requests: list[tuple[str, dict[str, NDArray[Any]]]] = []
        pulled = 0

        def disturb() -> int:
            chosen = int(random.integers(len(sticks)))
            ready = [stick.state is State.READY for stick in whole_model_host.status().sticks]
            others = sum(ready[:chosen] + ready[chosen + 1 :])
            plugged = all(stick.is_plugged for stick, is_ready in zip(sticks, ready, strict=True) if is_ready)
            if not sticks[chosen].is_plugged:
                sticks[chosen].plug()
            elif others and plugged:
                sticks[chosen].unplug()
                return 1
            return 0

        def done(number: int, answer: Any) -> None:
            free.release()
            answers.put((number, answer))

        for number in range(CHAOS_REQUESTS):
            assert free.acquire(timeout=PATIENCE)
            pulled += disturb() if number % 20 == 10 else 0
            name, source = ("parts", "image") if random.random() < 0.5 else ("chain", "x0")
            dtype = np.uint8 if name == "parts" else np.int8
            requests.append((name, {source: random.integers(0, 256, (1, 8), np.uint8).view(dtype)}))
            whole_model_host.submit_invoke(*requests[-1], partial(done, number))
        got = dict(answers.get(timeout=PATIENCE) for _ in requests)
        whole_model_host.close()
        engines = {"parts": CpuEngine(source_graph(2)), "chain": CpuEngine(segments(3)[0])}
        for number, (name, inputs) in enumerate(requests):
            assert isinstance(got[number], InferenceResult), got[number]
            check_same(got[number].outputs, engines[name].run(inputs))
        assert pulled > 3

    def test_a_process_of_litert_that_dies_costs_one_request(
        self, whole_model_host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole_model_host.load("parts_edgetpu")
        run, deaths = CpuStepEngine.run, [GraphProcessError("died of SIGSEGV")]

        def dying(engine: CpuStepEngine, inputs: Any) -> Any:
            if deaths:
                raise deaths.pop()
            return run(engine, inputs)

        monkeypatch.setattr(CpuStepEngine, "run", dying)
        with pytest.raises(GraphProcessError, match="SIGSEGV"):
            whole_model_host.invoke("parts", IMAGE)
        check_same(whole_model_host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))

    def test_the_death_of_a_process_while_a_model_is_read_is_met_with_a_second_try(
        self, whole_model_host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make, deaths = CpuStepEngine.__init__, [GraphProcessError("died of SIGKILL")]

        def dying(engine: CpuStepEngine, *arguments: Any) -> None:
            if deaths:
                raise deaths.pop()
            make(engine, *arguments)

        monkeypatch.setattr(CpuStepEngine, "__init__", dying)
        assert whole_model_host.load("parts_edgetpu").message == ""
        check_same(whole_model_host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))

    def test_a_host_that_was_closed_answers_what_waits_and_runs_again(
        self, whole_model_host: ModelHost, held: threading.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin_stop = StickWorker.begin_stop

        def releasing(worker: StickWorker) -> Any:
            wait = begin_stop(worker)
            if isinstance(worker.backend, CpuPartsBackend):  # the last that is told to stop
                held.set()
            return wait

        monkeypatch.setattr(StickWorker, "begin_stop", releasing)
        whole_model_host.load("parts_edgetpu")
        answers: SimpleQueue[Any] = SimpleQueue()
        for _ in range(3):
            whole_model_host.submit_invoke("parts", IMAGE, answers.put)
        whole_model_host.close()
        got = [answers.get(timeout=PATIENCE) for _ in range(3)]
        assert [type(each) for each in got] == [UnavailableError] * 3
        whole_model_host.connect()
        check_same(whole_model_host.invoke("parts", IMAGE).outputs, by_litert(source_graph(2), IMAGE))
