"""What the perception nodes should have measured, where somebody knows it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .bag import Quaternion
from .errors import BagError

# In the bag's directory: {node: {"stamp_ns": [...], field: [...], ...}}; null where there is nothing.
TRUTH_FILE = "truth.json"

Row = Mapping[str, object]  # one result: "stamp_ns", "valid" and the values of the node


@dataclass(frozen=True)
class Deviation:
    """How far the measured values of one field are from the truth, in the unit of the field."""

    field: str
    rmse: float
    worst: float
    count: int  # results that had both a value and a truth


class Truth:
    """The true values of one node's fields, by stamp."""

    def __init__(self, columns: Mapping[str, Sequence[float | bool | None]]) -> None:
        """Take columns of equal length; one of them is stamp_ns."""
        self.stamps_ns = [int(stamp or 0) for stamp in columns["stamp_ns"]]
        self.fields = tuple(field for field in columns if field != "stamp_ns")
        rows = ({field: columns[field][i] for field in self.fields} for i in range(len(self.stamps_ns)))
        self._rows = dict(zip(self.stamps_ns, rows, strict=True))

    def at(self, stamp_ns: int, field: str) -> float | bool | None:
        """The true value at a stamp; None where there is nothing to measure or nothing is known."""
        return self._rows.get(stamp_ns, {}).get(field)

    def deviation(self, rows: Sequence[Row], field: str) -> Deviation | None:
        """Compare a field of the results with the truth; None when no result has both."""
        differences = []
        for row in rows:
            measured, true = row.get(field), self.at(_stamp(row), field)
            if isinstance(measured, float) and true is not None and math.isfinite(measured):
                differences.append(measured - float(true))
        if not differences:
            return None
        rmse = math.sqrt(math.fsum(d * d for d in differences) / len(differences))
        return Deviation(field, rmse, max(abs(d) for d in differences), len(differences))

    def right(self, rows: Sequence[Row], tolerances: Mapping[str, float]) -> int:
        """How many results are valid when they should be, as far as is known, and within the tolerances."""
        return sum(self._is_right(row, tolerances) for row in rows)

    def _is_right(self, row: Row, tolerances: Mapping[str, float]) -> bool:
        stamp = _stamp(row)
        if "valid" in self.fields and row.get("valid") != self.at(stamp, "valid"):
            return False
        for field, tolerance in tolerances.items():
            measured, true = row.get(field), self.at(stamp, field)
            if true is None:
                continue
            if not isinstance(measured, float) or not abs(measured - float(true)) <= tolerance:
                return False
        return True


def load_truth(bag: Path) -> dict[str, Truth]:
    """The truth that lies in a bag's directory, by node; empty when there is none."""
    path = bag / TRUTH_FILE
    if not path.is_file():
        return {}
    try:
        return {node: Truth(columns) for node, columns in json.loads(path.read_text()).items()}
    except (ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise BagError(f"{path} is malformed: {error}") from error


def heading_truth(orientations: Iterable[tuple[int, Quaternion]]) -> dict[str, Truth]:
    """The heading that a camera's recorded orientations tell; empty when there are none.

    Yaw is the turn about the vertical axis of the image (y, down), zero at the first image.
    """
    stamps, yaw = [], []
    for stamp_ns, (_, y, _, w) in orientations:
        stamps.append(stamp_ns)
        yaw.append(2 * math.atan2(y, w))
    if not stamps:
        return {}
    return {"visual_compass": Truth({"stamp_ns": stamps, "yaw": [value - yaw[0] for value in yaw]})}


def _stamp(row: Row) -> int:
    stamp = row["stamp_ns"]
    assert isinstance(stamp, int)
    return stamp
