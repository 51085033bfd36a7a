"""What a node does when frames come faster than it works: the newest one wins, the others are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rclpy.subscription import Subscription

T = TypeVar("T")

PATIENCE = 4
"""Rounds in a row in which frames may have queued before a node counts as too slow for its camera."""


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

        `replaced`: older frames that a `Backlog` skipped in favour of this one.
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


class Backlog(Generic[T]):
    """Tells a hiccup, after which all frames that wait are worked off, from a node slower than its camera.

    A node that keeps up has worked off what a hiccup left after a few rounds, for which it is a little late.
    One that finds frames waiting round after round would stay late for ever: it takes the newest only.
    """

    def __init__(self, patience: int = PATIENCE) -> None:
        self._patience = patience
        self._rounds = 0

    def select(self, waiting: list[T]) -> tuple[list[T], int]:
        """Which of the frames that wait, oldest first, to work on, and how many others are skipped."""
        self._rounds = self._rounds + 1 if len(waiting) > 1 else 0
        if self._rounds <= self._patience:
            return waiting, 0
        return waiting[-1:], len(waiting) - 1


def take_waiting(subscription: Subscription, message: Any) -> list[Any]:
    """Give the message that the subscription's callback got and all others that wait, oldest first.

    The executor hands them over one by one, with a round of its own for each. A queue of depth 1 would keep
    the newest alone, but overwrites in silence: nobody could tell how many frames were lost.
    """
    messages = [] if message is None else [message]
    with subscription.handle:
        while len(messages) <= subscription.qos_profile.depth:
            taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
            if taken is None:
                break
            messages.append(taken[0])
    return messages
