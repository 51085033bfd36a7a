"""The report of a run: a table of the figures, and plots of every world."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from drive.film import Film
from drive.scenario import Outcome, Scenario
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
    """Draw the true positions, and yaw and time to contact, true and measured."""
    figure, (plan, yaw, contact) = plt.subplots(1, 3, figsize=(13, 4))
    for outcome in outcomes:
        truths, measured = outcome.record.truths, outcome.record.measured
        times = [truth.time for truth in truths]
        plan.plot([truth.x for truth in truths], [truth.y for truth in truths], linewidth=1)
        for axis, quantity, true in (
            (yaw, "yaw", [truth.yaw for truth in truths]),
            (contact, "time to contact", [truth.time_to_contact for truth in truths]),
        ):
            (curve,) = axis.plot(times, true, linewidth=1)
            found = measured.get(quantity, [])
            axis.errorbar(
                [each.time for each in found],
                [each.value for each in found],
                [each.sigma for each in found],
                fmt=".",
                markersize=2,
                linewidth=0.3,
                color=curve.get_color(),
            )
    plan.set(xlabel="x, m", ylabel="y, m", title="true position, from the start")
    plan.set_aspect("equal", "datalim")
    yaw.set(xlabel="time, s", ylabel="rad", title="yaw: true (line), measured (points)")
    contact.set(xlabel="time, s", ylabel="s", ylim=(0, 20), title="time to contact: true, measured")
    for axis in (plan, yaw, contact):
        axis.grid(alpha=0.3)
    return _png(figure)


def _film(name: str, films: Mapping[str, Film]) -> str:
    """Return the film of the first world as an element; empty without one."""
    url = films[name].url() if name in films else ""
    return f'<p><img alt="{html.escape(name)}: film" src="{url}"></p>' if url else ""


def _png(figure: Figure) -> str:
    """Return a figure as base64, and free it."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100, bbox_inches="tight")
    plt.close(figure)
    return base64.b64encode(data.getvalue()).decode()
