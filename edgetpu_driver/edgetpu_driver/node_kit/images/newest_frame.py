"""Flow control for nodes slower than their camera: they process the newest frame and count the others."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rclpy.subscription import Subscription

T = TypeVar("T")

PATIENCE = 8
"""Most frames that may wait, and most ends of work at which a frame has waited for more than MAX_WAIT, before
a node counts as too slow for its camera.

With 4, a node that needs nearly all of its camera's period dropped an image now and then. Row: bench
five_nodes, rate without loss.
"""

MAX_WAIT = 0.03
"""Seconds that frames may wait without the work counting as too slow.

Derived: about a period of a camera of 30 Hz, so a node too slow for it gets hardly any older frames. A camera
of 150 Hz sends four frames meanwhile, which a node that keeps up can work off.
"""


class NewestFrame(Generic[T]):
    """A short queue in front of work that handles one frame at a time.

    Frames that arrive during a short delay are all processed, in order. The work counts as too slow for the
    camera once a frame has waited for more than MAX_WAIT at more than PATIENCE ends of work since the queue
    was last empty. From then on only the newest frame is kept, until the queue is empty again. The same holds
    while the work cannot be started.

    `start` begins to process a frame and returns whether it could. When the processing is done `finished`
    must be called, by the callback of an asynchronous request or before `start` returns. A frame that could
    not be started waits until `resume` is called or a newer frame replaces it; one whose start raised is
    discarded. All calls come from one thread.
    """

    def __init__(self, start: Callable[[T], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._start, self._clock = start, clock
        self._waiting: deque[tuple[T, float]] = deque()
        """Frames with their times of arrival, s."""
        self._busy = False
        self._late = 0
        """Ends of work since the queue was last empty at which a frame had waited for over MAX_WAIT."""
        self.dropped = 0
        """Number of frames that were replaced by a newer one before they were started."""

    @property
    def has_newer(self) -> bool:
        """Whether a frame waits behind the present one."""
        return bool(self._waiting)

    def offer(self, frame: T, replaced: int = 0) -> None:
        """Process this frame now, or when its turn comes unless newer ones replace it.

        `replaced`: number of older frames that a `Backlog` skipped in favour of this one.
        """
        self.dropped += replaced
        self._waiting.append((frame, self._clock()))
        self._keep(PATIENCE if self._late <= PATIENCE else 1)
        self.resume()

    def finished(self) -> None:
        """End the processing of the present frame and start the next one."""
        self._busy = False
        if not self._waiting:
            self._late = 0
        elif self._clock() - self._waiting[0][1] > MAX_WAIT:
            self._late += 1
        if self._late > PATIENCE:
            self._keep(1)
        self.resume()

    def put_back(self, frame: T) -> None:
        """End the processing of this frame without a result; it waits again unless a newer one does."""
        self._busy = False
        self._waiting.appendleft((frame, self._clock()))
        self._keep(1)

    def resume(self) -> None:
        """Try to start the next frame, for example because the model has become ready."""
        if self._busy or not self._waiting:
            return
        frame, _ = self._waiting.popleft()
        self._busy = True
        try:
            started = self._start(frame)
        except BaseException:
            self._busy = False
            raise
        if not started:
            self.put_back(frame)

    def _keep(self, count: int) -> None:
        """Drop all frames but the newest `count`."""
        while len(self._waiting) > count:
            self._waiting.popleft()
            self.dropped += 1


class Backlog(Generic[T]):
    """Selects frames from a queue: all of them after a short delay, the newest if the node is too slow.

    A node that keeps up with its camera processes the frames that queued during a delay within a few rounds.
    One that finds frames queued for more than MAX_WAIT in every round would never catch up, so it processes
    only the newest.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        """Time of the last selection, s: the frames that wait have arrived since then."""
        self._rounds = 0

    def select(self, waiting: list[T]) -> tuple[list[T], int]:
        """Return the waiting frames to process, oldest first, and the number of those that are skipped."""
        now = self._clock()
        waited, self._last = now - self._last, now
        if len(waiting) <= 1:
            self._rounds = 0
        elif waited > MAX_WAIT:
            self._rounds += 1
        if self._rounds <= PATIENCE:
            return waiting, 0
        return waiting[-1:], len(waiting) - 1


def take_waiting(
    subscription: Subscription, message: Any, on_info: Callable[[Any], None] | None = None
) -> list[Any]:
    """Return the message that the subscription's callback received and all others that wait, oldest first.

    The executor would take one round for each. A queue of depth 1 would keep only the newest, but would not
    tell how many messages it has overwritten. `on_info` is called with the middleware's information
    on each of the others.
    """
    messages = [] if message is None else [message]
    with subscription.handle:
        while len(messages) <= subscription.qos_profile.depth:
            taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
            if taken is None:
                break
            messages.append(taken[0])
            if on_info is not None:
                on_info(taken[1])
    return messages
