"""The threads of the driver's host in orders that are drawn from seeds, and in those that once went wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import (
    ExpiredError,
    InputError,
    ModelFormatError,
    ModelNotFoundError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host import model_table
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.hosted_model import HostedModel, ModelState
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.host.model_assignment import Spreading
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.model_replica import ModelReplica
from edgetpu_driver.host.priority_queue import LONGEST_NEGLECT
from edgetpu_driver.host.request_terms import NORMAL_TERMS, Priority, RequestTerms
from edgetpu_driver.host.weight_access import record
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from fuzz.interleavings.fake_models import FakeCpu, Reader, run_steps, steps_of
from fuzz.interleavings.fake_sticks import INPUT, SIZE, FakeBackend, FakeStick
from fuzz.interleavings.primitives import replaced
from fuzz.interleavings.scenario import FILES, host_modules, run_seed, write_files
from fuzz.interleavings.thread_controller import InterleavingError, ThreadController

SEEDS = 80
"""`make fuzz` runs thousands."""
INPUTS = {"x": np.full(INPUT.shape, 3, np.int8)}
WEIGHTS = WeightRequest(np.full((SIZE, SIZE), 0.5, np.float32))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = tmp_path_factory.mktemp("models")
    write_files(models)
    return models


@pytest.mark.parametrize("part", range(5))
def test_whatever_the_order_every_request_is_answered_once_and_right(directory: Path, part: int) -> None:
    answered = sum(run_seed(seed, directory).answered for seed in range(part, SEEDS, 5))
    assert answered > SEEDS


class TestTheController:
    def test_a_seed_repeats_itself(self, directory: Path) -> None:
        assert run_seed(7, directory) == run_seed(7, directory)

    def test_threads_that_wait_for_each_other_are_reported(self) -> None:
        controller = ThreadController(0)
        with replaced(host_modules(), controller):
            from edgetpu_driver.host import scheduler

            first, second = scheduler.threading.Lock(), scheduler.threading.Lock()

        def take(one: Any, other: Any) -> None:
            with one:
                controller.sleep(0.1)
                with other:
                    pass

        def deadlock() -> None:
            controller.start("other", lambda: take(second, first))
            take(first, second)

        with pytest.raises(InterleavingError, match="no thread can go on"):
            controller.run(deadlock)


class Stage:
    """A host on fake sticks, whose first thread, that of the test, goes on whenever it can."""

    def __init__(self, directory: Path) -> None:
        self.controller = ThreadController(0, steady=True)
        self.sticks = [FakeStick(self.controller, number, False) for number in range(2)]
        self._directory = directory

    def make_host(self, sticks: int = 1, **options: Any) -> ModelHost:
        backends = [FakeBackend(stick) for stick in self.sticks[:sticks]]
        host = ModelHost(options.pop("backends", backends), [self._directory], **options)
        host.connect()
        return host

    def run(self, work: Callable[[], None]) -> None:
        with replaced(host_modules(), self.controller):
            self.controller.run(work)

    def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        assert self.controller.wait(condition, seconds)


@pytest.fixture
def stage(directory: Path) -> Iterator[Stage]:
    return Stage(directory)


class TestUnloading:
    def test_a_request_that_comes_too_late_is_told_so(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host()
            model = host.load("a")
            host.unload("a")
            with pytest.raises(ModelNotFoundError):  # it had found the model before that was unloaded
                host._submission.invoke(model, INPUTS, print, NORMAL_TERMS)

        stage.run(work)

    def test_a_model_that_is_not_attached_yet_still_runs_what_waits(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host()
            answers: list[Any] = []
            stage.sticks[0].delay = 0.5  # the stick is busy while the model is loaded
            host._pool.workers[0].post(host._pool.workers[0].refresh)
            stage.controller.sleep(0.1)
            model = host.submit_load("a")
            stage.until(lambda: bool(model.replicas))
            host.submit_invoke("a", INPUTS, answers.append)
            host.unload("a")
            stage.until(lambda: bool(answers))
            assert isinstance(answers[0], InferenceResult)
            stage.until(lambda: stage.sticks[0].attached == 0)

        stage.run(work)

    def test_a_model_loaded_again_at_once_answers_all(self, stage: Stage) -> None:
        def work() -> None:
            host = stage.make_host()
            loaded: list[Any] = []
            answers: list[Any] = []
            host.submit_load("a", done=loaded.append)
            host.submit_invoke("a", INPUTS, answers.append)
            host.unload("a")
            second = host.submit_load("a", done=loaded.append)
            host.submit_invoke("a", INPUTS, answers.append)
            stage.until(lambda: len(answers) == len(loaded) == 2)
            assert [type(each) for each in loaded] == [ModelNotFoundError, HostedModel]
            assert [type(each) for each in answers] == [ModelNotFoundError, InferenceResult]
            assert host.model("a") is second

        stage.run(work)

    def test_results_of_an_unloaded_model_name_the_weights_they_were_computed_with(self) -> None:
        model = HostedModel("a", [Path("a")])
        model.unloaded = True
        replica = ModelReplica("a", "", None, model.weights, None, 1)  # type: ignore[arg-type]
        result = WeightResult(1, np.ones(SIZE, np.float32), 0, 0.0, 0.0)
        assert isinstance(record(model, replica, WEIGHTS, result), ModelNotFoundError)
        assert (replica.version, model.weights_version, replica.weights) == (1, 1, WEIGHTS)


@pytest.mark.parametrize(
    ("long", "short"), [(Priority.REAL_TIME, Priority.BULK), (Priority.NORMAL, Priority.NORMAL)]
)
def test_long_work_lets_others_go_first_when_it_is_their_turn(
    stage: Stage, long: Priority, short: Priority
) -> None:
    def work() -> None:
        host = stage.make_host()
        host.load("a")
        answered: list[str] = []
        product = ProductRequest(np.ones(SIZE), passes=64)
        host.submit_multiply("a", product, lambda _: answered.append("long"), RequestTerms("/a", long))
        stage.controller.sleep(0.01)
        host.submit_invoke("a", INPUTS, lambda _: answered.append("short"), RequestTerms("/b", short))
        stage.until(lambda: len(answered) == 2)
        assert answered == ["short", "long"]

    stage.run(work)


def test_bulk_work_beside_a_client_that_always_asks_gets_more_than_single_turns(stage: Stage) -> None:
    pieces = 64

    def work() -> None:
        host = stage.make_host()
        host.load("a")
        answered: list[Any] = []
        busy = True

        def ask(_answer: Any = None) -> None:
            if busy:
                host.submit_invoke("a", INPUTS, ask, RequestTerms("/busy", Priority.NORMAL))

        for _ in range(3):
            ask()
        begin = stage.controller.now
        product = ProductRequest(np.ones(SIZE), passes=pieces)
        host.submit_multiply("a", product, answered.append, RequestTerms("/bulk", Priority.BULK))
        stage.until(lambda: bool(answered), 10.0)
        busy = False
        assert stage.controller.now - begin < 0.75 * pieces * LONGEST_NEGLECT

    stage.run(work)


def test_answers_that_are_errors_keep_nothing_of_their_request(stage: Stage) -> None:
    """A traceback's frames refer to the error, the request and its arrays until the garbage is collected."""

    def work() -> None:
        host = stage.make_host()
        host.load("a")
        answers: list[Any] = []
        host.submit_multiply("a", ProductRequest(np.ones(7)), answers.append)
        host.submit_load("broken", done=answers.append)
        stage.until(lambda: len(answers) == 2)
        assert {type(each) for each in answers} == {InputError, ModelFormatError}
        assert [each.__traceback__ for each in answers] == [None, None]

    stage.run(work)


class TestPartsOfAModelThatIsNotReadYet:
    @pytest.mark.parametrize(
        ("stem", "part", "expected"),
        [("two_parts", 2, 2), ("two_parts", 3, None), ("a", 1, 1), ("a", 2, None)],
    )
    def test_they_are_found_when_it_is(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, stem: str, part: int, expected: int | None
    ) -> None:
        monkeypatch.setattr(model_table, "read_model", Reader(FakeCpu(stage.controller)).read)
        answers: list[Any] = []

        def work() -> None:
            host = stage.make_host()
            host.submit_load(stem, "m")
            host.submit_invoke("m", INPUTS, answers.append, part=part)
            stage.until(lambda: bool(answers))

        stage.run(work)
        (answer,) = answers
        if expected is None:
            assert isinstance(answer, InputError)
        else:
            on_stick = [step for step in steps_of([FILES[stem]]) if step.on_device]
            np.testing.assert_array_equal(
                answer.outputs["y"], run_steps(on_stick[part - 1 : part], INPUTS["x"])
            )
            assert answer.part == expected


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
            stage.until(lambda: not model.pending, 10.0)
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

    def test_a_check_knows_what_the_engine_holds_beside_tiles(self, stage: Stage) -> None:
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
    """A backend with a library that raises what nobody expects."""

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

    def test_a_finaliser_may_stop_a_thread_at_any_place(self, stage: Stage) -> None:
        def work() -> None:
            worker = stage.make_host()._pool.workers[0]
            with worker._thread_lock:
                worker.stop(timeout=0.0)
            stage.until(lambda: not stage.controller.unfinished())

        stage.run(work)
