"""Memory, threads and file descriptors of a process, and their growth over its life."""

from __future__ import annotations

import csv
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from soak.chaos.chaos_schedule import BUSY_SECONDS, END_SECONDS, QUIET_SECONDS

SETTLED = 60.0
"""Age of a process from which growth is measured, s."""
_WINDOW = BUSY_SECONDS + QUIET_SECONDS
"""Length of the windows over which medians of samples are taken, from SETTLED and at the end, s. The heap of
a process differs between the busy and the quiet turns of the schedule, so a window has one of each. The last
END_SECONDS of a run, which are quiet as well, are left out."""


@dataclass(frozen=True)
class Sample:
    """The resources that a process used at one time."""

    time: float
    """Monotonic time, s."""
    age: float
    """Age of the process, s."""
    process: str
    pid: int
    pss: float
    """Proportional set size, MB."""
    own: float
    """Memory of the process alone, MB."""
    shared: float
    """Its share of the middleware's shared memory, MB. Segments of 16 MB are filled gradually, and the share
    grows when other processes that have mapped them end."""
    threads: int
    files: int
    """Number of open file descriptors."""


def sample(process: str, pid: int, time: float, started: float) -> Sample | None:
    """Read a sample from /proc; None if the process has ended. started: monotonic time, s."""
    root = Path("/proc") / str(pid)
    try:
        rollup = (root / "smaps_rollup").read_text()
        status = (root / "status").read_text()
        files = len(os.listdir(root / "fd"))
    except OSError:
        return None
    pss = _field(rollup, "Pss:")
    if not pss:
        return None
    own, shared = _field(rollup, "Pss_Anon:"), _field(rollup, "Pss_Shmem:")
    threads = int(_field(status, "Threads:"))
    return Sample(time, time - started, process, pid, pss / 1024, own / 1024, shared / 1024, threads, files)


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Write a table with a column for each field of Sample."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Sample))
        writer.writerows(astuple(each) for each in samples)


def _field(text: str, name: str) -> float:
    for line in text.splitlines():
        if line.startswith(name):
            return float(line.split()[1])
    return 0.0


@dataclass(frozen=True)
class Growth:
    """The change of a figure of one process from SETTLED until END_SECONDS before its end."""

    process: str
    seconds: float
    """Time between the two windows, s."""
    first: float
    last: float

    @property
    def percent(self) -> float:
        """The change in percent of the first value."""
        return 100.0 * (self.last / self.first - 1.0)


def growths(samples: Sequence[Sample], value: Callable[[Sample], float]) -> list[Growth]:
    """The growth of each process that lived long enough to have one, in the order of their starts."""
    lives: dict[int, list[Sample]] = {}
    for each in samples:
        lives.setdefault(each.pid, []).append(each)
    found = (_growth(life, value) for life in lives.values())
    return [growth for growth in found if growth is not None]


def _growth(life: Sequence[Sample], value: Callable[[Sample], float]) -> Growth | None:
    end = life[-1].age - END_SECONDS
    if end < SETTLED + 2 * _WINDOW:
        return None
    settled = [each for each in life if SETTLED <= each.age < SETTLED + _WINDOW]
    late = [each for each in life if end - _WINDOW < each.age <= end]
    if not settled or not late:
        return None
    first, last = (statistics.median(map(value, part)) for part in (settled, late))
    return Growth(life[0].process, late[-1].time - settled[0].time, first, last)
