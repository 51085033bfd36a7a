"""The database of known places: unit vectors, each labelled with its place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import ArchiveError
from edgetpu_driver.files import npz_archive as archive
from edgetpu_driver.matrix.embedding_checks import check_label, unit_vector
from edgetpu_matrix.errors import DatabaseFullError, UnknownPlaceError

KIND = "edgetpu_matrix places 1"


def signed_root(embedding: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the square roots of values of any shape, each with its sign.

    For non-negative values the cosine of roots is the Hellinger kernel (Arandjelovic and Zisserman, Three
    things everyone should know to improve object retrieval, 2012).
    """
    return np.asarray(np.sign(embedding) * np.sqrt(np.abs(embedding)), np.float64)


class PlaceDatabase:
    """Embeddings, normalised to length 1, each under the label of its place.

    A place may have several embeddings, for example one for each view. All have the dimension of the first
    one, until the last is removed. Rows are contiguous: a removed row is overwritten with the last one, so
    that few rows change.
    """

    def __init__(self, dimension: int = 0, capacity: int = 1 << 20) -> None:
        """dimension: of the embeddings; 0: that of the first. capacity: largest number of embeddings."""
        self.capacity = capacity
        self._given = dimension
        self._rows = np.zeros((0, dimension), np.float32)
        self._labels: list[str] = []
        self._order: list[int] = []
        self._next = 0
        self._touched: dict[int, int] = {}
        self.version = 0
        """Number of changes so far."""

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def dimension(self) -> int:
        """Number of values of an embedding; 0 until it is known."""
        return self._rows.shape[1]

    @property
    def rows(self) -> NDArray[np.float32]:
        """The unit vectors, [entries, dimension]; a view, which later changes modify."""
        return self._rows[: len(self)]

    @property
    def places(self) -> dict[str, int]:
        """The number of embeddings of each place, in the order in which the places were added."""
        return dict(Counter(self._labels[row] for row in np.argsort(self._order, kind="stable")))

    def label(self, row: int) -> str:
        """The label of the place that a row belongs to."""
        return self._labels[row]

    def age(self, row: int) -> int:
        """Rank of a row in the order in which rows were added."""
        return self._order[row]

    def add(self, label: str, embedding: ArrayLike, replace: bool = False) -> None:
        """Add an embedding, float [dimension], to the place of that label; an unknown place is created.

        replace: remove the previous embeddings of this place. After an error nothing has changed. Raises
        InputError for an invalid label or embedding (see `unit_vector`), DatabaseFullError.
        """
        check_label(label)
        unit = self.unit_vector(embedding)
        known = self._labels.count(label) if replace else 0
        if len(self) - known >= self.capacity:
            raise DatabaseFullError(f"expected at most {self.capacity} embeddings; remove some first")
        if known:
            self.remove(label)
        row = len(self)
        if row == len(self._rows):
            grown = np.zeros((max(64, 2 * row), len(unit)), np.float32)
            if row:
                grown[:row] = self._rows
            self._rows = grown
        self._rows[row] = unit
        self._labels.append(label)
        self._order.append(self._next)
        self._next += 1
        self._touch(row)

    def remove(self, label: str) -> int:
        """Remove a place and return the number of its embeddings; UnknownPlaceError for an unknown label."""
        found = [row for row, each in enumerate(self._labels) if each == label]
        if not found:
            places = len(set(self._labels))
            raise UnknownPlaceError(f"expected the label of one of the {places} places; got '{label}'")
        for row in reversed(found):
            last = len(self) - 1
            self._rows[row] = self._rows[last]
            self._rows[last] = 0.0
            self._labels[row], self._order[row] = self._labels[last], self._order[last]
            self._labels.pop()
            self._order.pop()
            self._touch(row, last)
        if not self._labels:
            self._rows = np.zeros((0, self._given), np.float32)
        return len(found)

    def clear(self) -> None:
        """Remove all places."""
        self._touch(*range(len(self)))
        self._rows = np.zeros((0, self._given), np.float32)
        self._labels.clear()
        self._order.clear()

    def changed_since(self, version: int) -> set[int]:
        """The rows that were added, removed or moved since the database had this version."""
        return {row for row, touched in self._touched.items() if touched > version}

    def unit_vector(self, embedding: ArrayLike) -> NDArray[np.float32]:
        """The normalised embedding, [dimension]; InputError for another size, NaN, infinity, or all zeros."""
        return unit_vector(embedding, self.dimension)

    def save(self, path: str | Path) -> None:
        """Write all places to a file; ArchiveError if it cannot be written."""
        order = np.argsort(self._order, kind="stable")
        labels = np.array([self._labels[row] for row in order], np.str_)
        archive.save(path, KIND, {"labels": labels, "embeddings": self.rows[order]})

    @classmethod
    def load(cls, path: str | Path, capacity: int = 1 << 20) -> PlaceDatabase:
        """Read a file that `save` has written.

        Raises ArchiveError for any other file, and for one that is missing or cannot be read;
        DatabaseFullError for one with more than `capacity` embeddings.
        """
        path = Path(path)
        arrays = archive.load(path, KIND, ("labels", "embeddings"))
        labels, embeddings = arrays["labels"], arrays["embeddings"]
        if labels.dtype.kind != "U" or embeddings.dtype.kind != "f" or embeddings.ndim != 2:
            raise ArchiveError(f"{path.name}: expected strings and float embeddings [entries, dimension]")
        if labels.shape != embeddings.shape[:1]:
            raise ArchiveError(f"{path.name}: {labels.size} labels for {len(embeddings)} embeddings")
        database = cls(capacity=capacity)
        try:
            for label, embedding in zip(labels.tolist(), embeddings, strict=True):
                database.add(label, embedding)
        except DatabaseFullError:
            raise
        except ValueError as error:  # InputError is one; NumPy raises it for invalid characters
            raise ArchiveError(f"{path.name}: {error}") from error
        return database

    def _touch(self, *rows: int) -> None:
        self.version += 1
        self._touched.update(dict.fromkeys(rows, self.version))
