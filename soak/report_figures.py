"""The figures of a run as rows, as those of the benchmarks are."""

from __future__ import annotations

from collections.abc import Iterator

from measured_figures.row import Row
from soak.findings import Findings
from soak.outcome_journal import Outcome
from soak.process_samples import growths

AREA = "soak"
LARGEST_GROWTH = 5.0
"""Limit of the growth of memory, percent of what a process had a minute after its start."""
LEAST_VALID = 0.9
"""Least share of results that measured something, among those that could have."""


def rows(findings: Findings, case: str) -> Iterator[Row]:
    """Counts of a run, then memory, threads and file descriptors of each process that lived long enough."""
    totals = findings.totals
    yield Row(AREA, case, "results checked", findings.checked, "", 1, "higher")
    yield Row(AREA, case, "wrong", findings.wrong, "", 0, "lower")
    yield Row(AREA, case, "lost", findings.lost, "", 0, "lower")
    yield Row(AREA, case, "processes ended by themselves", len(findings.ends), "", 0, "lower")
    yield Row(AREA, case, "nodes silent after chaos", len(findings.silences), "", 0, "lower")
    possible = totals[Outcome.RIGHT] + totals[Outcome.NOT_VALID]
    share = totals[Outcome.RIGHT] / possible if possible else 0.0
    yield Row(AREA, case, "results that are valid", 100 * share, "%", 100 * LEAST_VALID, "higher")
    for outcome in (Outcome.BUSY, Outcome.EXPIRED, Outcome.UNAVAILABLE, Outcome.UNKNOWN_MODEL):
        yield Row(
            AREA, case, f"answered {outcome.value.replace('_', ' ')}", totals[outcome], "", None, "lower"
        )
    abandoned = totals[Outcome.LOST] - sum(note.outcome is Outcome.LOST for note in findings.unexplained)
    yield Row(AREA, case, "ended with a driver that was killed", abandoned, "", None, "lower")
    yield Row(AREA, case, "not judged", totals[Outcome.NOT_JUDGED], "", None, "lower")
    yield Row(AREA, case, "actions of chaos", findings.actions, "", None, "higher")
    yield Row(AREA, case, "restarts", findings.restarts, "", None, "higher")
    yield from _growth_rows(findings, case)


def _growth_rows(findings: Findings, case: str) -> Iterator[Row]:
    for growth in growths(findings.samples, lambda each: each.own):
        metric = f"{growth.process}: memory against a minute after its start"
        yield Row(
            AREA, case, metric, growth.percent, "%", LARGEST_GROWTH, "lower", growth.first, baseline_unit="MB"
        )
    for growth in growths(findings.samples, lambda each: each.shared):
        metric = f"{growth.process}: shared memory against a minute after its start"
        yield Row(AREA, case, metric, growth.last, "MB", None, "lower", growth.first, baseline_unit="MB")
    for growth in growths(findings.samples, lambda each: each.threads):
        metric = f"{growth.process}: threads against a minute after its start"
        yield Row(AREA, case, metric, growth.last, "", None, "lower", growth.first)
    for growth in growths(findings.samples, lambda each: each.files):
        metric = f"{growth.process}: file descriptors against a minute after its start"
        yield Row(AREA, case, metric, growth.last, "", None, "lower", growth.first)
