"""The report: one self-contained HTML page that shows what the perception nodes measured."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from demo.bag.frames import Frame
from demo.bag.recorded_truth import Deviation, Judgement, Truth
from demo.nodes import DemoNode
from demo.report.plots import NARROW, WIDE, plot
from demo.report.results import NodeResults, Row

TEMPLATES = Path(__file__).parent / "templates"


ENOUGH_RIGHT = 0.95
"""Share of the compared results that agree with the truth, for a good verdict."""

ENOUGH_VALID = 0.9
"""Share of results that must be valid for a good verdict if no truth is known."""


@dataclass(frozen=True)
class Picture:
    """A frame with the position that a node measured in it, in px of the frame."""

    frame: Frame
    true: tuple[float, float] | None
    caption: str


@dataclass(frozen=True)
class Section:
    """The section of one node in the report."""

    node: DemoNode
    results: NodeResults
    verdict: str
    """"good", "incomplete" or "bad"."""
    headline: str
    cards: tuple[tuple[str, str], ...]
    """Label and value of each."""
    deviations: tuple[tuple[Deviation, str], ...]
    """Each with its unit."""
    never: tuple[str, ...]
    """Names of the values that were never a number in this run."""
    pictures: tuple[Picture, ...]
    plots: tuple[str, str]
    """SVG for a desktop and for a phone; empty without results."""

    @property
    def frames_json(self) -> str:
        """The pictures as JSON for the script of the page."""
        return json.dumps([{"url": p.frame.url, "true": p.true, "caption": p.caption} for p in self.pictures])


def write_report(
    path: Path,
    nodes: Sequence[DemoNode],
    results: Mapping[str, NodeResults],
    truths: Mapping[str, Truth],
    frames: Mapping[str, Sequence[Frame]],
    settings: Mapping[str, str],
) -> None:
    """Write the page, with the frames of each node; `settings` are shown unchanged."""
    sections = [
        _section(node, results[node.name], truths.get(node.name), frames[node.name]) for node in nodes
    ]
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.get_template("report.html.j2").render(sections=sections, settings=settings)
    path.write_text(page)


def _section(node: DemoNode, results: NodeResults, truth: Truth | None, frames: Sequence[Frame]) -> Section:
    rows = results.rows
    deviations = [
        (deviation, value.unit)
        for value in node.values
        if truth and (deviation := truth.deviation(rows, value.field))
    ]
    tolerances = {value.field: value.tolerance for value in node.values if value.tolerance is not None}
    judgement = truth.judge(rows, tolerances) if truth else None
    return Section(
        node=node,
        results=results,
        verdict=_verdict(results, judgement),
        headline=_headline(results, judgement),
        cards=_cards(results, deviations),
        deviations=tuple(deviations),
        never=tuple(v.field for v in node.values if rows and not any(_finite(row[v.field]) for row in rows)),
        pictures=tuple(_picture(node, frame, frames[0], rows, truth) for frame in frames),
        plots=(plot(node, results, truth, WIDE), plot(node, results, truth, NARROW)) if rows else ("", ""),
    )


def _verdict(results: NodeResults, judgement: Judgement | None) -> str:
    """Summarise in a word how many results are valid and, where the truth is known, right."""
    if not results.valid:
        return "bad"
    share, enough = results.valid / len(results.rows), ENOUGH_VALID
    if judgement and judgement.compared:
        share, enough = judgement.right / judgement.compared, ENOUGH_RIGHT
        if share < 0.5:
            return "bad"
    return "good" if share >= enough and not results.dropped and not results.malformed else "incomplete"


def _headline(results: NodeResults, judgement: Judgement | None) -> str:
    parts = [f"{results.valid} of {len(results.rows)} results valid"]
    if judgement and judgement.compared:
        parts.append(f"{judgement.right} of {judgement.compared} right")
    if results.malformed:
        parts.append(f"{results.malformed} images refused as malformed")
    if results.dropped:
        parts.append(f"{results.dropped} images lost")
    return ", ".join(parts)


def _cards(results: NodeResults, deviations: Sequence[tuple[Deviation, str]]) -> tuple[tuple[str, str], ...]:
    cards = [("images answered", f"{len(results.rows)} of {results.images}")]
    cards += [(f"RMSE of {d.field}", f"{d.rmse:.4f} {unit}") for d, unit in deviations[:2]]
    if results.latencies:
        cards.append(("latency p50 / p99", f"{results.latency_ms(50):.1f} / {results.latency_ms(99):.1f} ms"))
        worst = max(range(len(results.latencies)), key=results.latencies.__getitem__)
        cards.append(("worst latency", f"{results.latencies[worst] * 1e3:.1f} ms, result {worst + 1}"))
    return tuple(cards)


def _picture(node: DemoNode, frame: Frame, first: Frame, rows: Sequence[Row], truth: Truth | None) -> Picture:
    row = next((row for row in rows if row["stamp_ns"] == frame.stamp_ns), None)
    true = None
    if node.marker and truth:
        true = _position(node, frame, [truth.at(frame.stamp_ns, field) for field in node.marker])
    seconds = (frame.stamp_ns - first.stamp_ns) * 1e-9
    return Picture(frame, true, f"{seconds:.2f} s  {_caption(node, row)}")


def _caption(node: DemoNode, row: Row | None) -> str:
    if row is None:
        return "no result"
    if not row["valid"]:
        return "not valid"
    numbers = [(value.field, row[value.field]) for value in node.values[:2]]
    return "  ".join(f"{field} {number:+.3f}" for field, number in numbers if isinstance(number, float))


def _position(node: DemoNode, frame: Frame, values: Sequence[object]) -> tuple[float, float] | None:
    """Convert the fields of a marker to px from the top left corner of the image; None without a position."""
    x, y = values
    if not (_finite(x) and _finite(y)):
        return None
    assert isinstance(x, float)
    assert isinstance(y, float)
    if node.marker_unit == "px":
        return x + 0.5, y + 0.5
    return (x + 1) / 2 * (frame.width - 1) + 0.5, (y + 1) / 2 * (frame.height - 1) + 0.5


def _finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
