"""How long a client waits for the answer to a request before it considers the driver lost."""

from __future__ import annotations

LONGEST = 60.0
"""Longest wait, s. Chosen: a model that takes longer is of no use on a robot, and the driver may be lost."""


class AnswerPatience:
    """How long to wait for an answer, s: longer for a driver that is alive but slow, as with a large model.

    Otherwise each request that takes longer than usual would be abandoned while the driver works on it.
    """

    def __init__(self, usual: float, longest: float = LONGEST) -> None:
        """usual: shortest wait, s, enough for most models. longest: longest wait, s."""
        self._usual, self._longest = usual, longest
        self.seconds = usual

    def missed(self) -> None:
        """Note that there was no answer in time; the next wait is twice as long."""
        self.seconds = max(self._usual, min(2 * self.seconds, self._longest))

    def answered(self, seconds: float) -> None:
        """Note after how many seconds a result came."""
        self.seconds = max(self._usual, min(2 * seconds, self._longest))

    def forget(self) -> None:
        """Start over, with another driver."""
        self.seconds = self._usual
