"""Requests that never get their turn are still answered, within `max_wait`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import BusyError
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_queue import LONGEST_NEGLECT
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.host.sticks.stick_eligibility import PRODUCTS_AT_ONCE
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.weights.weight_request import WeightRequest
from fuzz.interleavings.fake_sticks import SIZE
from fuzz.interleavings.host_on_fake_sticks import INPUTS, WEIGHTS, Stage

LIMIT = 2.0
LIMITS = ClientLimits(wait=LIMIT)
REAL_TIME = RequestTerms("/tracker", Priority.REAL_TIME)
BULK = RequestTerms("/bulk", Priority.BULK)
LARGE = WeightRequest(np.full((2 * SIZE, 2 * SIZE), 0.5, np.float32))
"""A matrix in four tiles."""
PRODUCT = ProductRequest(np.ones((2, 2 * SIZE)), batch=2, passes=3)
IN_FLIGHT = 25

Done = Callable[[Any], None]


class Flood:
    """A client that keeps every stick of a host busy with requests that go before others."""

    def __init__(self, host: ModelHost, terms: RequestTerms = REAL_TIME) -> None:
        self._host, self._terms, self._goes_on = host, terms, True
        for _ in range(8):
            self._ask()

    def _ask(self, _answer: Any = None) -> None:
        if self._goes_on:
            self._host.submit_invoke("a", INPUTS, self._ask, self._terms)

    def end(self) -> None:
        """Send no more."""
        self._goes_on = False


class Waits:
    """How long each of some requests took, and what it was answered."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.sent = 0
        self.seconds: list[float] = []
        self.answers: list[Any] = []

    def done(self) -> Done:
        """The callback of one more request."""
        self.sent += 1
        begin = self._stage.controller.now

        def answered(answer: Any) -> None:
            self.seconds.append(self._stage.controller.now - begin)
            self.answers.append(answer)

        return answered

    @property
    def kinds(self) -> Counter[type]:
        """How many answers of each type there are."""
        return Counter(map(type, self.answers))

    def all_answered(self) -> bool:
        """Whether none is waited for."""
        return len(self.answers) == self.sent


@pytest.mark.parametrize("sticks", [1, 2])
def test_every_product_is_answered_however_busy_real_time_work_keeps_the_sticks(
    stage: Stage, sticks: int
) -> None:
    waits = Waits(stage)

    def work() -> None:
        host = stage.make_host(sticks, limits=LIMITS)
        host.load("a")
        host.load("b", "m")
        host.set_weights("m", LARGE)
        flood = Flood(host)
        for _ in range(IN_FLIGHT):
            host.submit_multiply("m", PRODUCT, waits.done(), BULK)
        stage.until(waits.all_answered, 60.0)
        flood.end()

    stage.run(work)
    assert set(waits.kinds) == {Product, BusyError}
    assert max(waits.seconds) < 2 * LIMIT  # of those that had begun; a product takes a second here


def test_products_that_have_begun_come_to_an_end_however_many_follow(stage: Stage) -> None:
    waits, pieces = Waits(stage), 60

    def work() -> None:
        host = stage.make_host(limits=LIMITS)
        host.load("a")
        host.load("b", "m")
        flood = Flood(host)
        goes_on = True

        def ask(_answer: Any = None) -> None:
            if goes_on:
                answered = waits.done()

                def done(answer: Any) -> None:
                    answered(answer)
                    ask()

                host.submit_multiply("m", ProductRequest(np.ones(SIZE), passes=pieces), done, BULK)

        for _ in range(IN_FLIGHT):
            ask()
        stage.controller.sleep(30.0)
        goes_on = False
        flood.end()

    stage.run(work)
    assert waits.kinds[Product] > 5
    assert max(waits.seconds) < LIMIT + PRODUCTS_AT_ONCE * pieces * LONGEST_NEGLECT + 1.0


def test_the_answer_to_a_product_that_was_not_begun_says_when_to_retry(stage: Stage) -> None:
    waits = Waits(stage)

    def work() -> None:
        host = stage.make_host(limits=LIMITS)
        host.load("a")
        host.load("b", "m")
        flood = Flood(host)
        for _ in range(IN_FLIGHT):
            host.submit_multiply("m", ProductRequest(np.ones(SIZE), passes=64), waits.done(), BULK)
        stage.until(lambda: BusyError in waits.kinds, 10.0)
        flood.end()
        assert host.status().refused == waits.kinds[BusyError]

    stage.run(work)
    busy = [answer for answer in waits.answers if isinstance(answer, BusyError)]
    assert str(busy[0]).startswith("waited 2 s for its turn")
    assert {answer.retry_after >= 1.0 for answer in busy} == {True}


def test_weights_wait_no_longer_for_a_product_that_does_not_end(stage: Stage) -> None:
    waits, products = Waits(stage), Waits(stage)

    def work() -> None:
        host = stage.make_host(limits=LIMITS)
        host.load("a", shared=True)
        endless = ProductRequest(np.ones((1000, SIZE)), batch=1000, passes=64)
        host.submit_multiply("a", endless, products.done(), RequestTerms("/other", Priority.BULK))
        stage.controller.sleep(0.1)
        host.submit_set_weights("a", WEIGHTS, waits.done(), BULK)
        stage.until(waits.all_answered, 10.0)
        host.submit_invoke("a", INPUTS, waits.done())
        stage.until(waits.all_answered)

    stage.run(work)
    assert [type(answer) for answer in waits.answers] == [BusyError, InferenceResult]
    assert waits.seconds[0] == pytest.approx(LIMIT, abs=1.1)
    assert waits.answers[1].weights_version == 0  # the refused weights are not in effect
    assert not products.answers


def test_a_deadline_replaces_the_limit(stage: Stage) -> None:
    waits = Waits(stage)

    def work() -> None:
        host = stage.make_host(limits=LIMITS)
        host.load("a", shared=True)
        endless = ProductRequest(np.ones((1000, SIZE)), batch=1000, passes=64)
        host.submit_multiply("a", endless, print, RequestTerms("/other", Priority.BULK))
        stage.controller.sleep(0.1)
        host.submit_set_weights("a", WEIGHTS, waits.done(), RequestTerms("/bulk", Priority.BULK, 100.0))
        stage.controller.sleep(5 * LIMIT)

    stage.run(work)
    assert not waits.answers


def test_requests_are_answered_while_no_stick_takes_any(stage: Stage) -> None:
    waits = Waits(stage)

    def work() -> None:
        host = stage.make_host(limits=LIMITS)
        host.load("a")
        stage.sticks[0].delay = 60.0
        host.submit_invoke("a", INPUTS, waits.done())  # which the stick takes, and does not end
        host.submit_invoke("a", INPUTS, waits.done())
        stage.controller.sleep(LIMIT + 1.0)
        host.answer_overdue()  # as the node does once a second

    stage.run(work)
    assert [type(answer) for answer in waits.answers] == [BusyError]


def test_work_that_has_begun_is_not_abandoned(stage: Stage) -> None:
    waits = Waits(stage)

    def work() -> None:
        host = stage.make_host(limits=ClientLimits(wait=0.5))
        host.load("a")
        flood = Flood(host)
        host.submit_multiply("a", ProductRequest(np.ones(SIZE), passes=64), waits.done(), BULK)
        stage.until(waits.all_answered, 60.0)
        flood.end()

    stage.run(work)
    assert waits.kinds == {Product: 1}
    assert waits.seconds[0] > 1.0
