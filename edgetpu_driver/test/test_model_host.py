"""Models by name on a device that comes and goes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.backends.backend import ParsedModel, Placement, Readings, RegisterValue
from edgetpu_driver.errors import (
    BusyError,
    DeviceAccessError,
    DeviceLostError,
    DeviceNotFoundError,
    EdgeTpuError,
    ExpiredError,
    GraphProcessError,
    InputError,
    ModelFormatError,
    ModelNotFoundError,
    ModelUnsupportedError,
    OwnershipError,
    PathRefusedError,
    TransferError,
    UnavailableError,
)
from edgetpu_driver.host.host_limits import HostLimits
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.hosted_model import ModelState
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.request_terms import Priority, RequestTerms
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec, check_inputs
from edgetpu_driver.weights.weight_request import WeightRequest

INPUT = TensorSpec("input", (1, 4), np.dtype(np.uint8), 0.5, 3)
OUTPUT = TensorSpec("output", (1, 4), np.dtype(np.uint8), 1.0, 0)
ONES = {"input": np.ones((1, 4), np.uint8)}


class PlusOneEngine:
    """Adds one; raises `failure` once if set."""

    inputs = (INPUT,)
    outputs = (OUTPUT,)
    resident = True
    uploads = 0
    device_duration = 0.25

    def __init__(self, backend: FakeBackend, source: bytes) -> None:
        self._backend = backend
        self._source = source

    def close(self) -> None:
        self._backend.closed.append(self._source)

    def run(self, inputs: Any) -> dict[str, Any]:
        check_inputs(self.inputs, inputs)
        self._backend.begun.set()
        self._backend.release.wait(10)
        failure, self._backend.failure = self._backend.failure, None
        if failure is not None:
            raise failure
        return {"output": inputs["input"] + 1}


class FakeBackend:
    """A device whose presence and failures are set by the test."""

    name = "fake"
    compiled = True
    uncompiled = False

    def __init__(self) -> None:
        self.absence: Exception | None = None
        self.failure: Exception | None = None
        self.opened = 0
        self.deaths = 0
        """Times that the process of a graph dies when an engine is made."""
        self.parsed = 0
        self.closed: list[bytes] = []
        self.begun, self.release, self.parsing = threading.Event(), threading.Event(), threading.Event()
        self.release.set()
        self.parsing.set()

    def hold(self) -> None:
        """Let the next inference begin and not end."""
        self.begun.clear()
        self.release.clear()

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        self.parsed += 1
        self.parsing.wait(10)
        if data == b"broken":
            raise ModelFormatError(f"{path.name}: broken")
        return ParsedModel((INPUT,), (OUTPUT,), Placement.CACHED, len(data), 7, data)

    def adopt(self, model: ParsedModel) -> None:
        self.parse(Path(), model.source)

    simulated_time = None

    def open(self, on_phase: Any = None) -> None:  # noqa: ARG002
        if self.absence is not None:
            raise self.absence
        self.opened += 1

    def close(self) -> None:
        pass

    def attach(self, model: ParsedModel) -> PlusOneEngine:
        if model.source == b"too large":
            raise ModelUnsupportedError("does not fit")
        if self.deaths:
            self.deaths -= 1
            raise GraphProcessError("the process that runs the graph died")
        return PlusOneEngine(self, model.source)

    def set_clock(self, preset: str) -> None:
        self.preset = preset

    def read(self) -> Readings:
        if self.absence is not None:
            raise self.absence
        return Readings(serial="S1", uploads=self.opened, recoveries=2)

    def registers(self) -> tuple[RegisterValue, ...]:
        return (RegisterValue("scu_ctrl_0", 0x1A30C, 5),)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    directory = tmp_path / "models"
    directory.mkdir()
    for stem in ("plus_edgetpu", "other_edgetpu", "uncompiled"):
        (directory / f"{stem}.tflite").write_bytes(stem.encode())
    (directory / "broken_edgetpu.tflite").write_bytes(b"broken")
    return directory


@pytest.fixture
def host(backend: FakeBackend, models: Path) -> ModelHost:
    host = ModelHost(backend, [models])
    host.connect()
    return host


class TestFindingFiles:
    @pytest.mark.parametrize("model", ["plus", "plus_edgetpu", "plus_edgetpu.tflite"])
    def test_a_model_is_found_by_stem_and_by_file_name(
        self, host: ModelHost, models: Path, model: str
    ) -> None:
        loaded = host.load(model)
        assert (loaded.name, loaded.path) == ("plus", models / "plus_edgetpu.tflite")

    def test_a_model_is_found_by_absolute_path(self, host: ModelHost, models: Path) -> None:
        assert host.load(str(models / "plus_edgetpu.tflite")).name == "plus"

    def test_the_first_directory_with_the_model_wins(
        self, backend: FakeBackend, models: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "first").mkdir()
        (tmp_path / "first" / "plus_edgetpu.tflite").write_bytes(b"1")
        host = ModelHost(backend, [tmp_path / "first", models])
        assert host.load("plus").path == tmp_path / "first" / "plus_edgetpu.tflite"

    @pytest.mark.parametrize("model", ["/etc/passwd", "../outside.tflite", "/nowhere/at/all.tflite"])
    def test_a_path_outside_is_refused_and_the_directories_are_named(
        self, host: ModelHost, models: Path, model: str
    ) -> None:
        (models.parent / "outside.tflite").write_bytes(b"x")
        with pytest.raises(PathRefusedError, match=f"inside {models}; got .*{Path(model).name}"):
            host.load(model)

    def test_a_symbolic_link_that_leads_outside_is_refused(self, host: ModelHost, models: Path) -> None:
        (models.parent / "outside.tflite").write_bytes(b"x")
        (models / "link_edgetpu.tflite").symlink_to(models.parent / "outside.tflite")
        with pytest.raises(PathRefusedError):
            host.load("link")

    def test_an_unknown_name_is_answered_with_near_ones(self, host: ModelHost, models: Path) -> None:
        with pytest.raises(ModelNotFoundError) as failure:
            host.load("pluss")
        assert str(failure.value) == f"no pluss_edgetpu.tflite in {models}; did you mean plus?"

    def test_a_graph_that_must_be_compiled_first_is_refused_with_the_command(
        self, host: ModelHost, models: Path
    ) -> None:
        with pytest.raises(ModelUnsupportedError) as failure:
            host.load("uncompiled")
        assert str(failure.value) == (
            f"{models}/uncompiled.tflite is not compiled for the Edge TPU; "
            "run: edgetpu_compiler uncompiled.tflite"
        )

    @pytest.mark.parametrize("model", ["", "\0", "x" * 1000], ids=["empty", "zero byte", "too long"])
    def test_an_invalid_name_is_not_found(self, host: ModelHost, model: str) -> None:
        with pytest.raises(ModelNotFoundError):
            host.load(model)

    def test_only_files_the_backend_can_run_are_available(self, host: ModelHost) -> None:
        assert [path.name for path in host.files.available()] == [
            "broken_edgetpu.tflite",
            "other_edgetpu.tflite",
            "plus_edgetpu.tflite",
        ]


class TestLoading:
    def test_the_same_file_under_the_same_name_is_parsed_once(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        assert host.load("plus") is host.load("plus")
        assert backend.parsed == 1

    def test_a_changed_file_is_loaded_anew(self, host: ModelHost, models: Path) -> None:
        before = host.load("plus")
        (models / "plus_edgetpu.tflite").write_bytes(b"changed")
        assert host.load("plus").sha256 != before.sha256

    def test_one_file_may_have_two_names(self, host: ModelHost) -> None:
        host.load("plus")
        host.load("plus", "again")
        assert [model.name for model in host.models()] == ["plus", "again"]

    def test_a_broken_file_leaves_the_loaded_ones_alone(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(ModelFormatError):
            host.load("broken", "plus")
        assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_a_model_that_cannot_be_attached_is_loaded_and_says_why(
        self, host: ModelHost, models: Path
    ) -> None:
        (models / "big_edgetpu.tflite").write_bytes(b"too large")
        big = host.load("big")
        assert (host.models(), host.model("big").unsupported_reason) == ((big,), "does not fit")
        with pytest.raises(ModelUnsupportedError, match="model 'big' cannot run here: does not fit"):
            host.invoke("big", ONES)

    def test_models_beyond_those_that_may_wait_to_be_loaded_are_refused(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        for _ in range(100):
            host.submit_load("plus")
        with pytest.raises(BusyError, match="100 models wait to be loaded; try again in 1 s") as refused:
            host.submit_load("other")
        backend.parsing.set()
        assert refused.value.retry_after == 1.0

    def test_a_pipeline_of_too_many_segments_is_refused_at_once(self, host: ModelHost) -> None:
        with pytest.raises(InputError, match="at most 64 segments; got 100000"):
            host.submit_load(["absent"] * 100_000)

    @pytest.mark.parametrize("name", [" ", "../weird name", "two words", "-x", "\n"])
    def test_a_name_with_invalid_characters_is_refused(self, host: ModelHost, name: str) -> None:
        with pytest.raises(InputError, match="expected a name of letters, digits and"):
            host.load("plus", name)

    def test_an_unloaded_model_is_unknown(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus")
        host.load("other")
        host.unload("plus")
        host.refresh()  # waits for the thread of the device
        assert backend.closed == [b"plus_edgetpu"]
        with pytest.raises(ModelNotFoundError) as failure:
            host.invoke("plus", ONES)
        assert str(failure.value) == "no model 'plus' is loaded; loaded: other"


class TestInvoking:
    def test_outputs_come_by_name(self, host: ModelHost) -> None:
        host.load("plus")
        inference = host.invoke("plus", {"input": np.array([[1, 2, 3, 4]], np.uint8)})
        assert inference.outputs["output"].tolist() == [[2, 3, 4, 5]]
        assert inference.engine_duration > 0
        assert inference.device_duration == 0.25

    def test_a_wrong_shape_names_what_was_expected(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(InputError, match=r"expected 'input' uint8\[1, 4\]; got uint8\[1, 5\]"):
            host.invoke("plus", {"input": np.zeros((1, 5), np.uint8)})

    def test_a_bad_request_does_not_count_as_dropped(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(InputError):
            host.invoke("plus", {})
        assert (host.status().inferences, host.status().dropped) == (0, 0)


class TestADeviceThatComesAndGoes:
    def test_without_a_device_models_load_and_requests_are_refused_at_once(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.absence = DeviceNotFoundError("no Edge TPU on the bus")
        host.reset()
        host.connect()
        host.load("plus")
        assert host.state is State.ABSENT
        with pytest.raises(UnavailableError, match="no device: no Edge TPU on the bus"):
            host.invoke("plus", ONES)

    def test_models_run_again_when_it_is_back(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus")
        backend.failure = DeviceLostError("unplugged")
        with pytest.raises(DeviceLostError):
            host.invoke("plus", ONES)
        assert (host.state, host.status_message) == (State.ABSENT, "unplugged")
        host.connect()
        assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_a_fault_that_recovery_could_not_mend_makes_it_start_over(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        host.load("plus")
        backend.failure = TransferError("still no event")
        with pytest.raises(TransferError):
            host.invoke("plus", ONES)
        assert host.state is State.RECOVERING

    def test_a_device_that_cannot_be_used_says_why(self, host: ModelHost, backend: FakeBackend) -> None:
        backend.absence = DeviceAccessError("install the udev rule")
        host.reset()
        host.connect()
        assert (host.state, host.status_message) == (State.FAILED, "install the udev rule")

    def test_an_unplugged_stick_is_noticed_while_idle(self, host: ModelHost, backend: FakeBackend) -> None:
        backend.absence = DeviceLostError("gone")
        host.refresh()
        assert host.state is State.ABSENT

    def test_a_requested_reset_does_not_count_as_recovery(self, host: ModelHost) -> None:
        before = host.status().recoveries
        host.reset()
        host.connect()
        assert host.status().recoveries == before

    def test_a_reset_waits_for_the_request_under_way(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus")
        backend.hold()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_invoke("plus", ONES, answers.put)
        assert backend.begun.wait(5)
        host.reset()
        assert host.state is State.READY
        backend.release.set()
        assert answers.get(timeout=5).outputs["output"].tolist() == [[2, 2, 2, 2]]
        host.refresh()
        assert host.state is State.RECOVERING

    def test_commands_and_requests_take_turns(self, host: ModelHost, backend: FakeBackend) -> None:
        """A flood of commands does not keep requests waiting, nor the other way round."""
        host.load("plus")
        backend.hold()
        done: queue.SimpleQueue[str] = queue.SimpleQueue()
        host.submit_invoke("plus", ONES, lambda _answer: done.put("request"))
        assert backend.begun.wait(5)
        (worker,) = host._pool.workers
        for _ in range(4):
            worker.post(lambda: done.put("command"))
        for _ in range(3):
            host.submit_invoke("plus", ONES, lambda _answer: done.put("request"))
        backend.release.set()
        expected = ["request", *3 * ["command", "request"], "command"]
        assert [done.get(timeout=5) for _ in expected] == expected

    def test_a_thread_that_cannot_be_started_is_tried_again(
        self, backend: FakeBackend, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host = ModelHost(backend, [models])

        def fail(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fail)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                host.connect()
        host.connect()
        assert host.state is State.READY
        host.close()

    def test_a_model_that_is_loaded_while_others_are_attached_is_attached_too(
        self, host: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host.load("plus")
        loaded: queue.SimpleQueue[Any] = queue.SimpleQueue()
        attach = backend.attach

        def attach_slowly(model: ParsedModel) -> PlusOneEngine:
            monkeypatch.setattr(backend, "attach", attach)
            host.submit_load("other", done=loaded.put)
            loaded.get(timeout=5)
            return attach(model)

        monkeypatch.setattr(backend, "attach", attach_slowly)
        host.connect()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_invoke("other", ONES, answers.put)
        assert not isinstance(answers.get(timeout=5), EdgeTpuError)

    def test_every_change_of_state_is_announced(self, backend: FakeBackend, models: Path) -> None:
        seen: list[State] = []
        host = ModelHost(backend, [models], lambda: seen.append(host.state))
        host.connect()
        host.reset()
        host.connect()
        host.close()
        assert seen == [State.STARTING, State.READY, State.RECOVERING, State.READY, State.CLOSED]


class TestStatus:
    def test_it_counts_inferences_and_drops(self, host: ModelHost, backend: FakeBackend) -> None:
        host.load("plus")
        host.invoke("plus", ONES)
        backend.failure = DeviceLostError("unplugged")
        with pytest.raises(DeviceLostError):
            host.invoke("plus", ONES)
        host.connect()
        status = host.status()
        assert (status.inferences, status.dropped, status.recoveries) == (1, 1, 1 + 2)
        assert (status.readings.serial, status.readings.uploads, status.resident) == ("S1", 2, ("plus",))

    def test_latencies_are_those_of_one_period(self, host: ModelHost) -> None:
        host.load("plus")
        duration = host.invoke("plus", ONES).engine_duration
        host.end_period()
        first = host.status().period
        host.end_period()
        second = host.status().period
        assert first.latency_p50 == first.latency_p99 >= duration
        assert 0 < first.utilisation <= 1
        assert np.isnan(second.latency_p50)
        assert second.utilisation == 0

    def test_registers_are_those_of_a_device_that_is_there(self, host: ModelHost) -> None:
        assert [register.value for register in host.registers()] == [5]
        host.reset()
        assert host.registers() == ()


class TestKeepingDevicesOpen:
    def test_a_device_that_appears_later_is_opened(self, backend: FakeBackend, models: Path) -> None:
        backend.absence = DeviceNotFoundError("none yet")
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        host.start()
        assert [states.get(timeout=5) for _ in range(2)] == [State.STARTING, State.ABSENT]
        backend.absence = None
        assert states.get(timeout=5) is State.READY
        host.close()

    def test_a_device_that_is_gone_is_noticed_by_reading_it(self, backend: FakeBackend, models: Path) -> None:
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        host.start(refresh_period=0.01)
        assert [states.get(timeout=5) for _ in range(2)] == [State.STARTING, State.READY]
        backend.absence = DeviceLostError("gone")
        assert states.get(timeout=5) is State.ABSENT
        host.close()

    def test_without_a_device_it_gives_up_after_the_timeout(self, backend: FakeBackend, models: Path) -> None:
        backend.absence = DeviceNotFoundError("none")
        given_up = threading.Event()
        host = ModelHost(backend, [models], lambda: given_up.set() if host.gave_up else None)
        host.start(wait_timeout=0.0)
        assert given_up.wait(5)
        host.close()

    def test_a_device_lost_in_use_is_waited_for(self, backend: FakeBackend, models: Path) -> None:
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        host.start(wait_timeout=0.0)
        assert [states.get(timeout=5) for _ in range(2)] == [State.STARTING, State.READY]
        host.reset()
        assert [states.get(timeout=5) for _ in range(2)] == [State.RECOVERING, State.READY]
        assert not host.gave_up
        host.close()

    def test_told_to_close_while_it_attaches_models_it_attaches_no_more(
        self, host: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("plus", "other"):
            host.load(name)
        attach, begun, go_on = backend.attach, threading.Event(), threading.Event()
        attached: list[bytes] = []

        def slow_attach(model: ParsedModel) -> PlusOneEngine:
            attached.append(model.source)
            begun.set()
            go_on.wait(10)
            return attach(model)

        monkeypatch.setattr(backend, "attach", slow_attach)
        opening = threading.Thread(target=host.connect)
        opening.start()
        assert begun.wait(5)
        host.close(timeout=0.0)
        go_on.set()
        host.close()
        opening.join()
        assert (attached, host.state) == ([b"plus_edgetpu"], State.CLOSED)
        host.connect()
        assert host.invoke("other", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]

    @pytest.mark.parametrize(
        "error", [OSError(5, "x"), ValueError("x"), NotImplementedError(), MemoryError()]
    )
    def test_an_unexpected_error_while_reading_is_logged_once_and_ends_nothing(
        self, backend: FakeBackend, models: Path, caplog: pytest.LogCaptureFixture, error: Exception
    ) -> None:
        host = ModelHost(backend, [models])
        host.connect()
        host.load("plus")
        backend.absence = error
        host.refresh()
        host.refresh()
        assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]
        backend.absence = DeviceLostError("unplugged")
        host.refresh()
        assert host.state is State.ABSENT
        assert [record.levelname for record in caplog.records] == ["ERROR"]


class TestADeviceThatBlocks:
    """The device hangs in a transfer, held by the test; nothing but its own requests waits for it."""

    @pytest.fixture
    def blocked(self, host: ModelHost, backend: FakeBackend) -> Iterator[ModelHost]:
        host.load("plus")
        backend.hold()
        host.submit_invoke("plus", ONES, lambda _answer: None)
        assert backend.begun.wait(5)
        yield host
        backend.release.set()
        host.close()

    def test_status_and_lists_are_answered(self, blocked: ModelHost) -> None:
        assert blocked.status().sticks[0].state is State.READY
        assert [model.name for model in blocked.models()] == ["plus"]

    def test_models_are_loaded_and_requests_for_them_wait(
        self, blocked: ModelHost, backend: FakeBackend
    ) -> None:
        loaded: queue.SimpleQueue[Any] = queue.SimpleQueue()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        assert blocked.submit_load("other", done=loaded.put).state in (ModelState.QUEUED, ModelState.LOADED)
        assert loaded.get(timeout=5) is blocked.model("other")
        blocked.submit_invoke("other", ONES, answers.put)
        assert blocked.status().waiting == 1
        backend.release.set()
        assert answers.get(timeout=5).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_bad_requests_are_refused(self, blocked: ModelHost) -> None:
        with pytest.raises(InputError):
            blocked.submit_invoke("plus", {}, lambda _answer: None)
        with pytest.raises(ModelNotFoundError):
            blocked.submit_invoke("nobody", ONES, lambda _answer: None)
        with pytest.raises(PathRefusedError):
            blocked.submit_load("/etc/passwd")

    def test_a_deadline_that_passes_is_answered(self, blocked: ModelHost) -> None:
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        blocked.submit_invoke("plus", ONES, answers.put, RequestTerms(deadline=0.001))
        assert isinstance(answers.get(timeout=5), ExpiredError)
        assert (blocked.status().expired, blocked.status().waiting) == (1, 0)

    def test_a_reset_is_taken(self, blocked: ModelHost) -> None:
        blocked.reset()

    def test_many_resets_cost_one(
        self, blocked: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = blocked._pool.first
        given_up: list[str] = []
        monkeypatch.setattr(worker.connection, "give_up", lambda _state, message: given_up.append(message))
        for _ in range(100):
            blocked.reset()
        backend.release.set()
        blocked.refresh()  # the worker has done all that was asked for before
        assert given_up == ["reset on request"]

    def test_registers_are_read_once_for_all_who_ask_meanwhile(
        self, blocked: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers: list[list[int]] = []
        reads: list[None] = []
        registers = backend.registers
        monkeypatch.setattr(backend, "registers", lambda: reads.append(None) or registers())  # type: ignore[func-returns-value]
        for _ in range(100):
            blocked.submit_registers(lambda found: answers.append([register.value for register in found]))
        backend.release.set()
        blocked.refresh()
        assert (answers, len(reads)) == ([[5]] * 100, 1)
        blocked.submit_registers(lambda found: answers.append([register.value for register in found]))
        blocked.refresh()
        assert len(reads) == 2

    def test_closing_waits_no_longer_than_it_is_told_to(self, blocked: ModelHost) -> None:
        blocked.close(timeout=0.01)

    def test_what_waits_is_answered_when_the_host_is_closed(
        self, blocked: ModelHost, backend: FakeBackend
    ) -> None:
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        blocked.submit_invoke("plus", ONES, answers.put)
        blocked.close(timeout=0.0)
        backend.release.set()
        assert isinstance(answers.get(timeout=5), UnavailableError)


class TestOrder:
    def order(self, host: ModelHost, backend: FakeBackend) -> list[str]:
        """The clients of six requests, one of them bulk, in the order of their answers."""
        host.load("plus")
        backend.hold()
        answers: queue.SimpleQueue[str] = queue.SimpleQueue()

        def ask(client: str, priority: Priority) -> None:
            terms = RequestTerms(client, priority)
            host.submit_invoke("plus", ONES, lambda _answer: answers.put(client), terms)

        ask("flood", Priority.NORMAL)
        assert backend.begun.wait(5)
        for _ in range(4):
            ask("flood", Priority.NORMAL)
        ask("bulk", Priority.BULK)
        backend.release.set()
        return [answers.get(timeout=5) for _ in range(6)]

    def test_bulk_work_comes_last(self, host: ModelHost, backend: FakeBackend) -> None:
        assert self.order(host, backend)[-1] == "bulk"

    def test_bulk_work_that_has_waited_long_enough_takes_its_turn(
        self, host: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("edgetpu_driver.host.waiting_requests.PATIENCE", 0.0)
        assert self.order(host, backend)[-1] == "flood"


class TestAdmission:
    def test_a_client_may_have_so_many_requests_waiting_and_is_told_when_to_come_back(
        self, backend: FakeBackend, models: Path
    ) -> None:
        host = ModelHost(backend, [models], limits=HostLimits(waiting_per_client=2, waiting=3))
        host.connect()
        host.load("plus")
        backend.hold()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def ask(client: str) -> None:
            host.submit_invoke("plus", ONES, answers.put, RequestTerms(client))

        ask("/running")
        assert backend.begun.wait(5)
        ask("/a")
        ask("/a")
        with pytest.raises(BusyError, match="2 requests of '/a' wait") as refusal:
            ask("/a")
        assert refusal.value.retry_after > 0
        ask("/b")
        with pytest.raises(BusyError, match="3 requests wait"):
            ask("/b")
        assert (host.status().waiting, host.status().refused) == (3, 2)
        backend.release.set()
        for _ in range(4):
            assert answers.get(timeout=5).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_loaded_models_are_limited_in_number_and_size(self, backend: FakeBackend, models: Path) -> None:
        limits = HostLimits(models=2, model_bytes=len(b"plus_edgetpu") + len(b"other_edgetpu"))
        host = ModelHost(backend, [models], limits=limits)
        host.load("plus")
        (models / "more_edgetpu.tflite").write_bytes(b"other_edgetpu+")
        with pytest.raises(BusyError, match="at most 25 bytes"):
            host.load("more")
        host.load("other")
        with pytest.raises(BusyError, match="at most 2 loaded models"):
            host.load("plus", "again")
        host.unload("other")

    def test_large_products_are_refused(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(InputError, match="a batch of at most 65536"):
            host.multiply("plus", ProductRequest(np.ones(4), batch=65537))
        with pytest.raises(InputError, match="1 to 64 passes"):
            host.multiply("plus", ProductRequest(np.ones(4), passes=65))


class TestOwnership:
    def test_another_client_may_use_a_model_but_not_change_it(self, host: ModelHost) -> None:
        host.load("plus", client="/owner")
        assert host.load("plus", client="/other").owner == "/owner"
        host.invoke("plus", ONES, RequestTerms("/other"))
        weights = WeightRequest(np.ones((1, 1), np.float32))
        with pytest.raises(OwnershipError, match="belongs to '/owner'"):
            host.set_weights("plus", weights, RequestTerms("/other"))
        with pytest.raises(OwnershipError):
            host.unload("plus", "/other")
        with pytest.raises(OwnershipError):
            host.load("other", "plus", client="/other")
        host.unload("plus", "/owner")

    def test_a_shared_model_may_be_changed_by_all(self, host: ModelHost) -> None:
        host.load("plus", client="/owner", shared=True)
        host.load("other", "plus", client="/other")
        host.unload("plus", "/third")

    def test_anonymous_clients_are_one(self, host: ModelHost) -> None:
        host.load("plus")
        with pytest.raises(OwnershipError, match="belongs to an anonymous client"):
            host.unload("plus", "/named")
        host.unload("plus")


class TestQueuedModels:
    def test_a_model_that_cannot_be_read_is_listed_as_failed_and_may_be_loaded_anew(
        self, host: ModelHost, models: Path
    ) -> None:
        with pytest.raises(ModelFormatError):
            host.load("broken")
        broken = host.model("broken")
        assert (broken.state, broken.message) == (ModelState.FAILED, "broken_edgetpu.tflite: broken")
        with pytest.raises(ModelFormatError):
            host.invoke("broken", ONES)
        (models / "broken_edgetpu.tflite").write_bytes(b"mended")
        assert host.load("broken").state is ModelState.LOADED

    def test_requests_that_wait_for_a_model_that_fails_get_its_error(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        assert host.submit_load("broken").state is ModelState.QUEUED
        host.submit_invoke("broken", ONES, answers.put)
        backend.parsing.set()
        assert isinstance(answers.get(timeout=5), ModelFormatError)

    def test_a_model_that_is_being_loaded_has_the_tensors_of_its_file(
        self, host: ModelHost, backend: FakeBackend, models: Path
    ) -> None:
        builder = GraphBuilder()
        image = builder.input("image", (1, 4), np.int8, scale=1.0, zero_point=0)
        weights = np.ones((2, 4), np.int8)
        builder.output(
            builder.fully_connected(image, weights, weight_scale=1.0, scale=1.0, zero_point=0, name="sums")
        )
        (models / "graph_edgetpu.tflite").write_bytes(builder.build())
        backend.parsing.clear()
        queued = host.submit_load("graph")
        assert queued.state is ModelState.QUEUED
        backend.parsing.set()
        (numbers,), (sums,) = queued.tensors_of_file
        assert (numbers.name, numbers.shape, sums.name, sums.shape) == ("image", (1, 4), "sums", (1, 2))

    def test_the_death_of_a_process_while_a_model_is_attached_is_met_with_a_second_try(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.deaths = 1
        host.load("plus")
        assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]

    def test_a_graph_whose_process_dies_twice_cannot_run(self, host: ModelHost, backend: FakeBackend) -> None:
        backend.deaths = 2
        assert host.load("plus").unsupported_reason == "the process that runs the graph died"

    def test_a_model_that_failed_can_be_unloaded(self, host: ModelHost) -> None:
        with pytest.raises(ModelFormatError):
            host.load("broken")
        host.unload("broken")
        assert host.models() == ()

    def test_a_model_can_be_unloaded_while_it_is_being_loaded(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        loaded: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_load("plus", done=loaded.put)
        host.submit_invoke("plus", ONES, answers.put)
        host.unload("plus")
        backend.parsing.set()
        assert isinstance(loaded.get(timeout=5), ModelNotFoundError)
        assert isinstance(answers.get(timeout=5), ModelNotFoundError)

    def test_requests_that_wait_for_a_model_run_when_it_is_loaded(
        self, host: ModelHost, backend: FakeBackend
    ) -> None:
        backend.parsing.clear()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_load("plus")
        host.submit_invoke("plus", ONES, answers.put)
        backend.parsing.set()
        assert answers.get(timeout=5).outputs["output"].tolist() == [[2, 2, 2, 2]]
