"""Outcomes of requests and results: counted, and written as lines of JSON by the processes of a run."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any


class Outcome(Enum):
    """The outcome of a request or of a published result."""

    RIGHT = "right"
    WRONG = "wrong"
    """The result differs from the expected one, or a correct request was refused as faulty."""
    LOST = "lost"
    """A request without an answer."""
    BUSY = "busy"
    EXPIRED = "expired"
    """The deadline passed; wrong for a request without a deadline."""
    UNAVAILABLE = "unavailable"
    """Refused because the driver or the device was absent or had failed."""
    UNKNOWN_MODEL = "unknown_model"
    """The driver does not have the client's model: it was restarted or cleaned up."""
    NOT_VALID = "not_valid"
    """A result that is not valid although a measurement was possible."""
    NOT_JUDGED = "not_judged"
    """A result whose truth is unknown, for instance just after a restart."""


Judgement = tuple[Outcome, str]
"""An outcome and, if it is wrong, the expected and the actual result."""

NEEDS_CAUSE = (Outcome.UNAVAILABLE, Outcome.UNKNOWN_MODEL, Outcome.LOST)
"""Outcomes that count as lost unless chaos explains them."""
NOTED = (Outcome.WRONG, *NEEDS_CAUSE)
"""Outcomes that are logged individually; the others are only counted."""


@dataclass(frozen=True)
class Note:
    """One logged outcome. Times are in s of the monotonic clock, which all processes share."""

    begin: float
    end: float
    outcome: Outcome
    detail: str


class Journal:
    """Writes the outcomes of one process to a file: counts once a second, and notes one by one.

    An existing file is continued, so that a restarted process adds to it. `clock` returns monotonic time, s.
    """

    PERIOD = 1.0

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = path.open("a", buffering=1)
        self._counts: Counter[str] = Counter()
        self._written = self._clock()

    def add(self, outcome: Outcome, what: str, begin: float, detail: str = "") -> None:
        """Count an outcome of `what`, a kind of request or a node. begin: time of sending or stamp, s."""
        self._counts[f"{what} {outcome.value}"] += 1
        if outcome in NOTED:
            self._write(
                {"begin": begin, "end": self._clock(), "note": outcome.value, "detail": detail, "what": what}
            )
        self.flush()

    def flush(self, *, now: bool = False) -> None:
        """Write the counts since the last line if a second has passed; `now`: in any case."""
        time_ = self._clock()
        if self._counts and (now or time_ - self._written >= self.PERIOD):
            self._write({"end": time_, "counts": dict(self._counts)})
            self._counts.clear()
            self._written = time_

    def _write(self, line: Mapping[str, object]) -> None:
        self._file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class Counted:
    """Number of times that an outcome occurred in the second before `end`."""

    end: float
    what: str
    outcome: Outcome
    count: int


def read_journal(path: Path) -> tuple[list[Counted], list[Note]]:
    """Read a file of a Journal; the last line may be cut off by the end of its process."""
    counted: list[Counted] = []
    notes: list[Note] = []
    for line in _objects(path):
        if "counts" in line:
            for key, count in line["counts"].items():
                what, _, outcome = key.rpartition(" ")
                counted.append(Counted(line["end"], what, Outcome(outcome), count))
        else:
            detail = f"{line['what']}: {line['detail']}"
            notes.append(Note(line["begin"], line["end"], Outcome(line["note"]), detail))
    return counted, notes


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    lines = path.read_text().splitlines()
    # Only the last line that a process wrote can be incomplete.
    yield from (json.loads(line) for line in lines if line.endswith("}"))


@dataclass(frozen=True)
class Disturbance:
    """An interval of monotonic time, s, in which chaos may have kept the driver from answering."""

    begin: float
    end: float
    ends_requests: bool
    """Whether requests in progress may remain unanswered because the driver was killed."""
    forgets_models: bool = False
    """Whether the driver has no models afterwards, which a client may notice much later."""
    stick: int | None = None
    """The only stick that is affected: as long as another one works, the driver must answer."""


NOTICED_AFTER = 40.0
"""Time within which every client has sent a request for its model, s."""


def explains(disturbance: Disturbance, note: Note) -> bool:
    """Whether the disturbance explains the outcome."""
    end = disturbance.end
    if note.outcome is Outcome.LOST and not disturbance.ends_requests:
        return False
    if note.outcome is Outcome.UNKNOWN_MODEL:
        if not disturbance.forgets_models:
            return False
        end += NOTICED_AFTER
    return note.begin <= end and note.end >= disturbance.begin


def unexplained(notes: list[Note], disturbances: list[Disturbance], sticks: int) -> list[Note]:
    """The notes in NEEDS_CAUSE that no disturbance of the driver explains, nor one of every stick."""
    of_driver = [each for each in disturbances if each.stick is None]
    of_sticks = [each for each in disturbances if each.stick is not None]

    def is_explained(note: Note) -> bool:
        if any(explains(each, note) for each in of_driver):
            return True
        return len({each.stick for each in of_sticks if explains(each, note)}) == sticks

    return [note for note in notes if note.outcome in NEEDS_CAUSE and not is_explained(note)]
