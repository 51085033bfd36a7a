"""Delivers answers to requests while no lock is held, and waits for answers.

A request that is refused at once raises an error and gets no answer; one that fails later is answered with
its error.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from edgetpu_driver.errors import EdgeTpuError

if TYPE_CHECKING:  # spares nodes that only call a driver this import
    from edgetpu_driver.host.requests.request import Request

Answers: TypeAlias = "list[tuple[Request, Any]]"
"""Requests and their answers, to be given once the lock is released."""


def answer_all(answers: Answers) -> None:
    """Give the answers; no lock may be held."""
    for request, answer in answers:
        request.answer(answer)


def answered(submit: Callable[[Callable[[Any], None]], object], done: Callable[[Any], None]) -> None:
    """Submit a request; `done` gets the answer, even the error of a request that is refused at once."""
    try:
        submit(done)
    except EdgeTpuError as error:
        done(error)


def waited(submit: Callable[[Callable[[Any], None]], object]) -> Any:
    """Submit a request and wait for its answer; raise it if it is an error."""
    answers: SimpleQueue[Any] = SimpleQueue()
    submit(answers.put)
    answer = answers.get()
    if isinstance(answer, Exception):
        raise answer
    return answer
