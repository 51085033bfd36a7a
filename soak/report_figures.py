"""The figures of a run as rows, like those of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from measured_figures.row import Row
from soak.outcome_journal import Outcome
from soak.process_samples import Sample, growths
from soak.run_evaluation import Findings

AREA = "soak"
LARGEST_GROWTH = 5.0
"""Limit of the growth of memory, % of the memory a minute after the start of the process."""
LEAST_VALID = 0.9
"""Least share of valid results among those of a node that could be valid."""
_OTHER_GROWTHS: tuple[tuple[str, str, Callable[[Sample], float]], ...] = (
    ("shared memory", "MB", lambda each: each.shared),
    ("threads", "", lambda each: each.threads),
    ("file descriptors", "", lambda each: each.files),
)
"""Figures whose growth is reported without a limit, in addition to memory."""


def rows(findings: Findings, case: str) -> Iterator[Row]:
    """Counts of a run, then memory, threads and file descriptors of each process that lived long enough."""
    row, totals = partial(Row, AREA, case), findings.totals
    if findings.images is not None:
        shown, planned = findings.images.shown / 3600, findings.images.planned / 3600
        yield row("simulated time", shown, "h", planned, "higher")
    yield row("results checked", findings.checked, "", 1, "higher")
    yield row("wrong", findings.wrong, "", 0, "lower")
    yield row("lost", findings.lost, "", 0, "lower")
    yield row("processes ended by themselves", len(findings.ends), "", 0, "lower")
    yield row("nodes silent after chaos", len(findings.silences), "", 0, "lower")
    yield row("nodes without a right result", len(findings.unproven), "", 0, "lower")
    valid = 100 * findings.least_valid
    yield row("results that are valid, of the worst node", valid, "%", 100 * LEAST_VALID, "higher")
    for outcome in (Outcome.BUSY, Outcome.EXPIRED, Outcome.UNAVAILABLE, Outcome.UNKNOWN_MODEL):
        yield row(f"answered {outcome.value.replace('_', ' ')}", totals[outcome], "", None, "lower")
    abandoned = totals[Outcome.LOST] - sum(note.outcome is Outcome.LOST for note in findings.unexplained)
    yield row("ended with a driver that was killed", abandoned, "", None, "lower")
    yield row("not judged", totals[Outcome.NOT_JUDGED], "", None, "lower")
    yield row("actions of chaos", findings.actions, "", None, "higher")
    yield row("restarts", findings.restarts, "", None, "higher")
    for growth in growths(findings.samples, lambda each: each.own):
        metric = f"{growth.process}: memory against a minute after its start"
        yield row(metric, growth.percent, "%", LARGEST_GROWTH, "lower", growth.first, baseline_unit="MB")
    for what, unit, value in _OTHER_GROWTHS:
        for growth in growths(findings.samples, value):
            metric = f"{growth.process}: {what} against a minute after its start"
            yield row(metric, growth.last, unit, None, "lower", growth.first, baseline_unit=unit or None)
