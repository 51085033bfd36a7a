"""Threads of the host in orders that once went wrong: several sticks, unexpected errors, its end."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import (
    DeviceLostError,
    ExpiredError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host import model_table
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.models.hosted_model import ModelState
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_terms import RequestTerms
from edgetpu_driver.host.sticks import deadline_watch
from edgetpu_driver.host.sticks.model_spreading import Spreading
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.weights.weight_request import WeightRequest
from fuzz.interleavings.fake_models import FakeCpu, Reader
from fuzz.interleavings.fake_sticks import SIZE, FakeBackend
from fuzz.interleavings.host_on_fake_sticks import INPUTS, WEIGHTS, Stage


class TestSticks:
    def test_a_model_that_only_a_lost_stick_can_run_is_unavailable(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host(2)
            host.load("picky")
            host.invoke("picky", INPUTS)
            stage.sticks[0].plugged = False
            host.refresh()
            with pytest.raises(UnavailableError, match="no device that can run model 'picky': it does not"):
                host.invoke("picky", INPUTS)

        stage.run(work)

    def test_models_may_move_away_while_they_are_attached(self, stage: Stage) -> None:
        def work() -> None:
            stage.sticks[1].plugged = False
            host = stage.make_host(2, spreading=Spreading.SPREAD)
            for name in ("a", "b"):
                host.load("a", name)
            first, second = host._pool.workers
            stage.sticks[0].plugged = False
            host.refresh()
            stage.sticks[0].plugged = stage.sticks[1].plugged = True
            stage.sticks[0].attach_seconds = 0.5
            first.post(first.open)
            stage.until(lambda: first.connection.is_open)
            stage.controller.sleep(0.1)
            second.post(second.open)
            stage.until(lambda: second.slot.serving and first.slot.serving)
            for name in ("a", "b"):
                assert isinstance(host.invoke(name, INPUTS), InferenceResult)
            host.refresh()
            assert [stick.attached for stick in stage.sticks] == [1, 1]

        stage.run(work)

    def test_a_request_of_a_lost_stick_expires_in_time(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host(2)
            host.load("a")
            answers: list[Any] = []
            for stick in stage.sticks:
                stick.delay = 0.3
            host.start(refresh_period=60.0)
            stage.controller.sleep(1.0)
            host.submit_invoke("a", INPUTS, answers.append, RequestTerms(deadline=0.4))
            stage.controller.sleep(0.2)
            used, other = sorted(stage.sticks, key=lambda s: host._scheduler.slots[s.number].running is None)
            other.delay = 5.0
            host.submit_invoke("a", INPUTS, answers.append)
            used.failures, used.delay = 1, 5.0  # in 0.1 s; then it is opened again, while the other is busy
            stage.until(lambda: bool(answers), 1.0)
            assert isinstance(answers[0], ExpiredError)

        stage.run(work)

    def test_a_request_that_has_waited_for_a_model_of_several_steps_expires_in_time(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(model_table, "read_model", Reader(FakeCpu(stage.controller)).read)

        def work() -> None:
            host = stage.make_host()
            stage.sticks[0].delay = 60.0
            host._pool.workers[0].post(host._pool.workers[0].refresh)
            stage.controller.sleep(0.1)
            refuse, answers = host._scheduler.refuse, list[Any]()

            def refuse_slowly() -> None:
                stage.controller.sleep(0.1)  # nothing waits, so that the deadlines are watched no longer
                refuse()

            monkeypatch.setattr(host._scheduler, "refuse", refuse_slowly)
            host.submit_load("two_parts", "m")
            host.submit_invoke("m", INPUTS, answers.append, RequestTerms(deadline=0.5))
            stage.until(lambda: bool(answers), 1.0)
            assert isinstance(answers[0], ExpiredError)

        stage.run(work)

    def test_weights_wait_for_no_stick_that_lost_the_model(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host(2)
            model = host.load("a")
            host.submit_set_weights("a", WEIGHTS, lambda _: None)
            stage.until(lambda: model.weights_version == 1)
            slow = next(
                stick
                for stick, replica in zip(stage.sticks, model.replicas.values(), strict=True)
                if replica.version == 0
            )
            slow.delay = 1.0
            model.replicas = {at: each for at, each in model.replicas.items() if at != slow.number}
            host._scheduler.refuse()
            stage.until(lambda: not model.requests.unanswered, 10.0)
            assert host.status().waiting == 0

        stage.run(work)

    def test_the_status_can_be_read_while_a_stick_joins(self, stage: Stage) -> None:
        def work() -> None:
            stage.sticks[0].plugged = False
            host = stage.make_host()
            pool, worker = host._pool, host._pool.workers[0]
            status = worker.status

            def join_meanwhile() -> Any:
                pool.add_stick(FakeBackend(stage.sticks[1])).open()
                return status()

            worker.status = join_meanwhile  # type: ignore[method-assign]
            assert [stick.state for stick in host.status().sticks] == [State.ABSENT]

        stage.run(work)

    def test_engines_that_are_made_too_late_are_released(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host()
            model = host.load("a")
            stage.sticks[0].attach_seconds = 1.0  # an engine for tiles takes that long
            host.submit_set_weights("a", WeightRequest(np.ones((2 * SIZE, SIZE), np.float32)), lambda _: None)
            stage.controller.sleep(0.5)
            stage.controller.start("other", model.replicas[0].close)
            stage.controller.sleep(2.0)
            assert stage.sticks[0].attached == 0

        stage.run(work)

    def test_a_self_check_knows_the_weights_of_the_engine_besides_tiles(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host()
            host.load("a")
            host.set_weights("a", WEIGHTS)
            host.set_weights("a", WeightRequest(np.full((2 * SIZE, SIZE), 0.5, np.float32)))
            host.check()
            host.connect()  # sets the weights in effect again, but not those before
            assert host.multiply("a", ProductRequest(np.ones(SIZE))).weights_version == 2
            host.check()
            assert host.state is State.READY, host.status_message

        stage.run(work)


class Failing(FakeBackend):
    """A backend with a library that raises an unexpected exception."""

    where = ""

    def attach(self, model: Any) -> Any:
        if self.where == "attach":
            raise ValueError("a library failed")
        engine = super().attach(model)
        if self.where == "prepare":
            engine.prepare_weights = self.fail  # type: ignore[method-assign]
        return engine

    def fail(self, *_arguments: object) -> Any:
        raise ValueError("a library failed")


class TestUnexpectedErrors:
    def test_while_a_model_is_attached_make_it_unsupported(self, stage: Stage) -> None:
        def work() -> None:
            backend = Failing(stage.sticks[0])
            backend.where = "attach"
            host = stage.make_host(backends=[backend])
            host.load("a")
            with pytest.raises(ModelUnsupportedError, match="unexpected ValueError: a library failed"):
                host.invoke("a", INPUTS)

        stage.run(work)

    def test_while_weights_are_set_again_make_it_unsupported(self, stage: Stage) -> None:
        def work() -> None:
            backend = Failing(stage.sticks[0])
            host = stage.make_host(backends=[backend])
            host.load("a")
            host.set_weights("a", WEIGHTS)
            backend.where = "prepare"
            host.connect()
            answers: list[Any] = []
            try:
                host.submit_invoke("a", INPUTS, answers.append)
            except ModelUnsupportedError as error:
                answers.append(error)
            stage.until(lambda: bool(answers))
            assert "unexpected ValueError: a library failed" in str(answers[0])

        stage.run(work)


class TestCallbacksThatRaise:
    def test_when_a_stick_is_lost_its_request_is_answered_all_the_same(self, stage: Stage) -> None:
        def changed() -> None:
            raise ValueError("the user's callback failed")

        def work() -> None:
            host = stage.make_host(on_change=changed)
            host.load("a")
            stage.sticks[0].plugged = False
            answers: list[Any] = []
            host.submit_invoke("a", INPUTS, answers.append)
            stage.until(lambda: bool(answers))
            assert isinstance(answers[0], DeviceLostError)

        stage.run(work)

    def test_others_get_the_registers_all_the_same(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host()
            answers: list[Any] = []
            host.submit_registers(lambda _: answers.append(answers[0]))  # which raises
            host.submit_registers(answers.append)
            stage.until(lambda: bool(answers))

        stage.run(work)


def no_thread(*_arguments: object, **_options: object) -> Any:
    """Stands for the start of a thread where the limit of threads is reached."""
    raise RuntimeError("can't start new thread")


class TestWithoutFurtherThreads:
    def test_calculations_are_made_by_the_thread_of_the_stick(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host()
            host.load("a")
            host._scheduler._arithmetic.submit = no_thread  # type: ignore[method-assign]
            assert host.set_weights("a", WEIGHTS).version == 1
            assert host._scheduler.slots[0].parked == set()

        stage.run(work)

    def test_deadlines_pass_all_the_same(self, stage: Stage) -> None:
        answers: list[Any] = []

        def work() -> None:
            host = stage.make_host()
            host.load("a")
            stage.sticks[0].delay = 1.0
            deadline_watch.threading = SimpleNamespace(Thread=no_thread)  # type: ignore[assignment]
            for _ in range(2):
                host.submit_invoke("a", INPUTS, answers.append, RequestTerms(deadline=0.5))
            stage.until(lambda: len(answers) == 2)

        stage.run(work)
        assert [type(each) for each in answers] == [InferenceResult, ExpiredError]

    def test_a_stick_that_was_found_is_added_later(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = [FakeBackend(stage.sticks[1])]

        def work() -> None:
            host = stage.make_host(find_more=lambda _known: [found.pop()] if found else [])
            adds: list[Any] = [no_thread, host._table.add_backend]
            monkeypatch.setattr(host._table, "add_backend", lambda *given: adds.pop(0)(*given))
            host.start(retry_period=0.1)
            stage.until(lambda: len(host._pool.workers) == 2)
            assert not adds

        stage.run(work)


class TestClosing:
    def test_the_thread_ends_though_it_is_given_more_to_do(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host()
            host.close(timeout=0.0)
            host._pool.workers[0].post(lambda: None)
            stage.until(lambda: not stage.controller.unfinished())

        stage.run(work)

    def test_the_time_limit_is_for_all_sticks_together(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host(2)
            for worker, stick in zip(host._pool.workers, stage.sticks, strict=True):
                stick.delay = 60.0
                worker.post(worker.refresh)
            stage.controller.sleep(0.1)
            begin = stage.controller.now
            host.close(timeout=2.0)
            assert stage.controller.now - begin < 2.1

        stage.run(work)

    def test_a_stick_that_is_found_too_late_is_not_opened(self, stage: Stage) -> None:
        looking: list[bool] = []

        def find(_known: Collection[str]) -> list[FakeBackend]:
            if looking:
                return []
            looking.append(True)
            stage.controller.sleep(1.0)
            return [FakeBackend(stage.sticks[1])]

        def work() -> None:
            host = stage.make_host(find_more=find)
            host.start(retry_period=0.1)
            stage.until(lambda: bool(looking))
            stage.controller.sleep(0.99)
            loads = host.submit_load("a")  # the loader is busy when the stick is found
            stage.until(lambda: loads.state is ModelState.LOADED)
            host.close()
            stage.until(lambda: not stage.controller.unfinished(), 20.0)
            assert [stick.session for stick in stage.sticks] == [0, 0]

        stage.run(work)

    def test_a_stick_that_is_found_too_late_is_opened_with_the_next_start(self, stage: Stage) -> None:
        found = [FakeBackend(stage.sticks[1])]

        def find(_known: Collection[str]) -> list[FakeBackend]:
            stage.controller.sleep(1.0)
            return [found.pop()] if found else []

        def work() -> None:
            host = stage.make_host(find_more=find)
            host.start(retry_period=0.1)
            stage.controller.sleep(0.5)
            host.close()
            host.start(retry_period=0.1)
            stage.controller.sleep(2.0)
            assert [stick.state for stick in host.status().sticks] == [State.READY] * 2

        stage.run(work)

    def test_a_start_before_the_cpu_has_closed_has_it_run_on(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(model_table, "read_model", Reader(FakeCpu(stage.controller)).read)

        def work() -> None:
            host = stage.make_host()
            host.load("one_part")
            worker = host._whole.cpu._worker
            worker.post(lambda: stage.controller.sleep(1.0))
            stage.controller.sleep(0.1)
            host.close(timeout=0.1)
            host.start()
            stage.until(lambda: host.state is State.READY)
            stage.controller.sleep(2.0)
            assert worker.slot.serving

        stage.run(work)

    def test_a_finaliser_may_stop_a_thread_at_any_place(self, stage: Stage) -> None:
        def work() -> None:
            worker = stage.make_host()._pool.workers[0]
            with worker._thread._lock:
                worker.stop(timeout=0.0)
            stage.until(lambda: not stage.controller.unfinished())

        stage.run(work)
