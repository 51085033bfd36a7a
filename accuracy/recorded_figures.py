"""Recorded figures of a quick run, with which a test compares new figures.

Only figures with a limit are recorded; the others may depend on a single scene.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from measured_figures.row import Row

PATH = Path(__file__).with_name("recorded_figures.json")

PERCENT_MARGIN = 3.0
"""How much worse a percentage may become, in percentage points: one of few scenes may change."""

RELATIVE_MARGIN = 0.1
"""How much worse any other figure may become, relative to the recorded one."""

SHARE_OF_REACH = 0.05
"""The same relative to its limit, if that is more: processors add floats in different orders."""

Record = dict[str, dict[str, float]]


def read_record() -> Record:
    """The recorded figures, by area and by "case, metric"."""
    found: Record = json.loads(PATH.read_text())
    return found


def write_record(rows: Iterable[Row]) -> None:
    """Record the figures, replacing those of the same areas."""
    record = read_record() if PATH.exists() else {}
    rows = list(rows)
    record |= {row.area: {} for row in rows}
    for name, row in _asked(rows).items():
        record[row.area][name] = float(f"{row.value:.4g}")
    PATH.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def regressions(rows: Iterable[Row], record: Mapping[str, float]) -> list[str]:
    """A line for each figure that is missing, new, or worse than recorded by more than the margin."""
    values = _asked(rows)
    found = [f"{name}: not measured any more" for name in record.keys() - values.keys()]
    for name, row in values.items():
        if name not in record:
            found.append(f"{name}: not on record")
        elif (row.value - record[name]) * (1 if row.better == "lower" else -1) > _margin(row, record[name]):
            found.append(f"{name}: {row.value:.4g} {row.unit}, {record[name]:.4g} on record")
    return sorted(found)


def _margin(row: Row, recorded: float) -> float:
    """How much worse a figure may be than the recorded one."""
    assert row.reach is not None
    if row.unit == "%":
        return PERCENT_MARGIN
    return max(RELATIVE_MARGIN * abs(recorded), SHARE_OF_REACH * abs(row.reach))


def _asked(rows: Iterable[Row]) -> dict[str, Row]:
    return {f"{row.case}, {row.metric}": row for row in rows if row.reach is not None}
