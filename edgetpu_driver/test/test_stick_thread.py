"""The thread of a stick: it starts with a command, takes its mail in order, and ends when told to."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from edgetpu_driver.host.sticks.stick_thread import StickThread
from testdata.timeouts import PATIENCE


class Worker:
    """Runs commands until one sets `ends`."""

    def __init__(self) -> None:
        self.thread = StickThread("worker", self.step)
        self.ends = False
        self.threads: list[threading.Thread] = []
        """The thread of each step."""

    def step(self) -> bool:
        if self.ends and self.thread.end():
            return True
        self.threads.append(threading.current_thread())
        command: Any = self.thread.take(None)
        command()
        return False

    def finish(self) -> None:
        """End the thread and wait for that."""
        self.thread.post(lambda: setattr(self, "ends", True))
        self.threads[-1].join(PATIENCE)
        assert not self.thread.runs

    def done(self, number: int) -> threading.Event:
        """Post that many commands; the event is set by the last one."""
        event = threading.Event()
        for _ in range(number - 1):
            self.thread.post(lambda: None)
        self.thread.post(event.set)
        return event


def test_a_command_starts_the_thread_again_after_its_end() -> None:
    worker = Worker()
    assert not worker.thread.runs
    assert worker.done(3).wait(PATIENCE)
    first = worker.threads[0]
    worker.finish()
    worker.ends = False
    assert worker.done(1).wait(PATIENCE)
    assert worker.threads[-1] is not first
    worker.finish()


def test_the_thread_does_not_end_while_there_is_mail() -> None:
    worker = Worker()
    worker.ends = True
    gate = threading.Event()
    worker.thread.post(lambda: gate.wait(PATIENCE))
    last = worker.done(1)
    gate.set()
    assert last.wait(PATIENCE)
    worker.threads[0].join(PATIENCE)
    assert not worker.thread.runs
    assert set(worker.threads) == {worker.threads[0]}


def test_an_error_is_logged_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker()

    def fail() -> None:
        raise OSError(5, "x")

    for _ in range(3):
        worker.thread.post(fail)
    assert worker.done(1).wait(PATIENCE)
    worker.finish()
    assert [each.message for each in caplog.records if each.threadName == "worker"] == [
        "unexpected error in the thread 'worker'"
    ]


def test_the_thread_knows_itself() -> None:
    worker = Worker()
    answers: list[bool] = []
    worker.thread.post(lambda: answers.append(worker.thread.is_current))
    assert worker.done(1).wait(PATIENCE)
    worker.finish()
    assert (answers, worker.thread.is_current) == ([True], False)


def test_nothing_is_taken_from_an_empty_mailbox() -> None:
    thread = StickThread("idle", lambda: True)
    assert (thread.has_mail, thread.take(0.0)) == (False, None)
    thread.put(None)
    assert (thread.has_mail, thread.runs) == (True, False)
