"""Answers to several requests, given when no lock is held."""

from __future__ import annotations

from typing import Any

from edgetpu_driver.errors import ExpiredError
from edgetpu_driver.host.request import Request

Answers = list[tuple[Request, Any]]
"""Requests and what they are to be answered, once the lock is released."""


def answer_all(answers: Answers) -> None:
    """Give the answers."""
    for request, answer in answers:
        request.answer(answer)


def expiry(request: Request) -> ExpiredError:
    """The answer to a request whose deadline has passed."""
    return ExpiredError(
        f"the deadline, {request.deadline - request.arrived:g} s after its arrival, passed before the "
        "request could be run"
    )
