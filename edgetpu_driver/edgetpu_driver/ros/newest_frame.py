"""What a node does when frames come faster than it works: the newest one wins, the others are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rclpy.subscription import Subscription

T = TypeVar("T")


class NewestFrame(Generic[T]):
    """A place for one waiting frame in front of work that handles one at a time.

    `start` begins the work on a frame and says whether it could. When the work is done `finished` must be
    called, by the callback of an asynchronous request or before `start` returns. A frame that could not be
    started waits for a newer one, or for `resume`; one whose start raised is gone. All calls come from one
    thread.
    """

    def __init__(self, start: Callable[[T], bool]) -> None:
        self._start = start
        self._waiting: T | None = None
        self._busy = False
        self.dropped = 0
        """Frames that were replaced by a newer one before the work on them began."""

    def offer(self, frame: T, replaced: int = 0) -> None:
        """Work on this frame now, or as soon as the present one is done unless a newer one comes.

        `replaced`: older frames that `take_newest` skipped in favour of this one.
        """
        self.dropped += replaced + (self._waiting is not None)
        self._waiting = frame
        self.resume()

    def finished(self) -> None:
        """Say that the work on the present frame is done."""
        self._busy = False
        self.resume()

    def put_back(self, frame: T) -> None:
        """Say that the work on this frame came to nothing; it waits again unless a newer one does already."""
        self._busy = False
        if self._waiting is None:
            self._waiting = frame
        else:
            self.dropped += 1

    def resume(self) -> None:
        """Try the waiting frame, for example because the model has become ready."""
        if self._busy or self._waiting is None:
            return
        frame, self._waiting = self._waiting, None
        self._busy = True
        try:
            started = self._start(frame)
        except BaseException:
            self._busy = False
            raise
        if not started:
            self._busy = False
            if self._waiting is None:
                self._waiting = frame


def take_newest(subscription: Subscription, message: Any) -> tuple[Any, int]:
    """Take what else waits in a subscription; return the newest message and how many older ones it replaces.

    To be called first thing in the subscription's callback, with the message it was given. Where the work is
    done inside the callback (a driver in the same process), or another callback held the executor, frames
    queue in the middleware; the executor hands them over one by one, oldest first, so a node slower than its
    camera would always work on a frame that is a whole queue old. A queue of depth 1 would avoid that, but
    overwrites in silence: nobody could tell how many frames were lost.
    """
    replaced = 0
    with subscription.handle:
        while replaced < subscription.qos_profile.depth:
            taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
            if taken is None:
                break
            message = taken[0]
            replaced += 1
    return message, replaced
