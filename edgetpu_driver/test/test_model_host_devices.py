"""Devices that come and go, or block, under the models of a host."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.backends.backend import ParsedModel
from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.errors import (
    BusyError,
    DeviceAccessError,
    DeviceLostError,
    DeviceNotFoundError,
    EdgeTpuError,
    TransferError,
    UnavailableError,
)
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.hosted_model import ModelState
from edgetpu_driver.host.sticks import device_upkeep
from testdata.devices.fake_device import ONES, FakeBackend, PlusOneEngine
from testdata.graphs.recurrent_cell import recurrent_cell
from testdata.timeouts import PATIENCE


@contextmanager
def without_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No thread can be started, as at the system's limit."""

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        yield


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
        assert backend.begun.wait(PATIENCE)
        host.reset()
        assert host.state is State.READY
        backend.release.set()
        assert answers.get(timeout=PATIENCE).outputs["output"].tolist() == [[2, 2, 2, 2]]
        host.refresh()
        assert host.state is State.RECOVERING

    def test_commands_and_requests_take_turns(self, host: ModelHost, backend: FakeBackend) -> None:
        """A flood of commands does not keep requests waiting, nor the other way round."""
        host.load("plus")
        backend.hold()
        done: queue.SimpleQueue[str] = queue.SimpleQueue()
        host.submit_invoke("plus", ONES, lambda _answer: done.put("request"))
        assert backend.begun.wait(PATIENCE)
        (worker,) = host._pool.workers
        for _ in range(4):
            worker.post(lambda: done.put("command"))
        for _ in range(3):
            host.submit_invoke("plus", ONES, lambda _answer: done.put("request"))
        backend.release.set()
        expected = ["request", *3 * ["command", "request"], "command"]
        assert [done.get(timeout=PATIENCE) for _ in expected] == expected

    def test_a_thread_that_cannot_be_started_is_tried_again(
        self, backend: FakeBackend, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host = ModelHost(backend, [models])
        with without_threads(monkeypatch), pytest.raises(RuntimeError, match="can't start new thread"):
            host.connect()
        host.connect()
        assert host.state is State.READY
        host.close()

    def test_a_model_whose_thread_cannot_be_started_can_be_loaded_again(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with without_threads(monkeypatch), pytest.raises(BusyError, match="no thread can be started") as busy:
            host.submit_load("plus")
        assert (busy.value.retry_after, host.models()) == (1.0, ())
        host.load("plus")

    def test_a_model_whose_thread_cannot_be_started_may_be_loaded_by_that_of_the_next(
        self, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submit, answered = BackgroundThread.submit, threading.Semaphore(0)

        def fail_behind_the_next(*_: object) -> None:
            monkeypatch.setattr(BackgroundThread, "submit", submit)
            host.submit_load("plus", "second", lambda _model: answered.release())
            assert answered.acquire(timeout=PATIENCE)
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(BackgroundThread, "submit", fail_behind_the_next)
        host.submit_load("plus", "first", lambda _model: answered.release())
        assert answered.acquire(timeout=PATIENCE)
        assert [model.state for model in host.models()] == [ModelState.LOADED] * 2

    def test_a_reset_whose_thread_cannot_be_started_can_be_requested_again(
        self, backend: FakeBackend, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host = ModelHost(backend, [models])
        with without_threads(monkeypatch), pytest.raises(RuntimeError, match="can't start new thread"):
            host.reset()
        host.connect()
        host.reset()
        host.refresh()
        assert host.state is State.RECOVERING
        host.close()

    def test_a_device_whose_thread_cannot_be_started_has_no_registers(
        self, backend: FakeBackend, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host = ModelHost(backend, [models])
        answers: list[tuple[int, ...]] = []

        def read() -> None:
            host.submit_registers(lambda found: answers.append(tuple(each.value for each in found)))

        with without_threads(monkeypatch):
            read()
        host.connect()
        read()
        host.refresh()
        assert answers == [(), (5,)]
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
            loaded.get(timeout=PATIENCE)
            return attach(model)

        monkeypatch.setattr(backend, "attach", attach_slowly)
        host.connect()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        host.submit_invoke("other", ONES, answers.put)
        assert not isinstance(answers.get(timeout=PATIENCE), EdgeTpuError)

    def test_every_change_of_state_is_announced(self, backend: FakeBackend, models: Path) -> None:
        seen: list[State] = []
        host = ModelHost(backend, [models], lambda: seen.append(host.state))
        host.connect()
        host.reset()
        host.connect()
        host.close()
        assert seen == [State.STARTING, State.READY, State.RECOVERING, State.READY, State.CLOSED]


class TestKeepingDevicesOpen:
    def test_a_device_that_appears_later_is_opened(self, backend: FakeBackend, models: Path) -> None:
        backend.absence = DeviceNotFoundError("none yet")
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        host.start()
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == [State.STARTING, State.ABSENT]
        backend.absence = None
        assert states.get(timeout=PATIENCE) is State.READY
        host.close()

    def test_a_device_that_is_gone_is_noticed_by_reading_it(self, backend: FakeBackend, models: Path) -> None:
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        host.start(refresh_period=0.01)
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == [State.STARTING, State.READY]
        backend.absence = DeviceLostError("gone")
        assert states.get(timeout=PATIENCE) is State.ABSENT
        host.close()

    def test_without_a_device_it_gives_up_after_the_timeout(self, backend: FakeBackend, models: Path) -> None:
        backend.absence = DeviceNotFoundError("none")
        given_up = threading.Event()
        host = ModelHost(backend, [models], lambda: given_up.set() if host.gave_up else None)
        host.start(wait_timeout=0.0)
        assert given_up.wait(PATIENCE)
        host.close()

    def test_a_device_lost_in_use_is_waited_for(self, backend: FakeBackend, models: Path) -> None:
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        host.start(wait_timeout=0.0)
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == [State.STARTING, State.READY]
        host.reset()
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == [State.RECOVERING, State.READY]
        assert not host.gave_up
        host.close()

    def test_a_flood_of_resets_leaves_time_for_requests(
        self, backend: FakeBackend, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(device_upkeep, "RESET_REST", 60.0)
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        host.start()
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == [State.STARTING, State.READY]
        host.load("plus")
        host.reset()
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == [State.RECOVERING, State.READY]
        for _ in range(20):
            host.reset()
            assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]
        assert backend.opened == 2
        host.close()

    def test_a_reset_that_comes_too_early_is_done_later(
        self, backend: FakeBackend, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(device_upkeep, "RESET_REST", 0.1)
        states: queue.Queue[State] = queue.Queue()
        host = ModelHost(backend, [models], lambda: states.put(host.state))
        host.start(refresh_period=60.0)
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == [State.STARTING, State.READY]
        for _ in range(2):
            host.reset()
            assert [states.get(timeout=PATIENCE) for _ in range(2)] == [State.RECOVERING, State.READY]
        host.close()

    def test_closing_while_models_are_attached_attaches_no_further_ones(
        self, host: ModelHost, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("plus", "other"):
            host.load(name)
        attach, begun, go_on = backend.attach, threading.Event(), threading.Event()
        attached: list[bytes] = []

        def slow_attach(model: ParsedModel) -> PlusOneEngine:
            attached.append(model.source)
            begun.set()
            go_on.wait(PATIENCE)
            return attach(model)

        monkeypatch.setattr(backend, "attach", slow_attach)
        opening = threading.Thread(target=host.connect)
        opening.start()
        assert begun.wait(PATIENCE)
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
        (worker,) = host._pool.workers
        assert worker._thread._thread is not None
        thread = worker._thread._thread.ident  # others may log what is left of earlier tests
        backend.absence = error
        host.refresh()
        host.refresh()
        assert host.invoke("plus", ONES).outputs["output"].tolist() == [[2, 2, 2, 2]]
        backend.absence = DeviceLostError("unplugged")
        host.refresh()
        assert host.state is State.ABSENT
        assert [record.levelname for record in caplog.records if record.thread == thread] == ["ERROR"]


@pytest.mark.usefixtures("graphs_in_this_process")
def test_a_self_check_leaves_a_graph_with_a_state_alone(tmp_path: Path) -> None:
    (tmp_path / "cell.tflite").write_bytes(recurrent_cell())
    host = ModelHost(make_backend("cpu"), [tmp_path])
    host.connect()
    host.load("cell")
    host.invoke("cell", {"x": np.ones((1, 1), np.float32)})
    host.check()
    assert host.state is State.READY
    assert host.invoke("cell", {"x": np.ones((1, 1), np.float32)}).outputs["y"].tolist() == [[2.0]]
    host.close()
