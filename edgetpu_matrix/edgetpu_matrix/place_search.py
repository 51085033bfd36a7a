"""The places most similar to an embedding: coarse cosines in eight bits, exact ones on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_matrix.place_database import PlaceDatabase
from edgetpu_matrix.tiles import RealProduct


@dataclass(frozen=True)
class Place:
    """A place that was found."""

    label: str
    score: float
    """Cosine of the angle between its embedding and the one asked for, -1..1, in float32 arithmetic."""


def bounds(
    query: NDArray[np.float32], product: RealProduct, row_errors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How far each coarse cosine may be off, [rows], whatever the query.

    product: of the rows in force and `query`, a unit vector. row_errors: length of what rounding took from
    each row. Weights and input enter by the Cauchy-Schwarz inequality.
    """
    length = float(np.linalg.norm(product.inputs))
    error = float(np.linalg.norm(product.inputs - query))
    return row_errors * length + error + product.bound


def rank(
    database: PlaceDatabase,
    query: NDArray[np.float32],
    cosines: NDArray[np.float64],
    bounds: NDArray[np.float64],
    count: int,
) -> tuple[Place, ...]:
    """The `count` places most similar to a unit vector, best first, as an exact search finds them.

    cosines: coarse, of all rows of the database, each right within its bound. Every row that could be among
    the best is scored exactly; of several embeddings of one place the best counts, of equal places the older.
    """
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
