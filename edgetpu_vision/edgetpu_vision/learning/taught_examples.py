"""The examples of a learner: embeddings by the label of their class, in memory and in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import ArchiveError, InputError
from edgetpu_driver.files import npz_archive as archive
from edgetpu_driver.matrix.embedding_checks import check_label, unit_vector
from edgetpu_vision.errors import UnknownClassError

KIND = "edgetpu_vision examples 1"

UNKNOWN = "unknown"
"""Label of images that resemble nothing taught; no class can have it."""


@dataclass(frozen=True, eq=False)
class ExampleSet:
    """The examples at one moment; immutable."""

    labels: tuple[str, ...]
    """Labels of the classes, in the order in which they were first taught."""
    vectors: NDArray[np.float64]
    """Embeddings, [examples, dimension], each of length 1."""
    numbers: NDArray[np.intp]
    """The class of each example, [examples], an index into `labels`."""

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of examples of each class, [classes]."""
        return np.bincount(self.numbers, minlength=len(self.labels))


class TaughtExamples:
    """Embeddings, normalised to length 1, each under the label of its class.

    All have the dimension of the first one; once all are forgotten, another dimension is possible.
    """

    def __init__(self, capacity: int = 1000) -> None:
        """capacity: largest number of examples of all classes."""
        self.capacity = capacity
        self.model = ""
        """Identifies the model of the embeddings, such as the SHA-256 of its file; "": unknown."""
        self.made_with = ""
        """What else the embeddings depend on, such as parameters of the model's input; "": unknown."""
        self._labels: list[str] = []
        self._vectors: list[NDArray[np.float32]] = []

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def dimension(self) -> int:
        """Number of values of an embedding; 0 without examples."""
        return self._vectors[0].size if self._vectors else 0

    @property
    def classes(self) -> dict[str, int]:
        """The number of examples of each class, in the order in which they were first taught."""
        return dict(Counter(self._labels))

    def add(self, label: str, embeddings: Sequence[ArrayLike], *, replace: bool = False) -> None:
        """Add embeddings, float [dimension] each, to the class of that label, which may be new.

        replace: forget the earlier examples of the class. Raises InputError for an invalid label or
        embedding, without embeddings, and for more examples than `capacity` and than at present; nothing has
        changed then.
        """
        check_class(label)
        if not len(embeddings):
            raise InputError("expected one example or more; got none")
        forgotten = self._labels.count(label) if replace else 0
        count = len(self) - forgotten + len(embeddings)
        if count > len(self):
            self._check_count(count)
        dimension = self.dimension if len(self) > forgotten else 0
        units = []
        for embedding in embeddings:
            units.append(unit_vector(embedding, dimension))
            dimension = units[0].size
        if forgotten:
            self.forget(label)
        self._labels += [label] * len(units)
        self._vectors += units

    def _check_count(self, count: int) -> None:
        """Raise InputError for more examples than the capacity."""
        if count > self.capacity:
            examples = f"example{'' if self.capacity == 1 else 's'}"
            raise InputError(
                f"expected at most {self.capacity} {examples} of all classes, the capacity; got {count}"
            )

    def forget(self, label: str) -> int:
        """Forget a class and return how many examples it had; UnknownClassError for an unknown label."""
        kept = [index for index, each in enumerate(self._labels) if each != label]
        forgotten = len(self) - len(kept)
        if not forgotten:
            known = ", ".join(list(self.classes)[:8]) or "none yet"
            raise UnknownClassError(f"expected a class that was taught ({known}); got '{label}'")
        self._labels = [self._labels[index] for index in kept]
        self._vectors = [self._vectors[index] for index in kept]
        return forgotten

    def at_present(self) -> ExampleSet:
        """A copy of the present examples."""
        labels = tuple(self.classes)
        numbers = np.array([labels.index(label) for label in self._labels], np.intp)
        vectors = np.array(self._vectors, np.float64).reshape(len(self), self.dimension)
        return ExampleSet(labels, vectors, numbers)

    def check_model(self, model: str, dimension: int, made_with: str = "") -> None:
        """Raise InputError unless embeddings of this model, dimension and `made_with` are comparable.

        What is unknown counts as equal.
        """
        other = self.model and model and self.model != model
        if len(self) and (other or self.dimension != dimension):
            raise InputError(
                f"expected examples of the present model, which makes {dimension} values; those taught are "
                f"{self.dimension} values of another: forget them, or load others"
            )
        if len(self) and self.made_with and made_with and self.made_with != made_with:
            raise InputError(
                f"expected examples made with {made_with}; those taught were made with {self.made_with}: "
                "set the parameters back, forget the examples, or load others"
            )

    def save(self, path: str | Path) -> None:
        """Write all examples to a file; ArchiveError if it cannot be written."""
        arrays = {
            "labels": np.array(self._labels, np.str_),
            "embeddings": np.array(self._vectors, np.float32).reshape(len(self), self.dimension),
            "model": np.array(self.model, np.str_),
            "made_with": np.array(self.made_with, np.str_),
        }
        archive.save(path, KIND, arrays)

    @classmethod
    def load(cls, path: str | Path, capacity: int = 1000) -> TaughtExamples:
        """Read a file that `save` has written.

        Raises ArchiveError for any other file, for one with more than `capacity` examples, and for one that
        is missing or cannot be read.
        """
        path = Path(path)
        arrays = archive.load(path, KIND, ("labels", "embeddings", "model"), ("made_with",))
        labels, embeddings, saved = arrays["labels"], arrays["embeddings"], arrays["model"]
        made_with = arrays.get("made_with", np.array(""))  # absent from files of earlier versions
        are_texts = all(each.dtype.kind == "U" and not each.ndim for each in (saved, made_with))
        if labels.dtype.kind != "U" or not are_texts or embeddings.dtype.kind != "f":
            raise ArchiveError(f"{path.name}: expected labels, a model's name and float embeddings")
        if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1]:
            raise ArchiveError(
                f"{path.name}: {list(labels.shape)} labels for {list(embeddings.shape)} values"
            )
        examples = cls(capacity)
        examples.model, examples.made_with = str(saved), str(made_with)
        try:
            examples._check_count(len(labels))
            for label, embedding in zip(labels.tolist(), embeddings, strict=True):
                examples.add(label, [embedding])
        except ValueError as error:  # InputError is a ValueError
            raise ArchiveError(f"{path.name}: {error}") from error
        return examples


def check_class(label: str) -> None:
    """Raise InputError unless a class can have this label."""
    check_label(label)
    if label == UNKNOWN:
        raise InputError(
            f"expected a label other than '{UNKNOWN}', which results use for what was not taught"
        )
