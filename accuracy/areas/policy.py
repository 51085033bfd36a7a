"""Accuracy of a learned policy in 8 bits: its commands compared with those of the network in float64.

Networks are trained from three teachers and evaluated on observations that they were not trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accuracy.engines import open_engine
from edgetpu_control.learned.quantised_network import INPUT, OUTPUT, QuantisedNetwork, quantise
from edgetpu_control.learned.training import TrainingPlan, train
from measured_figures.row import Row

AREA = "policy"

_WIDTH = 256
"""Number of units of each layer of the program."""
_HIDDEN = ((64, 64), (256, 256))
_TRAINED, _TRIED = 6000, 1000
_MOST_ERROR = 2.0
"""Largest RMS error through 8 bits, % of the RMS of the commands."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Teacher:
    """Gives the commands for observations that are distributed uniformly from -extent to extent."""

    name: str
    extent: tuple[float, ...]
    commands: Callable[[Array], Array]


def _pursue(x: Array) -> Array:
    """Turn and drive to a target; [n, 2] from [n, 4]: bearing, distance, speed and turn."""
    bearing, distance, speed, turn = x.T
    drive = np.clip(0.8 * distance * np.cos(bearing) - 0.2 * speed, -0.2, 0.8)
    return np.stack([np.clip(1.5 * np.sin(bearing) + 0.3 * turn, -1, 1), drive], axis=1)


def _swing_up(x: Array) -> Array:
    """Swing up a pole on a cart; [n, 1] from [n, 4]: its angle and rate, the cart's position and speed."""
    angle, rate, position, speed = x.T
    missing = np.tanh(0.3 * (9.8 - 0.5 * rate**2 + 9.8 * np.cos(angle)))
    push = np.sign(rate * np.cos(angle)) * missing - 0.5 * position - 0.2 * speed
    return np.stack([np.clip(push, -1, 1)], axis=1)


def _curve(x: Array) -> Array:
    """Three smooth functions of six values: [n, 3] from [n, 6]."""
    a, b, c, d, e, f = x.T
    return np.stack([np.sin(2 * a) * np.cos(b), c * d, np.tanh(2 * e + f)], axis=1)


_TEACHERS = (
    _Teacher("pursuit", (3.0, 1.0, 1.0, 1.0), _pursue),
    _Teacher("swing-up", (3.0, 4.0, 1.0, 1.0), _swing_up),
    _Teacher("smooth functions", (1.5,) * 6, _curve),
)


def measure(engine: str, quick: bool = False) -> list[Row]:
    """A row for each teacher and network; the inference runs on the engine."""
    return [
        _row(engine, teacher, hidden, epochs=4 if quick else 20)
        for teacher in _TEACHERS
        for hidden in _HIDDEN
    ]


def plots(engine: str) -> dict[str, object]:  # noqa: ARG001
    """Draw nothing."""
    return {}


def _row(engine: str, teacher: _Teacher, hidden: tuple[int, ...], epochs: int) -> Row:
    rng = np.random.default_rng(0)
    shown, tried = (
        rng.uniform(-1, 1, (count, len(teacher.extent))) * teacher.extent for count in (_TRAINED, _TRIED)
    )
    network = train(shown, teacher.commands(shown), TrainingPlan(hidden=hidden, epochs=epochs, batch=128))
    exact = network(tried)
    found = _commands(engine, quantise(network, width=_WIDTH), tried)
    case = f"{teacher.name}, hidden layers of {' and '.join(map(str, hidden))} units"
    return Row(
        AREA, case, "error of the commands by 8 bits", _relative(found, exact), "%", _MOST_ERROR, "lower"
    )


def _commands(engine: str, network: QuantisedNetwork, tried: Array) -> Array:
    opened = open_engine(engine, "network", network.graph())
    answers = [opened.run({INPUT: network.encode(each[np.newaxis])})[OUTPUT] for each in tried]
    return np.concatenate([network.decode(each) for each in answers])


def _relative(found: Array, exact: Array) -> float:
    """RMS of the error relative to the RMS of the exact commands, %."""
    return 100 * float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))
