"""Products whose weights are waiting to be replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import BusyError
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.matrix.matmul import Product
from edgetpu_driver.weights.weight_request import WeightResult
from fuzz.interleavings.fake_sticks import SIZE
from fuzz.interleavings.host_on_fake_sticks import WEIGHTS, Stage

QUICK = ProductRequest(np.ones(SIZE))
LONG = ProductRequest(np.ones((1000, SIZE)), batch=1000, passes=64)
"""Minutes of work."""


def host_with_a_waiting_swap(stage: Stage, swapped: list[Any], priority: Priority) -> ModelHost:
    """A host that works on a long product, and is then to replace its weights."""
    host = stage.make_host()
    host.load("a", shared=True)
    host.submit_multiply("a", LONG, print, RequestTerms("/long", Priority.BULK))
    stage.controller.sleep(0.1)
    host.submit_set_weights("a", WEIGHTS, swapped.append, RequestTerms("/swap", priority))
    return host


def test_a_more_urgent_one_does_not_wait_for_a_long_one(stage: Stage) -> None:
    swapped: list[Any] = []
    answers: list[Any] = []

    def work() -> None:
        host = host_with_a_waiting_swap(stage, swapped, Priority.BULK)
        host.submit_multiply("a", QUICK, answers.append, RequestTerms("/urgent", Priority.REAL_TIME))
        stage.until(lambda: bool(answers), 1.0)

    stage.run(work)
    assert [(type(answer), answer.weights_version) for answer in answers] == [(Product, 0)]
    assert not swapped


def test_one_that_is_as_urgent_as_the_swap_waits_for_it(stage: Stage) -> None:
    swapped: list[Any] = []
    answers: list[Any] = []

    def work() -> None:
        host = host_with_a_waiting_swap(stage, swapped, Priority.NORMAL)
        host.submit_multiply("a", QUICK, answers.append, RequestTerms("/normal", Priority.NORMAL))
        stage.until(lambda: bool(answers), 12.0)

    stage.run(work)
    assert [type(answer) for answer in (*swapped, *answers)] == [BusyError, BusyError]


def test_urgent_ones_alone_do_not_hold_up_a_swap(stage: Stage) -> None:
    swapped: list[Any] = []
    versions: list[int] = []

    def work() -> None:
        host = stage.make_host()
        host.load("a", shared=True)

        def multiply(client: str) -> None:
            def done(answer: Any) -> None:
                versions.append(answer.weights_version)
                if not swapped:
                    multiply(client)

            passes = ProductRequest(np.ones(SIZE), passes=16)
            host.submit_multiply("a", passes, done, RequestTerms(client, Priority.REAL_TIME))

        for number in range(9):
            multiply(f"/client{number % 3}")
        stage.controller.sleep(0.1)
        host.submit_set_weights("a", WEIGHTS, swapped.append, RequestTerms("/swap", Priority.BULK))
        stage.until(lambda: bool(swapped), 1.0)

    stage.run(work)
    assert [(type(answer), answer.version) for answer in swapped] == [(WeightResult, 1)]
    assert len(versions) > 3
    assert versions == sorted(versions)


def test_the_first_two_products_after_a_swap_have_all_of_the_new_weights(stage: Stage) -> None:
    answers: list[Any] = []

    def work() -> None:
        host = stage.make_host()
        host.load("a", shared=True)
        host.set_weights("a", WEIGHTS)
        for client in ("/one", "/other"):
            host.submit_multiply("a", QUICK, answers.append, RequestTerms(client))
        stage.until(lambda: len(answers) == 2)

    stage.run(work)
    expected = WEIGHTS.weights @ QUICK.inputs
    assert [answer.outputs == pytest.approx(expected, abs=0.1) for answer in answers] == [True, True]
