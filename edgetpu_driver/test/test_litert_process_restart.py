"""Graphs in separate processes: results, limits, crashes, and what they leave behind."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.engines import litert_process, litert_process_pool, litert_process_restart
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.graph_runner import GraphOperands
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.litert_process_restart import IsolatedGraph
from edgetpu_driver.errors import DependencyMissingError, GraphProcessError, ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.devices.graph_processes import PATIENT, ends, hang

pytest.importorskip("ai_edge_litert", reason="the CPU engine needs ai-edge-litert")

X = np.array([[1, -2, 3, 100]], np.int8)
DOUBLED = [[2, -4, 6, 127]]


def doubling(size: int = 4) -> bytes:
    """A graph that gives y = 2 x on int8[1, size]."""
    graph = GraphBuilder()
    x = graph.input("x", (1, size), np.int8, scale=1, zero_point=0)
    graph.output(graph.add(x, x, scale=1, zero_point=0, name="y"))
    return graph.build()


def mystery() -> bytes:
    """A graph with an operator that LiteRT does not have."""
    graph = GraphBuilder()
    x = graph.input("x", (1,), np.int8, scale=1, zero_point=0)
    graph.output(*graph.custom("Mystery", [x], [TensorSpec("y", (1,), np.dtype(np.int8), 1, 0)]))
    return graph.build()


def pid_of(engine: CpuEngine) -> int:
    """The process id of an isolated engine; 0 without a process."""
    runner = engine._runner
    assert isinstance(runner, IsolatedGraph)
    return runner.pid


@pytest.fixture(scope="module")
def engine() -> Iterator[CpuEngine]:
    """One engine for the tests that leave it in order."""
    engine = CpuEngine(doubling(), isolated=True)
    yield engine
    engine.close()


class TestAnIsolatedEngine:
    def test_gives_what_the_graph_gives_in_this_process(self, engine: CpuEngine) -> None:
        assert engine.run({"x": X})["y"].tolist() == DOUBLED

    def test_takes_inputs_that_are_not_contiguous(self, engine: CpuEngine) -> None:
        wide = np.arange(8, dtype=np.int8).reshape(1, 8)
        assert engine.run({"x": wide[:, ::2]})["y"].tolist() == [[0, 4, 8, 12]]

    def test_gives_outputs_that_belong_to_the_caller(self, engine: CpuEngine) -> None:
        first = engine.run({"x": X})["y"]
        engine.run({"x": np.zeros((1, 4), np.int8)})
        assert first.tolist() == DOUBLED

    def test_runs_in_a_session_of_its_own_which_no_terminal_interrupts(self, engine: CpuEngine) -> None:
        pid = pid_of(engine)
        assert os.getsid(pid) == pid != os.getsid(0)

    def test_keeps_its_graph_when_another_is_refused(self, engine: CpuEngine) -> None:
        with pytest.raises(ModelUnsupportedError, match="Mystery"):
            engine.replace_graph(mystery())
        assert engine.run({"x": X})["y"].tolist() == DOUBLED

    def test_costs_one_request_when_it_does_not_answer_in_time(self) -> None:
        engine = CpuEngine(doubling(), isolated=True, limits=PATIENT)
        assert isinstance(engine._runner, IsolatedGraph)
        hang(engine._runner)
        with pytest.raises(GraphProcessError) as caught:
            engine.run({"x": X})
        assert str(caught.value) == (
            "the model: the process that runs the graph took longer than 0.2 s to run the graph"
        )
        assert engine.run({"x": X})["y"].tolist() == DOUBLED
        engine.close()

    def test_is_started_again_if_it_died_between_requests(self) -> None:
        engine = CpuEngine(doubling(), isolated=True)
        first = pid_of(engine)
        os.kill(first, signal.SIGSEGV)
        assert ends(first)
        assert engine.run({"x": X})["y"].tolist() == DOUBLED
        assert pid_of(engine) not in (0, first)
        engine.close()

    def test_ends_with_its_engine(self) -> None:
        engine = CpuEngine(doubling(), isolated=True)
        pid = pid_of(engine)
        del engine
        with pytest.raises(ProcessLookupError):  # it was waited for, too
            os.kill(pid, 0)

    def test_takes_new_weights(self) -> None:
        engine = CpuEngine(dense_graph.build(64), isolated=True)
        pid = pid_of(engine)
        weights = np.zeros((64, 64))
        weights[5, 7] = 1.0
        assert engine.set_weights(WeightRequest(weights)).version == 1
        x = np.full((1, 64), 128, np.uint8)
        x[0, 7] = 255
        y = engine.run({"x": x})["y"][0]
        assert np.flatnonzero(y != 128).tolist() == [5]
        assert pid_of(engine) == pid
        engine.close()


def test_a_graph_that_needs_more_memory_than_allowed_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="memory"):
        CpuEngine(doubling(64 << 20), isolated=True, limits=ProcessLimits(memory=32 << 20))


def test_an_operator_unknown_to_litert_is_named() -> None:
    with pytest.raises(ModelUnsupportedError, match=r"the model: LiteRT cannot run the graph: .*Mystery"):
        CpuEngine(mystery(), isolated=True)


def test_an_output_may_have_a_shape_that_the_file_does_not_tell() -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 4), np.int8, scale=1, zero_point=0)
    unknown = TensorSpec("y", (), np.dtype(np.int8), 1.0, 0)
    graph.output(graph._apply("ADD", [x, x], unknown, {"FusedActivationFunction": 0}))
    engine = CpuEngine(graph.build(), isolated=True)
    assert engine.run({"x": X})["y"].tolist() == DOUBLED
    engine.close()


@pytest.mark.parametrize("name", ["cpu", "virtual"])
def test_on_a_backend_a_death_costs_one_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert_process_pool, "_owners", running := weakref.WeakSet[IsolatedGraph]())
    backend = make_backend(name, limits=PATIENT)
    model = backend.parse(Path("doubling.tflite"), doubling())
    backend.open()
    engine = backend.attach(model)
    assert engine.run({"x": X})["y"].tolist() == DOUBLED
    (graph,) = running
    hang(graph)
    with pytest.raises(GraphProcessError, match=r"took longer than 0\.2 s"):
        engine.run({"x": X})
    assert engine.run({"x": X})["y"].tolist() == DOUBLED
    assert backend.read().recoveries == 0
    graph.close()
    backend.close()


def test_no_process_outlives_one_that_was_killed() -> None:
    script = (
        "import os, signal, sys\n"
        "from edgetpu_driver.engines.cpu_engine import CpuEngine\n"
        "engine = CpuEngine(sys.stdin.buffer.read(), isolated=True)\n"
        "print(engine._runner.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input=doubling(), capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert ends(int(done.stdout))


class TestWhichGraphsAreIsolated:
    def test_one_of_the_catalogue_is_not(self) -> None:
        assert not isinstance(CpuEngine(dense_graph.build(64), isolated=None)._runner, IsolatedGraph)

    def test_another_is(self) -> None:
        engine = CpuEngine(doubling(), isolated=None)
        assert pid_of(engine)
        engine.close()

    def test_none_is_by_default(self) -> None:
        assert not isinstance(CpuEngine(doubling())._runner, IsolatedGraph)


class FakeProcess:
    """A process that runs nothing and dies whenever it is told to."""

    started = fatal_starts = 0
    fatal_load = fatal_run = False

    def __init__(self, *_: object) -> None:
        FakeProcess.started += 1
        if FakeProcess.started <= FakeProcess.fatal_starts:
            raise GraphProcessError("it died of SIGKILL")
        self.is_alive = True
        self.pid = FakeProcess.started

    def load(self, *_: object) -> None:
        self._die_if(self.fatal_load)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self._die_if(self.fatal_run)
        return dict(inputs)

    def _die_if(self, fatal: bool) -> None:
        if fatal:
            self.is_alive = False
            raise GraphProcessError("it died of SIGSEGV")

    def close(self) -> None:
        self.is_alive = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set; and processes that are fakes."""
    now = [1000.0]
    monkeypatch.setattr(litert_process_restart, "LiteRtProcess", FakeProcess)
    monkeypatch.setattr(litert_process_pool, "_owners", weakref.WeakSet())
    monkeypatch.setattr(litert_process_restart.time, "monotonic", lambda: now[0])
    for name, value in (("started", 0), ("fatal_starts", 0), ("fatal_load", False), ("fatal_run", False)):
        monkeypatch.setattr(FakeProcess, name, value)
    return now


def loaded() -> IsolatedGraph:
    graph = IsolatedGraph("the model", GraphOperands((), ()), ProcessLimits())
    graph.load(b"graph")
    return graph


@pytest.mark.usefixtures("clock")
class TestAGraphThatEndsItsProcess:
    def test_at_load_is_refused_with_the_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(FakeProcess, "fatal_load", True)
        with pytest.raises(GraphProcessError, match="it died of SIGSEGV"):
            loaded()
        assert FakeProcess.started == 1

    def test_once_is_started_again_by_the_next_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        graph = loaded()
        monkeypatch.setattr(FakeProcess, "fatal_run", True)
        with pytest.raises(GraphProcessError):
            graph.run({})
        monkeypatch.setattr(FakeProcess, "fatal_run", False)
        assert graph.run({}) == {}
        assert FakeProcess.started == 2

    def test_again_and_again_is_started_after_pauses_that_double(
        self, clock: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        graph = loaded()
        monkeypatch.setattr(FakeProcess, "fatal_run", True)
        starts = []
        for second in range(100):
            clock[0] = 1000.0 + second
            before = FakeProcess.started
            with pytest.raises(GraphProcessError):
                graph.run({})
            if FakeProcess.started > before:
                starts.append(second)
        assert starts == [1, 2, 4, 8, 16, 32, 64]

    def test_is_refused_meanwhile_with_the_reason_and_the_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        graph = loaded()
        monkeypatch.setattr(FakeProcess, "fatal_run", True)
        for _ in range(2):
            with pytest.raises(GraphProcessError):
                graph.run({})
        with pytest.raises(GraphProcessError) as caught:
            graph.run({})
        assert str(caught.value) == (
            "it died of SIGSEGV; it died 2 times in a row and is started again in 1.0 s"
        )

    def test_after_a_minute_of_life_is_started_again_at_once(
        self, clock: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        graph = loaded()
        monkeypatch.setattr(FakeProcess, "fatal_run", True)
        for _ in range(3):
            clock[0] += 60.0
            with pytest.raises(GraphProcessError, match=r"^it died of SIGSEGV$"):
                graph.run({})
        assert FakeProcess.started == 3


@pytest.mark.usefixtures("clock")
class TestAProcessThatEndsBeforeItHasSeenTheGraph:
    def test_is_replaced_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(FakeProcess, "fatal_starts", 1)
        assert loaded().run({}) == {}
        assert FakeProcess.started == 2

    def test_is_replaced_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(FakeProcess, "fatal_starts", 9)
        with pytest.raises(GraphProcessError, match="it died of SIGKILL"):
            loaded()
        assert FakeProcess.started == 2

    def test_is_not_replaced_when_starting_took_a_minute(
        self, clock: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start_slowly(*_: object) -> None:
            FakeProcess.started += 1
            clock[0] += 60.0
            raise GraphProcessError("took longer than 60 s to start")

        monkeypatch.setattr(FakeProcess, "__init__", start_slowly)
        with pytest.raises(GraphProcessError, match="took longer than 60 s"):
            loaded()
        assert FakeProcess.started == 1


def test_the_process_idle_longest_ends_when_there_are_too_many(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litert_process_pool, "MOST_PROCESSES", 2)
    graphs = []
    for _ in range(3):
        clock[0] += 1.0
        graphs.append(loaded())
    assert [bool(graph.pid) for graph in graphs] == [False, True, True]
    assert graphs[0].run({}) == {}


def test_a_process_that_another_thread_ends_meanwhile_has_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([SimpleNamespace(pid=4711, is_alive=True), None, None])
    monkeypatch.setattr(IsolatedGraph, "_process", property(lambda _: next(looks)), raising=False)
    assert object.__new__(IsolatedGraph).pid == 4711


def test_without_litert_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ai_edge_litert.py").write_text("raise ImportError('none here')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DependencyMissingError, match=r"pip install ai-edge-litert.* \(none here\)"):
        CpuEngine(doubling(), isolated=True)


def test_without_descriptors_a_graph_is_refused_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def refused() -> list[str]:
        """The errors of five attempts, and their tracebacks, are alive while the descriptors are counted."""
        errors = []
        gc.collect()  # what earlier tests left open would be closed meanwhile
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with pytest.raises(GraphProcessError) as raised:
                CpuEngine(doubling(), isolated=True)
            errors.append(raised.value)
        assert len(os.listdir("/proc/self/fd")) <= before
        return [str(error) for error in errors]

    CpuEngine(doubling(), isolated=True).close()  # starts the launching thread
    monkeypatch.setattr(litert_process, "launch", refuse)
    assert all("cannot start a process for LiteRT: Too many open files" in text for text in refused())


def test_memory_that_cannot_be_shared_costs_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(litert_process, "_memory", refuse)
        with pytest.raises(GraphProcessError, match="cannot share memory with this one: Too many open files"):
            CpuEngine(doubling(), isolated=True)
    engine = CpuEngine(doubling(), isolated=True)
    assert engine.run({"x": X})["y"].tolist() == DOUBLED
