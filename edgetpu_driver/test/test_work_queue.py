"""Work in order, one piece at a time."""

from __future__ import annotations

import pytest

from edgetpu_driver.node_kit.executor.work_queue import WorkQueue


class Worker:
    """Begins pieces while it is able, and remembers them."""

    def __init__(self, limit: int = 3) -> None:
        self.begun: list[int] = []
        self.lost: list[int] = []
        self.able = True
        self.queue = WorkQueue[int](self.start, limit, self.lost.append)

    def start(self, piece: int) -> bool:
        if self.able:
            self.begun.append(piece)
        return self.able


def test_a_piece_begins_when_the_one_before_is_done() -> None:
    worker = Worker()
    for piece in (1, 2, 3):
        worker.queue.offer(piece)
    assert worker.begun == [1]
    worker.queue.finished()
    worker.queue.finished()
    assert worker.begun == [1, 2, 3]
    assert len(worker.queue) == 0


def test_work_that_ends_at_once_does_not_pile_up() -> None:
    begun = []

    def start(piece: int) -> bool:
        begun.append(piece)
        if piece:
            queue.finished()
        return True

    queue = WorkQueue[int](start, 5000)
    for piece in range(5000):
        queue.offer(piece)
    queue.finished()
    assert begun == list(range(5000))


def test_work_that_could_not_begin_stays_first() -> None:
    worker = Worker()
    worker.able = False
    worker.queue.offer(1)
    worker.queue.offer(2)
    worker.able = True
    worker.queue.resume()
    worker.queue.finished()
    assert worker.begun == [1, 2]


def test_failed_work_is_first_again() -> None:
    worker = Worker()
    worker.queue.offer(1)
    worker.queue.offer(2)
    worker.queue.put_back()
    worker.queue.resume()
    worker.queue.finished()
    assert worker.begun == [1, 1, 2]


def test_work_whose_begin_fails_does_not_hold_up_the_next() -> None:
    begun: list[int] = []

    def start(piece: int) -> bool:
        begun.append(piece)
        if piece == 1:
            raise ValueError("expected another number")
        return True

    queue = WorkQueue[int](start, 3)
    with pytest.raises(ValueError, match="another number"):
        queue.offer(1)
    queue.offer(2)
    assert (begun, queue.present) == ([1, 2], 2)


def test_the_oldest_that_waits_gives_way() -> None:
    worker = Worker(limit=2)
    for piece in range(5):
        worker.queue.offer(piece)
    assert worker.lost == [1, 2]
    assert worker.queue.dropped == 2
    for _ in range(5):
        worker.queue.finished()
    assert worker.begun == [0, 3, 4]


def test_a_piece_is_begun_again_once() -> None:
    worker = Worker()
    for piece in (1, 2):
        worker.queue.offer(piece)
    assert [worker.queue.repeat(), worker.queue.repeat()] == [True, False]
    worker.queue.finished()
    assert worker.begun == [1, 1, 2]
