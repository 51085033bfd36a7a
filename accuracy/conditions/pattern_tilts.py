"""Accuracy of the pattern tracker with boards and posters that are tilted after they were cut out."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from accuracy.scenes.tilted_patterns import Tilted
from edgetpu_perception.pattern_tracker.pattern_tracker import PatternTracker
from measured_figures.row import Row

IMAGES = 2
"""How often the same picture is shown: a tilted pattern looks smaller, and its scale has to be searched."""
RIGHT_PX = 0.5


def measure(case: str, tracker: PatternTracker, drawn: Iterable[Tilted], reach: float | None) -> list[Row]:
    """Rows for the patches that are accepted; errors are those of valid results."""
    found, errors, inside, mistaken = [], [], [], []
    for one in drawn:
        if not tracker.set_template(one.patch, accept_ambiguous=one.ambiguous, view=one.view).accepted:
            continue
        mistaken.append(any(tracker.update(one.other).valid for _ in range(IMAGES)))
        tracker.set_template(one.patch, accept_ambiguous=one.ambiguous, view=one.view)
        result = [tracker.update(one.later) for _ in range(IMAGES)][-1]
        found.append(result.valid)
        if result.valid:
            errors.append(math.hypot(result.x - one.x, result.y - one.y))
            inside += [abs(result.x - one.x) < result.x_sigma, abs(result.y - one.y) < result.y_sigma]
    within = 100.0 * float(np.mean(np.array(errors) < RIGHT_PX))
    return [
        Row("pattern", case, f"valid within {RIGHT_PX:g} px", within, "%", reach, "higher"),
        Row("pattern", case, "error of valid, median", float(np.median(errors)), "px", None, "lower"),
        Row("pattern", case, "inside one sigma", 100.0 * float(np.mean(inside)), "%", None, "higher"),
        Row("pattern", case, "present: valid", 100.0 * float(np.mean(found)), "%", None, "higher"),
        Row("pattern", case, "look-alike: valid", 100.0 * float(np.mean(mistaken)), "%", None, "lower"),
    ]
