"""Arguments that select results: classes by name or number, largest count and least score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_vision.errors import LabelsError
from edgetpu_vision.labels.labels import Labels

_SHOWN = 8
"""Number of labels that a message lists."""


def check_max_results(count: int) -> None:
    """Raise InputError unless at least one result is wanted."""
    if count < 1:
        raise InputError(f"max_results: expected 1 or more; got {count}")


def check_share(name: str, value: float) -> None:
    """Raise InputError unless the value of an argument is from 0 to 1."""
    if not 0 <= value <= 1:
        raise InputError(f"{name}: expected 0 to 1; got {value}")


def selected_classes(
    wanted: Sequence[str | int], labels: Labels | None, count: int | None
) -> NDArray[np.intp] | None:
    """Numbers of the wanted classes, ascending, [n]; None for all if `wanted` is empty. A str is one class.

    count: number of classes of the model; None if unknown. Raises LabelsError for names that no label has
    and for numbers that the model does not have.
    """
    if not wanted:
        return None
    names = [name.lower() for name in labels.names] if labels else []
    found: set[int] = set()
    for each in [wanted] if isinstance(wanted, str) else wanted:
        text = str(each).strip()
        numbers = [index for index, name in enumerate(names) if name == text.lower()]
        if not numbers and text.isdecimal():
            numbers = [int(text)]
            if count is not None and numbers[0] >= count:
                raise LabelsError(f"expected classes below {count}, as many as the model has; got {text}")
        if not numbers:
            known = ", ".join(name for name in (labels.names if labels else ())[:_SHOWN] if name)
            raise LabelsError(
                f"expected classes by number or label ({known or 'there are no labels'}, ..); got '{text}'"
            )
        found.update(numbers)
    return np.array(sorted(found), np.intp)
