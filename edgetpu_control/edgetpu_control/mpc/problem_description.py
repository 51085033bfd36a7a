"""The states and actions of an MPC problem as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_control.mpc.cost_expression import FUNCTIONS
from edgetpu_driver.errors import InputError

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CIRCULAR = "circular"


@dataclass(frozen=True)
class States:
    """Names of the states, and which of them are angles."""

    names: tuple[str, ...]
    angles: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Actions:
    """Names and ranges of the actions, and the standard deviation of their samples, float64[m] each."""

    names: tuple[str, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    deviation: NDArray[np.float64]


def parse_states(text: str) -> States:
    """Read "x; speed; angle circular"; InputError for anything else."""
    parts = [each.split() for each in text.split(";")]
    if any(len(each) not in (1, 2) or each[1:] not in ([], [_CIRCULAR]) for each in parts):
        raise InputError(f"states: expected names such as x; speed; angle circular; got {text!r}")
    angles = tuple(number for number, each in enumerate(parts) if len(each) > 1)
    return States(_names("states", [each[0] for each in parts]), angles)


def parse_actions(text: str) -> Actions:
    """Read "force -10 10 5": name, least and greatest value, deviation; InputError for anything else.

    Several actions are separated by semicolons.
    """
    parts = [each.split() for each in text.split(";")]
    try:
        numbers = np.array([[float(number) for number in each[1:]] for each in parts])
        low, high, deviation = numbers.T
    except ValueError:
        raise InputError(
            "actions: expected name, least and greatest value, and deviation, such as force -10 10 5; "
            f"got {text!r}"
        ) from None
    if not np.all(np.isfinite(numbers)):
        raise InputError(f"actions: expected finite numbers; got {text!r}")
    return Actions(_names("actions", [each[0] for each in parts]), low, high, deviation)


def _names(what: str, names: list[str]) -> tuple[str, ...]:
    for name in names:
        if not _NAME.fullmatch(name) or name in FUNCTIONS:
            raise InputError(
                f"{what}: expected a name of letters, digits and _, not a function's; got {name!r}"
            )
    if len(set(names)) != len(names):
        raise InputError(f"{what}: expected different names; got {', '.join(names)}")
    return tuple(names)
