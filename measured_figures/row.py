"""One measured figure, and a list of them on the terminal and in a file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Row:
    """A figure with what it is to reach."""

    area: str
    """What is measured: an algorithm ("flow", "spot", ..) or a part of the driver ("formats", "link", ..)."""
    case: str
    """The protocol, in a few words."""
    metric: str
    """What was computed: "rmse", "within 0.25", "time", ..."""
    value: float
    unit: str
    reach: float | None
    """What the figure is to be; None where it is shown for information."""
    better: Literal["lower", "higher"]
    baseline: float | None = None
    """The best known library on the same task, or a plain method in the same run."""
    bound: float | None = None
    """The same method in float64, unquantised."""

    @property
    def reached(self) -> bool:
        """Whether the figure is as good as it is to be; true where nothing is asked."""
        if self.reach is None:
            return True
        return self.value <= self.reach if self.better == "lower" else self.value >= self.reach


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a JSON list of objects; `bound` only where there is one, null for figures that are not finite."""
    path.parent.mkdir(parents=True, exist_ok=True)
    objects = [
        {key: _finite(value) for key, value in asdict(row).items() if key != "bound" or value is not None}
        for row in rows
    ]
    path.write_text(json.dumps(objects, indent=1, allow_nan=False) + "\n")


def _finite(value: object) -> object:
    """JSON knows no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def line(row: Row) -> str:
    """The figure on one line."""
    reach = "" if row.reach is None else f"{'<=' if row.better == 'lower' else '>='} {row.reach:g}"
    verdict = "" if row.reach is None else "reached" if row.reached else "MISSED"
    baseline = "" if row.baseline is None else f"baseline {row.baseline:.4g}"
    case = f"{row.case}, {row.metric}"
    return (
        f"{row.area:<13}{case:<54}{row.value:>10.4g} {row.unit:<6}{reach:<10}{verdict:<9}{baseline}".rstrip()
    )
