"""The threads of the driver's host in orders that are drawn from seeds, and in those that once went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.backends.backend import ParsedModel
from edgetpu_driver.errors import (
    InputError,
    ModelFormatError,
    ModelNotFoundError,
)
from edgetpu_driver.host import model_table
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.models.model_parts import ReadModel
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.host.requests.request_queue import LONGEST_NEGLECT
from edgetpu_driver.host.requests.request_terms import NORMAL_TERMS, Priority, RequestTerms
from edgetpu_driver.host.requests.weight_access import record
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.weights.weight_request import WeightResult
from fuzz.interleavings.fake_models import FakeCpu, Reader, run_steps, steps_of
from fuzz.interleavings.fake_sticks import SIZE
from fuzz.interleavings.fake_threading import replaced
from fuzz.interleavings.host_on_fake_sticks import INPUTS, WEIGHTS, Stage
from fuzz.interleavings.scenario import FILES, host_modules, run_seed
from fuzz.interleavings.thread_controller import InterleavingError, ThreadController

SEEDS = 30
"""`make fuzz` runs thousands."""


@pytest.mark.parametrize("part", range(5))
def test_whatever_the_order_every_request_is_answered_once_and_right(fake_models: Path, part: int) -> None:
    answered = sum(run_seed(seed, fake_models).answered for seed in range(part, SEEDS, 5))
    assert answered > SEEDS


class TestTheController:
    def test_a_seed_repeats_itself(self, fake_models: Path) -> None:
        assert run_seed(7, fake_models) == run_seed(7, fake_models)

    def test_threads_that_wait_for_each_other_are_reported(self) -> None:
        controller = ThreadController(0)
        with replaced(host_modules(), controller):
            from edgetpu_driver.host.sticks import scheduler

            first, second = scheduler.threading.Lock(), scheduler.threading.Lock()

        def take(one: Any, other: Any) -> None:
            with one:
                controller.sleep(0.1)
                with other:
                    pass

        def deadlock() -> None:
            controller.start("other", lambda: take(second, first))
            take(first, second)

        with pytest.raises(InterleavingError, match="no thread can continue"):
            controller.run(deadlock)


class TestUnloading:
    def test_a_request_that_comes_too_late_is_answered_so(self, stage: Stage) -> None:
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
        replica = ModelReplica("a", "", None, model.weights, None, None)  # type: ignore[arg-type]
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


def test_bulk_work_gets_more_than_single_turns_next_to_a_busy_client(stage: Stage) -> None:
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

    def test_a_request_may_come_while_what_was_read_is_taken_over(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(model_table, "read_model", Reader(FakeCpu(stage.controller)).read)
        set_read = HostedModel.set_read

        def set_slowly(model: HostedModel, sha256: str, size: int, read: ReadModel, *rest: bytes) -> None:
            class Slow:
                parts, plan = read.parts, read.plan

                @property
                def whole(self) -> ParsedModel:
                    stage.controller.sleep(0.1)
                    return read.whole

            set_read(model, sha256, size, Slow(), *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(HostedModel, "set_read", set_slowly)
        answers: list[Any] = []

        def work() -> None:
            host = stage.make_host()
            model = host.submit_load("one_part", "m")
            stage.until(lambda: bool(model.parts))
            host.submit_invoke("m", INPUTS, answers.append)
            stage.until(lambda: bool(answers))

        stage.run(work)
        assert isinstance(answers[0], InferenceResult)
