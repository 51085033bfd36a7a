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

from drive.scenario import Outcome, Scenario
from measured_figures.row import Row

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Simulated robot</title>
<style>body {{ font: 16px sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }}
td, th {{ padding: 0.2em 0.8em; text-align: left }}
.missed {{ color: #b00 }} img {{ max-width: 100% }}</style>
</head><body><h1>Simulated robot</h1>
<table><tr><th>case</th><th>figure</th><th>value</th><th>to reach</th></tr>{rows}</table>
{plots}</body></html>
"""


def write_report(
    path: Path,
    rows: Sequence[Row],
    outcomes: Mapping[str, Sequence[Outcome]],
    scenarios: Mapping[str, type[Scenario]],
) -> None:
    """Write the page; outcomes and scenarios by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = "".join(map(_row, rows))
    plots = "".join(
        f"<h2>{html.escape(name)}</h2><p>{html.escape(scenarios[name].__doc__ or '')}</p>"
        f'<img alt="{html.escape(name)}" src="data:image/png;base64,{_plot(scenarios[name], found)}">'
        for name, found in outcomes.items()
    )
    path.write_text(_PAGE.format(rows=table, plots=plots))


def _row(row: Row) -> str:
    reach = "" if row.reach is None else f"{row.reach:g} {row.unit}"
    style = "" if row.reached else ' class="missed"'
    cells = (row.case, row.metric, f"{row.value:.3g} {row.unit}", reach)
    return f"<tr{style}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _plot(scenario: type[Scenario], outcomes: Sequence[Outcome]) -> str:
    """Draw each quantity over time, a line a world; the picture as base64."""
    figure, axes = plt.subplots(len(scenario.quantities), 1, sharex=True, figsize=(9, 5), squeeze=False)
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
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100, bbox_inches="tight")
    plt.close(figure)
    return base64.b64encode(data.getvalue()).decode()
