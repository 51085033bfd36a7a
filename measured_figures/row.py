"""One measured figure, and how figures are written to the terminal and to a JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Row:
    """A figure with its limit."""

    area: str
    """What is measured: an algorithm ("flow", "spot", ..) or a part of the driver ("formats", "link", ..)."""
    case: str
    """The protocol of the measurement, in a few words."""
    metric: str
    """What was computed from the results: "rmse", "within 0.25", "time / cv2.moments", ..."""
    value: float
    unit: str
    """Unit of the value: "px", "%", ..., "x" for a ratio to the baseline, empty for a count."""
    reach: float | None
    """Limit of the value, the least or the most that it should be; None: the row is for information."""
    better: Literal["lower", "higher"]
    baseline: float | None = None
    """Figure of the best known library on the same task, or of a plain method measured in the same run."""
    bound: float | None = None
    """Figure of the same method in float64, unquantised."""
    baseline_unit: str | None = None
    """Unit of the baseline if the value is a ratio to it; None: the unit of the value."""
    instructions: float | None = None
    """Millions of instructions of the work, where the processor counts them."""
    full_size_baseline: float | None = None
    """Figure of the plain method on images of the camera's size, where `baseline` is at the model's size."""

    @property
    def reached(self) -> bool:
        """Whether the value is as good as it should be; true where `reach` is None."""
        if self.reach is None:
            return True
        return self.value <= self.reach if self.better == "lower" else self.value >= self.reach


_OPTIONAL = ("bound", "baseline_unit", "instructions", "full_size_baseline")
"""Fields that the file omits if they are None."""


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a JSON list of objects with the fields of `Row`; null for figures that are not finite."""
    path.parent.mkdir(parents=True, exist_ok=True)
    objects = [
        {
            key: _finite(value)
            for key, value in asdict(row).items()
            if key not in _OPTIONAL or value is not None
        }
        for row in rows
    ]
    path.write_text(json.dumps(objects, indent=1, allow_nan=False) + "\n")


def _finite(value: object) -> object:
    """The value, or None for infinity and NaN, which JSON cannot represent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def line(row: Row) -> str:
    """The row as a line of the table on the terminal."""
    reach = "" if row.reach is None else f"{'<=' if row.better == 'lower' else '>='} {row.reach:.4g}"
    verdict = "" if row.reach is None else "reached" if row.reached else "MISSED"
    baseline = ""
    if row.baseline is not None:
        baseline = f"baseline {row.baseline:.4g} {row.baseline_unit or ''}".rstrip()
    if row.full_size_baseline is not None:
        baseline += f", full size {row.full_size_baseline:.4g}"
    instructions = "" if row.instructions is None else f"{row.instructions:.3g} M instructions"
    case = f"{row.case}, {row.metric}"
    return (
        f"{row.area:<12} {case:<70} {row.value:>9.4g} {row.unit:<6}{reach:<11}{verdict:<9}{baseline:<21} "
        f"{instructions}"
    ).rstrip()
