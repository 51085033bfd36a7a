"""The report of a run: a table of the figures, and plots of every world."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drive.film import Film
from drive.scenario import Outcome, Scenario
from drive.truth import LONGEST_CONTACT, Record, Truth, whole_in_image
from measured_figures.row import Row

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Simulated robot</title>
<style>body {{ font: 16px sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }}
td, th {{ padding: 0.2em 0.8em; text-align: left }}
.missed {{ color: #b00 }} img {{ max-width: 100% }}</style>
</head><body><h1>Simulated robot</h1>
<table><tr><th>case</th><th>figure</th><th>value</th><th>to reach</th><th></th></tr>{rows}</table>
{plots}</body></html>
"""


_COLUMNS = 3
"""Number of columns in which plots of truth and measurement are arranged."""


@dataclass(frozen=True)
class Panel:
    """A plot of the true and the measured values of a quantity over time."""

    quantity: str
    """A key of Record.measured."""
    unit: str
    true: Callable[[Truth], float] | None = None
    """Gives the truth at any time; None: the truth is known only for each result."""
    range: tuple[float, float] | None = None
    """Range of the vertical axis; None: the range of the data."""
    always: bool = False
    """Whether the plot is drawn even if nothing was measured."""


_PANELS = (
    Panel("yaw", "rad", lambda truth: truth.yaw, always=True),
    Panel("time to contact", "s", lambda truth: truth.time_to_contact, (0.0, LONGEST_CONTACT), always=True),
    Panel("flow x", "px"),
    Panel("flow y", "px"),
    Panel("spot x", "px", lambda truth: whole_in_image(truth.spot)[0]),
    Panel("spot y", "px", lambda truth: whole_in_image(truth.spot)[1]),
    Panel("pattern x", "px", lambda truth: whole_in_image(truth.pattern)[0]),
    Panel("pattern y", "px", lambda truth: whole_in_image(truth.pattern)[1]),
)


def write_report(
    path: Path,
    rows: Sequence[Row],
    outcomes: Mapping[str, Sequence[Outcome]],
    scenarios: Mapping[str, type[Scenario]],
    films: Mapping[str, Film],
) -> None:
    """Write the page; outcomes, scenarios and films by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = "".join(map(_row, rows))
    plots = "".join(
        f"<h2>{html.escape(name)}</h2><p>{html.escape(scenarios[name].__doc__ or '')}</p>"
        f'<img alt="{html.escape(name)}" src="data:image/png;base64,{_plot(scenarios[name], found)}">'
        f'<img alt="{html.escape(name)}: truth" src="data:image/png;base64,{_truth(found)}">'
        f"{_film(name, films)}"
        for name, found in outcomes.items()
    )
    path.write_text(_PAGE.format(rows=table, plots=plots))


def _row(row: Row) -> str:
    limit = "at most" if row.better == "lower" else "at least"
    reach = "" if row.reach is None else f"{limit} {row.reach:.4g} {row.unit}"
    verdict = "" if row.reach is None else "reached" if row.reached else "missed"
    style = "" if row.reached else ' class="missed"'
    cells = (row.case, row.metric, f"{row.value:.3g} {row.unit}", reach, verdict)
    return f"<tr{style}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _plot(scenario: type[Scenario], outcomes: Sequence[Outcome]) -> str:
    """Draw each quantity over time, a line a world; the picture as base64."""
    height = 1.7 * len(scenario.quantities)
    figure, axes = plt.subplots(len(scenario.quantities), 1, sharex=True, figsize=(9, height), squeeze=False)
    for number, (axis, quantity) in enumerate(zip(axes[:, 0], scenario.quantities, strict=True), 1):
        for outcome in outcomes:
            axis.plot(
                [sample[0] for sample in outcome.trace],
                [sample[number] for sample in outcome.trace],
                linewidth=1,
                label=f"seed {outcome.seed}",
            )
        axis.set_ylabel(quantity)
        axis.grid(alpha=0.3)
    axes[-1, 0].set_xlabel("time, s")
    return _png(figure)


def _truth(outcomes: Sequence[Outcome]) -> str:
    """Draw the robot's true positions, and the nodes' results with the true values; return it as base64."""
    shown = panels(outcomes)
    rows = -(-(1 + len(shown)) // _COLUMNS)
    figure, axes = plt.subplots(rows, _COLUMNS, figsize=(13, 4 * rows), squeeze=False, layout="constrained")
    plan, *others = axes.ravel()
    for outcome in outcomes:
        truths = outcome.record.truths
        plan.plot([truth.x for truth in truths], [truth.y for truth in truths], linewidth=1)
        for axis, panel in zip(others, shown, strict=False):
            _compare(axis, panel, outcome.record)
    plan.set(xlabel="x, m", ylabel="y, m", title="true position, from the start")
    plan.set_aspect("equal", "datalim")
    plan.grid(alpha=0.3)
    for axis, panel in zip(others, shown, strict=False):
        title = f"{panel.quantity}: true (line), measured (points)"
        axis.set(xlabel="time, s", ylabel=panel.unit, title=title)
        if panel.range:
            axis.set_ylim(panel.range)
        axis.grid(alpha=0.3)
    for axis in others[len(shown) :]:
        axis.set_axis_off()
    return _png(figure)


def _compare(axis: Axes, panel: Panel, record: Record) -> None:
    """Draw the truth of one quantity in one world, and the measured values with their sigmas."""
    found = sorted(record.measured.get(panel.quantity, []), key=lambda each: each.time)
    if panel.true is None:
        line = [(each.time, each.true) for each in found]
    else:
        line = [(truth.time, panel.true(truth)) for truth in record.truths]
    (curve,) = axis.plot([time for time, _ in line], [true for _, true in line], linewidth=1)
    shown = [each for each in found if math.isfinite(each.value) and math.isfinite(each.sigma)]
    axis.errorbar(
        [each.time for each in shown],
        [each.value for each in shown],
        [each.sigma for each in shown],
        fmt=".",
        markersize=2,
        linewidth=0.3,
        color=curve.get_color(),
    )


def panels(outcomes: Sequence[Outcome]) -> list[Panel]:
    """Return the plots of truth and measurement: those that are always drawn, and those with values."""
    measured = {name for outcome in outcomes for name, found in outcome.record.measured.items() if found}
    return [panel for panel in _PANELS if panel.always or panel.quantity in measured]


def _film(name: str, films: Mapping[str, Film]) -> str:
    """Return the film of the first world as an HTML element; an empty string without a film."""
    url = films[name].url() if name in films else ""
    return f'<p><img alt="{html.escape(name)}: film" src="{url}"></p>' if url else ""


def _png(figure: Figure) -> str:
    """Return a figure as the base64 of a PNG, and close it."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100, bbox_inches="tight")
    plt.close(figure)
    return base64.b64encode(data.getvalue()).decode()
