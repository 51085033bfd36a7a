"""Errors of headings and rates, for the measurements of the compass on a moving camera."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class HeadingErrors:
    """Errors of the yaw, deg, and of the yaw rate, deg/s, in one run without its first images."""

    yaw: Floats
    yaw_sigma: Floats
    rate: Floats
    rate_sigma: Floats


def yaw_of(run: HeadingErrors) -> Floats:
    """Errors of the yaw, deg."""
    return run.yaw


def rate_of(run: HeadingErrors) -> Floats:
    """Errors of the yaw rate, deg/s."""
    return run.rate


def yaw_inside(run: HeadingErrors) -> NDArray[np.bool_]:
    """Whether each yaw is within one sigma."""
    inside: NDArray[np.bool_] = np.abs(run.yaw) <= run.yaw_sigma
    return inside


def rate_inside(run: HeadingErrors) -> NDArray[np.bool_]:
    """Whether each yaw rate is within one sigma."""
    inside: NDArray[np.bool_] = np.abs(run.rate) <= run.rate_sigma
    return inside


def rms(runs: Sequence[HeadingErrors], of: Callable[[HeadingErrors], Floats]) -> float:
    """Root mean square of the errors of all runs."""
    errors = np.concatenate([of(run) for run in runs])
    return float(np.sqrt(np.mean(np.square(errors))))


def percentage(runs: Sequence[HeadingErrors], of: Callable[[HeadingErrors], NDArray[np.bool_]]) -> float:
    """Percentage of the images of all runs for which something holds."""
    return 100.0 * float(np.mean(np.concatenate([of(run) for run in runs])))
