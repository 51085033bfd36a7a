"""The true values that the perception nodes should measure, where they are known."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.bag.image_bag import Quaternion
from demo.errors import BagError

# File in the bag's directory: {node: {"stamp_ns": [...], field: [...], ...}}. Fields, which include "valid",
# are null where there is nothing to measure or nothing is known.
TRUTH_FILE = "truth.json"

Row = Mapping[str, object]
"""One result: "stamp_ns", "valid" and the values of the node."""


@dataclass(frozen=True)
class Deviation:
    """Errors of the measured values of a field, in the field's unit."""

    field: str
    rmse: float
    worst: float
    count: int
    """Number of results with both a value and a truth."""


@dataclass(frozen=True)
class Judgement:
    """Number of results that agree with the truth."""

    right: int
    compared: int


class Truth:
    """The true values of one node's fields, by stamp."""

    def __init__(self, columns: Mapping[str, Sequence[float | bool | None]]) -> None:
        """Take columns of equal length; one of them is stamp_ns."""
        self.stamps_ns = [int(stamp or 0) for stamp in columns["stamp_ns"]]
        self.fields = tuple(field for field in columns if field != "stamp_ns")
        rows = ({field: columns[field][i] for field in self.fields} for i in range(len(self.stamps_ns)))
        self._rows = dict(zip(self.stamps_ns, rows, strict=True))

    def at(self, stamp_ns: int, field: str) -> float | bool | None:
        """Return the true value at a stamp; None where there is nothing to measure or nothing is known."""
        return self._rows.get(stamp_ns, {}).get(field)

    def deviation(self, rows: Sequence[Row], field: str) -> Deviation | None:
        """Compare a field of the results with the truth; None if no result has both a value and a truth."""
        differences = []
        for row in rows:
            measured, true = row.get(field), self.at(_stamp(row), field)
            if isinstance(measured, float) and true is not None and math.isfinite(measured):
                differences.append(measured - float(true))
        if not differences:
            return None
        rmse = math.sqrt(math.fsum(d * d for d in differences) / len(differences))
        return Deviation(field, rmse, max(abs(d) for d in differences), len(differences))

    def judge(self, rows: Sequence[Row], tolerances: Mapping[str, float]) -> Judgement:
        """Count the results that can be compared, and the right ones: valid as they should be, and accurate.

        If it is not known whether a result should be valid, it is compared only if it is valid.
        """
        outcomes = [outcome for row in rows if (outcome := self._is_right(row, tolerances)) is not None]
        return Judgement(sum(outcomes), len(outcomes))

    def _is_right(self, row: Row, tolerances: Mapping[str, float]) -> bool | None:
        stamp = _stamp(row)
        expected = self.at(stamp, "valid")
        if expected is not None and row.get("valid") != expected:
            return False
        known = [(field, true) for field in tolerances if (true := self.at(stamp, field)) is not None]
        if expected is None and (not known or not row.get("valid")):
            return None
        return all(_within(row.get(field), float(true), tolerances[field]) for field, true in known)


def load_truth(bag: Path) -> dict[str, Truth]:
    """Read the truth in a bag's directory, by node; empty if there is none."""
    path = bag / TRUTH_FILE
    if not path.is_file():
        return {}
    try:
        return {node: Truth(columns) for node, columns in json.loads(path.read_text()).items()}
    except (ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise BagError(f"{path} is malformed: {error}") from error


def heading_truth(orientations: Iterable[tuple[int, Quaternion]]) -> dict[str, Truth]:
    """Compute the true heading from a camera's recorded orientations; empty without any.

    Yaw is the rotation about the vertical axis of the image (y, down) since the first image.
    """
    stamps, yaw = [], []
    for stamp_ns, (_, y, _, w) in orientations:
        stamps.append(stamp_ns)
        yaw.append(2 * math.atan2(y, w))
    if not stamps:
        return {}
    return {"visual_compass": Truth({"stamp_ns": stamps, "yaw": [value - yaw[0] for value in yaw]})}


def _within(measured: object, true: float, tolerance: float) -> bool:
    return isinstance(measured, float) and abs(measured - true) <= tolerance


def _stamp(row: Row) -> int:
    stamp = row["stamp_ns"]
    assert isinstance(stamp, int)
    return stamp
