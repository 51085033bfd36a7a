"""The places most similar to an embedding: coarse cosines in eight bits, exact ones on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.matrix.products import RealProduct
from edgetpu_driver.matrix.scaling import ALWAYS
from edgetpu_matrix.place_recognition.place_database import PlaceDatabase

HEADROOM = ALWAYS
"""Of the matrix, see `matrix.scaling`: a query that is like a row has an output far above the RMS of all."""


@dataclass(frozen=True)
class Place:
    """A place that was found."""

    label: str
    score: float
    """Cosine of the angle between its embedding and the one asked for, -1..1, in float32 arithmetic."""


class PlaceSearch:
    """Searches a database whose unit vectors are the rows of a matrix that somebody else multiplies by.

    Whenever `is_current` is false that matrix is to become what `rows` gives.
    """

    def __init__(self, database: PlaceDatabase) -> None:
        self.database = database
        self._version = -1
        self._rows = database.rows
        self._errors: NDArray[np.float64] | None = None

    @property
    def is_current(self) -> bool:
        """Whether the database is what it was when `rows` was called."""
        return self._version == self.database.version

    def rows(self) -> tuple[NDArray[np.float32], set[int] | None]:
        """Give the matrix, [entries, dimension], and the rows that have changed since; None: all."""
        changed = self.database.changed_since(self._version) if self._version >= 0 else None
        self._version, self._rows = self.database.version, self.database.rows.copy()
        self.forget_rounding()
        return self._rows, changed

    def forget_rounding(self) -> None:
        """Say that the rows may have been rounded in another way than before."""
        self._errors = None

    def find(
        self, query: NDArray[np.float32], product: RealProduct, effective: NDArray[np.float64], count: int
    ) -> tuple[Place, ...]:
        """The `count` places most similar to a unit vector, best first, as an exact search finds them.

        product: of the matrix and the query. effective: the matrix as rounded. Of several embeddings of
        one place the best counts; of equal places the older.
        """
        if self._errors is None:
            self._errors = np.linalg.norm(effective - self._rows, axis=1)
        return _rank(self.database, query, product.outputs, bounds(query, product, self._errors), count)


def bounds(
    query: NDArray[np.float32], product: RealProduct, row_errors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How far each coarse cosine may be off, [rows], whatever the query.

    product: of the rows in force and `query`, a unit vector. row_errors: length of what rounding took from
    each row. Weights and input enter by the Cauchy-Schwarz inequality.
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
    """Score every row exactly that could be among the best by its coarse cosine, right within its bound."""
    if not len(database) or count < 1:
        return ()
    lower, upper = cosines - bounds, cosines + bounds
    # The best `count` places have at least this score; rows that cannot reach it are none of them.
    surest: dict[str, float] = {}
    for row in np.argsort(-lower, kind="stable"):
        surest.setdefault(database.label(row), float(lower[row]))
        if len(surest) == count:
            break
    threshold = min(surest.values()) if len(surest) == count else -np.inf
    rows = np.flatnonzero(upper >= threshold)
    scores = database.rows[rows] @ query
    best: dict[str, Place] = {}
    for place in sorted(range(len(rows)), key=lambda at: (-scores[at], database.age(int(rows[at])))):
        label = database.label(int(rows[place]))
        if label not in best:
            best[label] = Place(label, float(np.clip(scores[place], -1.0, 1.0)))
        if len(best) == count:
            break
    return tuple(best.values())
