"""The plots of the report: the values of a node over time, as one SVG."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from demo.bag.recorded_truth import Truth
from demo.nodes import DemoNode, Value
from demo.report.results import NodeResults, Row

Array = npt.NDArray[np.float64]

MEASURED, TRUE, INVALID, LATENCY = "#0b6bb5", "#8fdca8", "#f6d5d0", "#6b4fa0"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # in the font of the page
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6ea",
    "axes.titlelocation": "left",
    "axes.titlesize": 8.0,
    "axes.titlecolor": "#6e6e73",
    "axes.titlepad": 3.0,
    "lines.linewidth": 0.9,
    "lines.markersize": 3.5,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
}


WIDE, NARROW = 9.5, 4.2
"""Widths of a plot for a desktop and for a phone, inches."""
PANEL_HEIGHT = 1.35
"""Height of a panel with its title, inches."""
LEFT, RIGHT, TOP, BOTTOM, BETWEEN = 0.75, 0.1, 0.25, 0.5, 0.33
"""Margins of a figure and the space between its panels, inches: two lines of label, a title, a scale.

They are fixed, since matplotlib's layouts draw everything twice to compute them.
"""


def plot(node: DemoNode, results: NodeResults, truth: Truth | None, width: float = WIDE) -> str:
    """Draw the values with their sigmas, the truth where known, confidence and latency; return the SVG."""
    stamps = column(results.rows, "stamp_ns")
    start = stamps[0]
    times = (stamps - start) * 1e-9
    shown = [value for value in node.values if np.isfinite(column(results.rows, value.field)).any()]
    count = len(shown) + 2
    with rc_context({**STYLE, "svg.hashsalt": f"{node.name} {width}"}):
        figure = Figure(figsize=(width, PANEL_HEIGHT * count))
        panels = figure.subplots(count, 1, sharex=True, gridspec_kw=_margins(width, count))
        for panel, value in zip(panels, shown, strict=False):
            _value(panel, value, times, results.rows)
            if truth and value.field in truth.fields:
                _truth(panel, value, truth, start)
            if width == WIDE:
                _legend(panel)
        _confidence(panels[-2], times, results.rows)
        _latency(panels[-1], times, results)
        for panel in panels:
            _shade_invalid(panel, times, results.rows)
        panels[-1].set_xlabel("s since the first result's image")
        for panel in panels:
            panel.yaxis.set_label_coords(-(LEFT - 0.35) / (width - LEFT - RIGHT), 0.5)
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None}, transparent=True)
    text = svg.getvalue()
    return text[text.index("<svg") :]


def _margins(width: float, count: int) -> dict[str, float]:
    """The margins as shares of the figure's size, and the space between panels as a share of a panel."""
    height = PANEL_HEIGHT * count
    panel = (height - TOP - BOTTOM - (count - 1) * BETWEEN) / count
    return {
        "left": LEFT / width,
        "right": 1 - RIGHT / width,
        "top": 1 - TOP / height,
        "bottom": BOTTOM / height,
        "hspace": BETWEEN / panel,
    }


def column(rows: Sequence[Row], field: str) -> Array:
    """Return one field of all rows as float64, NaN where it is not a finite number."""
    values = (row.get(field) for row in rows)
    finite = [v if isinstance(v, int | float) and math.isfinite(v) else math.nan for v in values]
    return np.array(finite, np.float64)


def _value(panel: Axes, value: Value, times: Array, rows: Sequence[Row]) -> None:
    measured = column(rows, value.field)
    if value.sigma:
        sigma = column(rows, value.sigma)
        low, high = measured - sigma, measured + sigma
        panel.fill_between(times, low, high, color=MEASURED, alpha=0.2, linewidth=0, label="one sigma")
    panel.plot(times, measured, color=MEASURED, marker=".", label="measured")
    panel.set_ylabel(f"{value.field}\n{value.unit}")
    panel.set_title(value.meaning)


def _truth(panel: Axes, value: Value, truth: Truth, start: float) -> None:
    true = [truth.at(stamp, value.field) for stamp in truth.stamps_ns]
    numbers = np.array([math.nan if number is None else number for number in true], np.float64)
    times = (np.array(truth.stamps_ns, np.float64) - start) * 1e-9
    panel.plot(times, numbers, color=TRUE, linewidth=4.0, zorder=1.5, label="truth")


def _confidence(panel: Axes, times: Array, rows: Sequence[Row]) -> None:
    panel.plot(times, column(rows, "confidence"), color=MEASURED, marker=".")
    panel.set_ylim(-0.05, 1.05)
    panel.set_ylabel("confidence\n0..1")
    panel.set_title("red: results that are not valid")


def _latency(panel: Axes, times: Array, results: NodeResults) -> None:
    milliseconds = np.array(results.latencies) * 1e3
    panel.plot(times, milliseconds, color=LATENCY, linewidth=0, marker=".")
    for percentile, style in ((50, "-"), (99, ":")):
        level = results.latency_ms(percentile)
        panel.axhline(level, color=LATENCY, linestyle=style, label=f"p{percentile} {level:.1f} ms")
    panel.set_ylim(0, None)
    panel.set_ylabel("latency\nms")
    panel.set_title("from the image to its result")
    _legend(panel)


def _legend(panel: Axes) -> None:
    """Draw the legend above the panel, where it covers nothing."""
    panel.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=3, borderaxespad=0.0, borderpad=0.1)


def _shade_invalid(panel: Axes, times: Array, rows: Sequence[Row]) -> None:
    """Shade the times of results that are not valid, up to half-way to the valid neighbours."""
    edges = np.concatenate([times[:1], (times[:-1] + times[1:]) / 2, times[-1:]])
    invalid = np.array([0, *(row["valid"] is False for row in rows), 0])
    changes = np.diff(invalid)
    for first, end in zip(np.flatnonzero(changes == 1), np.flatnonzero(changes == -1), strict=True):
        panel.axvspan(edges[first], edges[end], color=INVALID, linewidth=0, zorder=0)
