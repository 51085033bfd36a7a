"""Labels from the source that the user gives: a file, a known set, or the names themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetpu_driver.files.file_access import read_file
from edgetpu_vision.errors import LabelsError
from edgetpu_vision.labels.known_sets import KNOWN_SETS
from edgetpu_vision.labels.label_text import parse_labels
from edgetpu_vision.labels.labels import Labels

LabelSource = str | Path | Sequence[str] | Mapping[int, str]
"""A file, the name of a known set, or the names by class number."""

_LARGEST_FILE = 2**22
"""Largest file, bytes. Uncritical: the labels of ImageNet take 22 kB."""


class LabelTable:
    """The labels that the user gave, for models with any number of classes."""

    def __init__(self, source: LabelSource | None) -> None:
        """Read the labels; `source` is None for those of the model. Raises LabelsError."""
        self._known = KNOWN_SETS.get(source) if isinstance(source, str) else None
        self._own = None if source is None or self._known else _read(source)

    @property
    def count(self) -> int | None:
        """Number of labels; None without labels, and for a known set, which adapts to the model."""
        return len(self._own.names) if self._own is not None else None

    def labels(self, count: int | None, of_model: Labels | None) -> Labels | None:
        """The labels for a model.

        count: its number of classes; None if unknown. of_model: labels in its files, which are ignored if
        they do not fit. Raises LabelsError if the user's labels do not fit.
        """
        chosen = self._known(count) if self._known else self._own
        if chosen is not None:
            return chosen if count is None else chosen.for_classes(count)
        if of_model is None or count is None:
            return of_model
        try:
            return of_model.for_classes(count)
        except LabelsError:
            return None


def _read(source: LabelSource) -> Labels:
    if isinstance(source, Mapping):
        return Labels(source, "the labels given", numbered=True)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return Labels(dict(enumerate(source)), "the labels given")
    if not isinstance(source, str | Path):
        raise LabelsError(f"expected labels, or a file of them; got {type(source).__name__}")
    path = Path(os.path.expanduser(source))
    try:
        data = read_file(path, _LARGEST_FILE)
    except (OSError, ValueError) as error:
        known = ", ".join(KNOWN_SETS)
        reason = getattr(error, "strerror", None) or str(error)
        raise LabelsError(f"expected a file of labels, or one of {known}; got '{source}': {reason}") from None
    return parse_labels(data, f"'{source}'")
