"""A device that blocks under the models of a host."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from edgetpu_driver.errors import (
    ExpiredError,
    InputError,
    ModelNotFoundError,
    PathRefusedError,
    UnavailableError,
)
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.hosted_model import ModelState
from edgetpu_driver.host.requests.request_terms import RequestTerms
from edgetpu_driver.host.sticks import stick_pool
from testdata.devices.fake_device import ONES, FakeBackend
from testdata.timeouts import PATIENCE


class TestADeviceThatBlocks:
    """The device hangs in a transfer, held by the test; nothing but its own requests waits for it."""

    @pytest.fixture
    def blocked(self, host: ModelHost, backend: FakeBackend) -> Iterator[ModelHost]:
        host.load("plus")
        backend.hold()
        self.answers: list[Any] = []
        host.submit_invoke("plus", ONES, self.answers.append)
        assert backend.begun.wait(PATIENCE)
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
        assert loaded.get(timeout=PATIENCE) is blocked.model("other")
        blocked.submit_invoke("other", ONES, answers.put)
        assert blocked.status().waiting == 1
        backend.release.set()
        assert answers.get(timeout=PATIENCE).outputs["output"].tolist() == [[2, 2, 2, 2]]

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
        assert isinstance(answers.get(timeout=PATIENCE), ExpiredError)
        assert (blocked.status().expired, blocked.status().waiting) == (1, 0)

    def test_a_reset_does_not_wait_for_it(self, blocked: ModelHost) -> None:
        blocked.reset()
        assert self.answers == []
        assert blocked.status().sticks[0].state is State.READY

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

    def test_closing_waits_no_longer_than_its_timeout(self, blocked: ModelHost) -> None:
        begin = time.monotonic()
        blocked.close(timeout=0.01)
        assert time.monotonic() - begin < PATIENCE / 2

    @pytest.mark.parametrize(("spent", "left"), [(7.0, 3.0), (12.0, 0.0)])
    def test_the_thread_for_the_cpu_gets_what_the_sticks_leave_of_the_time_to_close(
        self, spent: float, left: float, host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [100.0]
        given: list[float | None] = []

        def wait(_timeout: float | None) -> None:
            now[0] += spent

        # Of this host alone, as hosts of earlier tests may be collected and closed meanwhile.
        monkeypatch.setattr(stick_pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
        monkeypatch.setattr(host._pool.first, "begin_stop", lambda: wait)
        monkeypatch.setattr(host._whole.cpu, "close", given.append)
        host.close(10.0)
        monkeypatch.undo()
        assert given == [left]

    def test_what_waits_is_answered_when_the_host_is_closed(
        self, blocked: ModelHost, backend: FakeBackend
    ) -> None:
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        blocked.submit_invoke("plus", ONES, answers.put)
        blocked.close(timeout=0.0)
        backend.release.set()
        assert isinstance(answers.get(timeout=PATIENCE), UnavailableError)
