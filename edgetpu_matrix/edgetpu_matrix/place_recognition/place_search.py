"""The search for the most similar places: coarse cosines in eight bits, exact cosines on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.matrix.product_passes import RealProduct
from edgetpu_driver.matrix.scaling import ALWAYS
from edgetpu_matrix.place_recognition.place_database import PlaceDatabase

HEADROOM = ALWAYS
"""Headroom, see `matrix.scaling`: a query similar to a row has an output far above the RMS of all."""


@dataclass(frozen=True)
class Place:
    """A known place and its similarity to the query."""

    label: str
    score: float
    """Cosine of the angle between its embedding and the query, -1..1, in float32 arithmetic."""


class PlaceSearch:
    """Searches a database; the caller multiplies its rows by the query.

    While `is_current` is false the caller's matrix must be replaced by what `rows` returns.
    """

    def __init__(self, database: PlaceDatabase) -> None:
        self.database = database
        self._version = -1
        self._rows = database.rows
        self._errors: NDArray[np.float64] | None = None

    @property
    def is_current(self) -> bool:
        """Whether the database has not changed since `rows` was called."""
        return self._version == self.database.version

    def rows(self) -> tuple[NDArray[np.float32], set[int] | None]:
        """The matrix, [entries, dimension], and the rows that have changed since the last call; None: all."""
        changed = self.database.changed_since(self._version) if self._version >= 0 else None
        self._version, self._rows = self.database.version, self.database.rows.copy()
        self.forget_rounding()
        return self._rows, changed

    def forget_rounding(self) -> None:
        """Discard the rounding errors of the rows, which may have changed."""
        self._errors = None

    def find(
        self, query: NDArray[np.float32], product: RealProduct, effective: NDArray[np.float64], count: int
    ) -> tuple[Place, ...]:
        """The `count` places most similar to a unit vector, best first, as an exact search finds them.

        product: of the matrix and the query. effective: the matrix after rounding. A place with several
        embeddings has the score of the best one; of places with equal scores the older one comes first.
        """
        if self._errors is None:
            self._errors = np.linalg.norm(effective - self._rows, axis=1)
        return _rank(self.database, query, product.outputs, bounds(query, product, self._errors), count)


def bounds(
    query: NDArray[np.float32], product: RealProduct, row_errors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Largest error of each coarse cosine, [rows].

    product: of the effective rows and `query`, a unit vector. row_errors: norm of the rounding error of each
    row. The rounding of weights and inputs is bounded by the Cauchy-Schwarz inequality.
    """
    length = float(np.linalg.norm(product.inputs))
    error = float(np.linalg.norm(product.inputs - query))
    return row_errors * length + error + product.errors.bound


def _rank(
    database: PlaceDatabase,
    query: NDArray[np.float32],
    cosines: NDArray[np.float64],
    bounds: NDArray[np.float64],
    count: int,
) -> tuple[Place, ...]:
    """Compute the exact scores of all rows that can be among the best, given the bounds of their cosines."""
    if not len(database) or count < 1:
        return ()
    lower, upper = cosines - bounds, cosines + bounds
    # The best `count` places have at least this score; rows that cannot reach it are not among them.
    surest: dict[str, float] = {}
    for row in np.argsort(-lower, kind="stable"):
        surest.setdefault(database.label(row), float(lower[row]))
        if len(surest) == count:
            break
    threshold = min(surest.values()) if len(surest) == count else -np.inf
    rows = np.flatnonzero(upper >= threshold)
    scores = database.rows[rows] @ query
    best: dict[str, Place] = {}
    for index in sorted(range(len(rows)), key=lambda at: (-scores[at], database.age(int(rows[at])))):
        label = database.label(int(rows[index]))
        if label not in best:
            best[label] = Place(label, float(np.clip(scores[index], -1.0, 1.0)))
        if len(best) == count:
            break
    return tuple(best.values())
