"""The findings of a run: counts, unexplained failures, and the growth of the processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from soak.chaos.chaos import Chaos
from soak.chaos.chaos_schedule import quiet_ends
from soak.checks.perception_checks import CAMERAS
from soak.outcome_journal import Counted, Note, Outcome, read_journal, unexplained
from soak.process_samples import Sample
from soak.processes import End, Processes
from soak.result_messages import MATRIX_TOPICS

NODES = (*CAMERAS, *MATRIX_TOPICS)
"""The nodes whose results are checked."""
_LAST_SECONDS = 6.0
"""Time at the end of each quiet turn in which every node has to publish a result, s."""


@dataclass(frozen=True)
class Interval:
    """An interval of monotonic time, s."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Length of the interval, s."""
        return self.end - self.begin


@dataclass(frozen=True)
class Images:
    """Numbers of images of a run in simulated time, which has one image a second."""

    shown: int
    planned: int


@dataclass(frozen=True)
class Findings:
    """The findings of a run."""

    time: Interval
    counted: Sequence[Counted]
    notes: Sequence[Note]
    samples: Sequence[Sample]
    unexplained: Sequence[Note]
    """Requests that were lost or refused and that no disturbance explains."""
    silences: Sequence[str]
    """Nodes that published nothing at the end of a quiet turn, each with the time, as text."""
    ends: Sequence[End]
    """Processes that ended without being killed."""
    actions: int
    restarts: int
    images: Images | None = None
    """Images in simulated time; None in real time."""
    is_interrupted: bool = False
    """Whether the run was shorter than planned."""

    @property
    def totals(self) -> Counter[Outcome]:
        """The number of each outcome, over all processes."""
        totals: Counter[Outcome] = Counter()
        for each in self.counted:
            totals[each.outcome] += each.count
        return totals

    @property
    def checked(self) -> int:
        """Number of results that were compared with the expected ones."""
        return self.totals[Outcome.RIGHT] + self.totals[Outcome.WRONG]

    @property
    def wrong(self) -> int:
        """Number of results that differ from the expected ones."""
        return self.totals[Outcome.WRONG]

    @property
    def lost(self) -> int:
        """Number of unanswered or refused requests that no injected fault explains."""
        return len(self.unexplained)

    @property
    def unproven(self) -> list[str]:
        """Nodes without a single right result."""
        return [node for node in NODES if not self.of(node, Outcome.RIGHT)]

    @property
    def least_valid(self) -> float:
        """The lowest share, over nodes, of valid results among those that could be valid; 1 without any."""
        counts = [(self.of(node, Outcome.RIGHT), self.of(node, Outcome.NOT_VALID)) for node in NODES]
        return min((right / (right + bad) for right, bad in counts if right + bad), default=1.0)

    def of(self, what: str, outcome: Outcome) -> int:
        """The number of outcomes of one kind, for a kind of request or a node."""
        return sum(each.count for each in self.counted if (each.what, each.outcome) == (what, outcome))


def gather(
    journals: Sequence[Path],
    time: Interval,
    planned: float,
    samples: Sequence[Sample],
    chaos: Chaos,
    processes: Processes,
    images: Images | None,
) -> Findings:
    """Read the journals of the processes, and find failures that the actions do not explain."""
    counted: list[Counted] = []
    notes: list[Note] = []
    for path in journals:
        of_process = read_journal(path)
        counted += of_process[0]
        notes += of_process[1]
    during = [note for note in notes if note.begin <= time.end]
    return Findings(
        time=time,
        counted=counted,
        notes=during,
        samples=samples,
        unexplained=unexplained(during, chaos.disturbances, chaos.sticks),
        silences=silences(counted, time, planned),
        ends=processes.ends,
        actions=chaos.done,
        restarts=processes.restarts,
        images=images,
    )


def silences(counted: Sequence[Counted], time: Interval, planned: float) -> list[str]:
    """Nodes without a result in the last seconds of a quiet turn. planned: length of the schedule, s."""
    found = []
    for end in (each for each in quiet_ends(planned) if each <= time.seconds):
        late = Interval(time.begin + end - _LAST_SECONDS, time.begin + end)
        heard = {each.what for each in counted if late.begin <= each.end <= late.end}
        found += [f"{node} at {end:.0f} s" for node in NODES if node not in heard]
    return found
