"""Threads of the host in orders that once went wrong: sticks that join or are lost at work, or hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import ExpiredError
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.host_status import State
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_terms import RequestTerms
from edgetpu_driver.host.sticks.model_spreading import Spreading
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.weights.weight_request import WeightRequest
from fuzz.interleavings.fake_sticks import SIZE
from fuzz.interleavings.host_on_fake_sticks import INPUTS, WEIGHTS, Stage


def test_a_request_that_was_given_to_a_stick_just_before_a_command_expires(stage: Stage) -> None:
    def work() -> None:
        host = stage.make_host()
        host.load("a")
        answers: list[Any] = []
        stage.controller.sleep(0.1)
        host._pool.workers[0].post(lambda: stage.controller.sleep(1.0))  # which is idle until it takes this
        host.submit_invoke("a", INPUTS, answers.append, RequestTerms(deadline=0.5))
        stage.until(lambda: bool(answers))
        assert isinstance(answers[0], ExpiredError), answers[0]

    stage.run(work)


class TestWorkOfALostStick:
    """Work begins on the first stick and is run again by it, since the second is busy all the time."""

    def start(self, stage: Stage, delay: float) -> ModelHost:
        host = stage.make_host(2, limits=ClientLimits(wait=1.0))
        host.load("a")
        host.start(refresh_period=60.0, retry_period=0.05)
        stage.controller.sleep(1.0)
        stage.sticks[1].delay = 60.0
        worker = host._pool.workers[1]
        worker.post(worker.refresh)
        stage.controller.sleep(0.1)
        stage.sticks[0].delay = delay
        return host

    def lose(self, stage: Stage) -> None:
        stage.sticks[0].failures, stage.sticks[0].delay = 1, 0.0

    def test_it_has_not_waited_for_its_turn_meanwhile(self, stage: Stage) -> None:
        def work() -> None:
            host = self.start(stage, 0.1)
            answers: list[Any] = []
            host.submit_multiply("a", ProductRequest(np.ones(SIZE), passes=64), answers.append)
            stage.controller.sleep(2.0)
            self.lose(stage)
            stage.until(lambda: bool(answers))
            assert isinstance(answers[0], Product), answers[0]

        stage.run(work)

    def test_swaps_of_one_client_keep_their_order(self, stage: Stage) -> None:
        def work() -> None:
            host = self.start(stage, 0.03)
            ended: list[str] = []
            large = WeightRequest(np.ones((2 * SIZE, SIZE), np.float32))
            host.submit_set_weights("a", large, lambda _: ended.append("first"))
            requests = host.model("a").requests
            stage.until(lambda: requests.swap is not None)
            first: Any = requests.swap
            host.submit_set_weights("a", WEIGHTS, lambda _: ended.append("second"))
            for _ in range(3):  # so that the swap is suspended
                host.submit_invoke("a", INPUTS, lambda _: None)
            stage.until(lambda: first.sequence != first.first_sequence)
            self.lose(stage)
            stage.until(lambda: len(ended) == 2)
            assert ended == ["first", "second"]

        stage.run(work)


def test_a_request_is_not_blamed_for_a_stick_that_fails_before_it_begins(stage: Stage) -> None:
    def work() -> None:
        host = stage.make_host(2)
        host.load("a")
        host.start(refresh_period=60.0, retry_period=0.05)
        stage.controller.sleep(1.0)
        first = host._pool.workers[0]
        wake = first.slot.wake

        def read_before(request: Any) -> None:
            first.slot.wake = wake
            first.post(first.refresh)
            wake(request)

        first.slot.wake = read_before
        for stick in stage.sticks:
            stick.failures = 1  # the first while it is read, the second with the request
        stage.sticks[1].delay = 0.5  # by then the first is back
        assert isinstance(host.invoke("a", INPUTS), InferenceResult)

    stage.run(work)


class TestSticksThatHang:
    """The first stick hangs, and no reading is due on the second, which would have left work to the first."""

    def check(self, stage: Stage, hang: Callable[[ModelHost], None], *, hot: bool) -> None:
        def work() -> None:
            host = stage.make_host(2)
            host.load("a")
            host.invoke("a", INPUTS)  # the first stick has the parameters in its memory
            host._pool.workers[1].slot.throttled = hot
            stage.controller.sleep(0.1)
            stage.sticks[0].delay = 60.0
            hang(host)
            stage.controller.sleep(0.02)
            answers: list[Any] = []
            host.submit_invoke("a", INPUTS, answers.append)
            stage.until(lambda: bool(answers), 1.0)
            assert isinstance(answers[0], InferenceResult)

        stage.run(work)

    @pytest.mark.parametrize("hot", [False, True], ids=["an upload", "heat"])
    def test_another_one_takes_their_work_despite(self, stage: Stage, hot: bool) -> None:
        self.check(stage, lambda host: host.submit_invoke("a", INPUTS, lambda _: None), hot=hot)

    def test_a_hot_one_takes_the_work_of_one_that_hangs_while_it_is_read(self, stage: Stage) -> None:
        def read(host: ModelHost) -> None:
            worker = host._pool.workers[0]
            worker.post(worker.refresh)

        self.check(stage, read, hot=True)


def test_a_request_handed_to_a_stick_follows_its_model_to_another(stage: Stage) -> None:
    def work() -> None:
        stage.sticks[1].plugged = False
        host = stage.make_host(2, spreading=Spreading.SPREAD)
        for each in ("a", "b"):
            host.load("a", each)
        first, second = host._pool.workers
        wake = first.slot.wake

        def join_before(request: Any) -> None:
            first.slot.wake = wake
            second.post(second.open)
            stage.until(lambda: second.connection.state is State.READY)
            wake(request)

        stage.sticks[1].plugged = True
        stage.controller.sleep(0.1)  # the first stick is idle
        first.slot.wake = join_before
        assert isinstance(host.invoke("a", INPUTS), InferenceResult)
        assert list(host.model("a").replicas) == [1]

    stage.run(work)


def test_a_stick_that_failed_its_self_check_is_tried_again_by_the_next_start(stage: Stage) -> None:
    def work() -> None:
        host = stage.make_host()
        engine: Any = host.load("a").replicas[0].engine
        host.check()
        engine._values = -engine._values
        host.check()
        assert host.state is State.FAILED
        host.close()
        host.start()
        stage.until(lambda: host.state is State.READY)

    stage.run(work)
