"""The report: one self-contained HTML page that shows whether the perception nodes did their job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from .frames import Frame
from .nodes import PerceptionNode
from .plots import plot
from .results import NodeResults, Row
from .truth import Deviation, Truth

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Picture:
    """A frame with what a node said of it: places in px of the full image, and its values in words."""

    frame: Frame
    seconds: float  # since the first frame shown
    measured: tuple[float, float] | None
    true: tuple[float, float] | None
    caption: str


@dataclass(frozen=True)
class Section:
    """One node in the report."""

    node: PerceptionNode
    results: NodeResults
    verdict: str  # "good", "incomplete" or "bad"
    headline: str
    cards: tuple[tuple[str, str], ...]  # label, value
    deviations: tuple[tuple[Deviation, str], ...]  # with the unit
    never: tuple[str, ...]  # values that were never a number in this run
    pictures: tuple[Picture, ...]
    plot: str  # SVG


def write_report(
    path: Path,
    nodes: Sequence[PerceptionNode],
    results: Mapping[str, NodeResults],
    truths: Mapping[str, Truth],
    frames: Sequence[Frame],
    settings: Mapping[str, str],
) -> None:
    """Write the page; `settings` are shown as they are."""
    sections = [_section(node, results[node.name], truths.get(node.name), frames) for node in nodes]
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.get_template("report.html.j2").render(sections=sections, settings=settings)
    path.write_text(page)


def _section(
    node: PerceptionNode, results: NodeResults, truth: Truth | None, frames: Sequence[Frame]
) -> Section:
    rows = results.rows
    deviations = [
        (deviation, value.unit)
        for value in node.values
        if truth and (deviation := truth.deviation(rows, value.field))
    ]
    tolerances = {value.field: value.tolerance for value in node.values if value.tolerance is not None}
    right = truth.right(rows, tolerances) if truth else None
    return Section(
        node=node,
        results=results,
        verdict=_verdict(results, right),
        headline=_headline(results, right),
        cards=_cards(results, deviations),
        deviations=tuple(deviations),
        never=tuple(v.field for v in node.values if rows and not any(_finite(row[v.field]) for row in rows)),
        pictures=tuple(_picture(node, frame, frames[0], rows, truth) for frame in frames),
        plot=plot(node, results, truth) if rows else "",
    )


def _verdict(results: NodeResults, right: int | None) -> str:
    """In one word; `right` is the number of results that agree with the truth, None where it is not known."""
    count = len(results.rows)
    if not count or (right is not None and right < count / 2):
        return "bad"
    complete = not results.dropped and not results.malformed and results.valid and right in (None, count)
    return "good" if complete else "incomplete"


def _headline(results: NodeResults, right: int | None) -> str:
    answered = f"{len(results.rows)} of {results.images} images answered"
    if right is not None:
        answered += f", {right} right"
    elif not results.valid:
        answered += ", nothing measured in any"
    if results.malformed:
        answered += f", {results.malformed} refused as malformed"
    return answered + (f", {results.dropped} lost" if results.dropped else "")


def _cards(results: NodeResults, deviations: Sequence[tuple[Deviation, str]]) -> tuple[tuple[str, str], ...]:
    cards = [("something measured in", f"{results.valid} of {len(results.rows)} results")]
    cards += [(f"RMSE of {d.field}", f"{d.rmse:.4f} {unit}") for d, unit in deviations[:2]]
    if results.latencies:
        cards.append(("latency p50 / p99", f"{results.latency_ms(50):.1f} / {results.latency_ms(99):.1f} ms"))
        worst = max(range(len(results.latencies)), key=results.latencies.__getitem__)
        cards.append(("worst latency", f"{results.latencies[worst] * 1e3:.1f} ms, result {worst + 1}"))
    return tuple(cards)


def _picture(
    node: PerceptionNode, frame: Frame, first: Frame, rows: Sequence[Row], truth: Truth | None
) -> Picture:
    row = next((row for row in rows if row["stamp_ns"] == frame.stamp_ns), None)
    measured = true = None
    if node.marker and row:
        measured = _place(frame, [row[field] for field in node.marker])
    if node.marker and truth:
        true = _place(frame, [truth.at(frame.stamp_ns, field) for field in node.marker])
    return Picture(frame, (frame.stamp_ns - first.stamp_ns) * 1e-9, measured, true, _caption(node, row))


def _caption(node: PerceptionNode, row: Row | None) -> str:
    if row is None:
        return "no result"
    if not row["valid"]:
        return "nothing measured"
    numbers = [(value.field, row[value.field]) for value in node.values[:2]]
    return "  ".join(f"{field} {number:+.3f}" for field, number in numbers if isinstance(number, float))


def _place(frame: Frame, offset: Sequence[object]) -> tuple[float, float] | None:
    """From -1 (centre of the first pixel) .. 1 (centre of the last) to px from the edge of the image."""
    x, y = offset
    if not (_finite(x) and _finite(y)):
        return None
    assert isinstance(x, float)
    assert isinstance(y, float)
    return (x + 1) / 2 * (frame.width - 1) + 0.5, (y + 1) / 2 * (frame.height - 1) + 0.5


def _finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
