"""The confidence that a place is recognised: its mean score over the last seconds, and its lead in score.

The mean prevents a single unusual view from naming a place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from edgetpu_matrix.place_recognition.place_search import Place

MOST = 256
"""Largest number of answers; older ones are dropped."""


class ScoreWindow:
    """Averages the answers of the last searches."""

    def __init__(self) -> None:
        self._answers: deque[tuple[float, dict[str, float], float]] = deque(maxlen=MOST)
        """Stamp in s, scores by label, and lowest score of each answer."""

    def clear(self) -> None:
        """Forget all answers: the places have changed."""
        self._answers.clear()

    def mean(self, stamp: float, places: Sequence[Place], seconds: float) -> tuple[Place, ...]:
        """Return the places of the last `seconds` with the mean of their scores, best first.

        places: the answer of the time `stamp`, s, best first. A place missing from an answer was less similar
        than all in it, and counts with the lowest of their scores. A stamp before the last one first clears
        the window.
        """
        if self._answers and stamp < self._answers[-1][0]:
            self.clear()
        while self._answers and self._answers[0][0] <= stamp - seconds:
            self._answers.popleft()
        if places:
            self._answers.append((stamp, {place.label: place.score for place in places}, places[-1].score))
        labels = dict.fromkeys(label for _, scores, _ in self._answers for label in scores)
        means = [Place(label, self._mean(label)) for label in labels]
        return tuple(sorted(means, key=lambda place: -place.score))

    def _mean(self, label: str) -> float:
        return sum(scores.get(label, least) for _, scores, least in self._answers) / len(self._answers)


def is_sure(places: Sequence[Place], min_score: float, min_margin: float) -> bool:
    """Whether the first place is similar enough, and leads the second by enough; places: best first."""
    if not places or places[0].score < min_score:
        return False
    return bool(len(places) == 1 or places[0].score - places[1].score >= min_margin)
