"""Names of classes by their numbers."""

from __future__ import annotations

from collections.abc import Mapping

from edgetpu_vision.errors import LabelsError

_BACKGROUND = ("background", "__background__", "_background_", "???", "bg")
"""Names, in lower case, of a first label that stands for the background."""
MOST_CLASSES = 2**16
"""Largest class number. Uncritical: it limits the memory."""


class Labels:
    """Names of classes by their numbers, which may have gaps."""

    def __init__(self, names: Mapping[int, str], source: str = "the model", numbered: bool = False) -> None:
        """Take names by class number.

        source: where the names come from, for messages. numbered: whether the source gives the numbers, so
        that gaps are intended. Raises LabelsError if there are no names, or numbers that no model has.
        """
        if not names:
            raise LabelsError(f"expected at least one label; got none from {source}")
        low, high = min(names), max(names)
        if low < 0 or high >= MOST_CLASSES:
            raise LabelsError(
                f"expected classes from 0 to {MOST_CLASSES - 1}; got {low}..{high} from {source}"
            )
        self.source = source
        self.numbered = numbered
        self.names = tuple(names.get(number, "") for number in range(high + 1))
        """The labels by class number; "" for numbers without one."""

    def name(self, class_id: int) -> str:
        """The name of a class; LabelsError for a number beyond the last label."""
        if 0 <= class_id < len(self.names):
            return self.names[class_id]
        raise LabelsError(
            f"expected a label for class {class_id}, which the model gives; got {len(self.names)} labels "
            f"from {self.source}"
        )

    @property
    def begins_with_background(self) -> bool:
        """Whether the first label stands for the background."""
        return self.names[0].strip().lower() in _BACKGROUND

    def without_background(self) -> Labels:
        """The labels counted from the second one if the first is the background."""
        if not self.begins_with_background or len(self.names) == 1:
            return self
        return Labels(dict(enumerate(self.names[1:])), self.source, self.numbered)

    def _without_first(self) -> Labels:
        if self.numbered and not self.names[0]:
            return Labels({n: name for n, name in enumerate(self.names[1:]) if name}, self.source, True)
        return self.without_background()

    def _without_blank_lines(self) -> Labels:
        names = [name for name in self.names if name]
        return self if self.numbered or not names else Labels(dict(enumerate(names)), self.source)

    def for_classes(self, count: int) -> Labels:
        """The labels for a model with `count` classes.

        Blank lines count as labels only if the model has as many classes. If there is one label too many, a
        first label for the background is dropped, or the missing first one of labels numbered from 1.
        Numbered labels may have gaps (names are ""). With gaps they may also end early: by any number of
        classes if at least half of the labels are gaps, otherwise by no more than the number of gaps. Raises
        LabelsError for another number of labels: they belong to another model.
        """
        labels = self if len(self.names) <= count else self._without_blank_lines()
        fitting = labels._without_first() if len(labels.names) == count + 1 else labels
        found = len(fitting.names)
        if found > count or (found < count and not fitting._may_end_before(count)):
            hint = ": if the model's first class is the background, put a label for it first"
            raise LabelsError(
                f"expected {count} labels, one for each class of the model; got {len(self.names)} from "
                f"{self.source}" + (hint if found + 1 == count else "")
            )
        if found == count:
            return fitting
        return Labels(dict(enumerate((*fitting.names, *[""] * (count - found)))), self.source, numbered=True)

    def _may_end_before(self, count: int) -> bool:
        """Whether labels for fewer classes may belong to a model with `count` classes."""
        gaps = self.names[1:].count("")
        few = len(self.names) - gaps <= gaps
        return self.numbered and gaps > 0 and (few or count - len(self.names) <= gaps)
