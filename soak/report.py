"""The report of a run: figures, and plots of results, restarts, memory, threads and files over time."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import jinja2
import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from demo.report.plots import STYLE
from measured_figures.row import Row
from soak.outcome_journal import Outcome
from soak.process_samples import Sample
from soak.run_evaluation import Findings

TEMPLATES = Path(__file__).parent / "templates"
_WIDTH = 10.0
_Draw = Callable[[Axes, Findings], None]
_COUNTED = (
    (Outcome.WRONG, "#b3261e"),
    (Outcome.UNAVAILABLE, "#d08700"),
    (Outcome.UNKNOWN_MODEL, "#8d6e63"),
    (Outcome.BUSY, "#6b4fa0"),
    (Outcome.EXPIRED, "#6e6e73"),
    (Outcome.LOST, "#000000"),
)


def write_report(path: Path, findings: Findings, rows: Sequence[Row], title: str) -> None:
    """Write the report."""
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.get_template("report.html.j2").render(
        title=title,
        findings=findings,
        rows=rows,
        wrong=_lines(findings),
        plots=[(heading, _svg(draw, findings, height)) for heading, draw, height in _PLOTS],
    )
    path.write_text(page)


def _lines(findings: Findings) -> list[str]:
    """All unexpected events, one line each."""
    begin = findings.time.begin
    wrong = [note for note in findings.notes if note.outcome is Outcome.WRONG]
    return [
        *(f"{note.end - begin:.1f} s: {note.detail}" for note in wrong),
        *(
            f"{note.begin - begin:.1f} s: {note.outcome.value}, {note.detail}"
            for note in findings.unexplained
        ),
        *(f"{end.time - begin:.1f} s: {end.process} ended, {end.last_line}" for end in findings.ends),
        *(f"silent: {each}" for each in findings.silences),
        *(f"without a right result: {each}" for each in findings.unproven),
    ]


def _svg(draw: _Draw, findings: Findings, height: float) -> str:
    with rc_context({**STYLE, "svg.hashsalt": "soak"}):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        panel = figure.subplots()
        draw(panel, findings)
        panel.set_xlabel("minutes")
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _by_second(findings: Findings, outcomes: Iterable[Outcome]) -> tuple[list[float], list[int]]:
    chosen = tuple(outcomes)
    counts: Counter[int] = Counter()
    for each in findings.counted:
        if each.outcome in chosen:
            counts[int(each.end - findings.time.begin)] += each.count
    seconds = range(int(findings.time.seconds) + 1)
    return [second / 60 for second in seconds], [counts[second] for second in seconds]


def _checked(panel: Axes, findings: Findings) -> None:
    panel.plot(*_by_second(findings, [Outcome.RIGHT]), color="#1c7c3c", label="right")
    panel.plot(*_by_second(findings, [Outcome.NOT_VALID]), color="#d08700", label="nothing measured")
    panel.set_ylim(0, None)
    panel.legend(loc="lower right")


def _others(panel: Axes, findings: Findings) -> None:
    for outcome, color in _COUNTED:
        minutes, counts = _by_second(findings, [outcome])
        panel.plot(minutes, np.cumsum(counts), color=color, label=outcome.value.replace("_", " "))
    panel.set_title("cumulative")
    panel.legend(loc="upper left", ncols=3)


def _ends(panel: Axes, findings: Findings) -> None:
    begin = findings.time.begin
    for label, color, times in (
        ("process ended", "#b3261e", [end.time for end in findings.ends]),
        ("request lost", "#000000", [note.begin for note in findings.unexplained]),
    ):
        minutes = [(time - begin) / 60 for time in sorted(times)]
        panel.step(
            [0.0, *minutes, findings.time.seconds / 60],
            [0, *range(1, len(minutes) + 1), len(minutes)],
            where="post",
            color=color,
            label=label,
        )
    panel.set_ylim(0, None)
    panel.legend(loc="upper left")


def _curves(value: Callable[[Sample], float], panel: Axes, findings: Findings) -> None:
    """Draw a curve for each process, interrupted where the process was restarted."""
    lives: dict[str, dict[int, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for each in findings.samples:
        lives[each.process][each.pid].append(each)
    colors = colormaps["tab20"]
    for number, (process, by_pid) in enumerate(lives.items()):
        for life, samples in enumerate(by_pid.values()):
            minutes = [(each.time - findings.time.begin) / 60 for each in samples]
            label = process if not life else None
            panel.plot(minutes, [value(each) for each in samples], color=colors(number % 20), label=label)
    panel.set_ylim(0, None)
    panel.legend(loc="lower right", ncols=4)


_PLOTS: tuple[tuple[str, _Draw, float], ...] = (
    ("Results checked, by second", _checked, 2.4),
    ("Other outcomes of requests and results, by second", _others, 2.4),
    ("Processes ended by themselves, and lost requests", _ends, 1.6),
    ("Memory of the process alone, MB", partial(_curves, lambda each: each.own), 4.0),
    ("Share of the middleware's shared memory, MB", partial(_curves, lambda each: each.shared), 3.0),
    ("Memory (PSS), MB", partial(_curves, lambda each: each.pss), 4.0),
    ("Threads", partial(_curves, lambda each: each.threads), 3.0),
    ("Open file descriptors", partial(_curves, lambda each: each.files), 3.0),
)
"""Headings, each with the function that draws its plot and the plot's height, inches."""
