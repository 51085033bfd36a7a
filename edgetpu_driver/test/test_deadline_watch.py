"""The thread that answers requests whose deadline has passed."""

from __future__ import annotations

import threading
from typing import Any

from edgetpu_driver.host.sticks.deadline_watch import DeadlineWatch
from testdata.timeouts import PATIENCE


class Queue:
    """A scheduler in which a request is queued just after its thread has seen that none waits."""

    def __init__(self) -> None:
        self.watch: Any = None
        self.expired = threading.Semaphore(0)
        self._requests = [1, 0, 1, 1, 0]
        """How many wait, each time somebody looks: who queues one, the thread, who queues one, the thread."""

    @property
    def waiting(self) -> int:
        count = self._requests.pop(0)
        if threading.current_thread().name == "edgetpu deadlines" and len(self._requests) == 3:
            self.queueing = threading.Thread(target=self.watch)
            self.queueing.start()
            self.queueing.join(0.2)  # it may have to wait until the thread has ended
        return count

    def expire(self) -> None:
        self.expired.release()


def test_a_request_that_is_queued_while_the_thread_ends_is_watched_by_another() -> None:
    queue: Any = Queue()
    DeadlineWatch(queue).arm()
    assert queue.expired.acquire(timeout=PATIENCE)
    assert queue.expired.acquire(timeout=PATIENCE)
