"""How long a client waits for the answer to a request before it takes the driver for lost."""

from __future__ import annotations

LONGEST = 60.0
"""Seconds at most. Chosen: a model that takes longer is none for a robot, and a driver may be lost all the
same."""


class AnswerPatience:
    """The seconds to wait for an answer: more for a driver that lives and is slow, as with a large model.

    Without that, a request that takes longer than usual is abandoned each time, while the driver works on it.
    """

    def __init__(self, usual: float) -> None:
        """usual: seconds that are enough for most models, and at least."""
        self._usual = usual
        self.seconds = usual

    def missed(self) -> None:
        """Note that there was no answer in time. If the driver still loads the model, it is slow."""
        self.seconds = max(self._usual, min(2 * self.seconds, LONGEST))

    def answered(self, seconds: float) -> None:
        """Note after how many seconds a result came."""
        self.seconds = max(self._usual, min(2 * seconds, LONGEST))

    def forget(self) -> None:
        """Begin anew, with another driver."""
        self.seconds = self._usual
