"""Trains a network on inputs and outputs, by Adam, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_control.learned.network import MOST_SAMPLES, MOST_UNITS, Interval, Layer, Network, random_network
from edgetpu_driver.errors import InputError
from edgetpu_driver.weights.real_arrays import real_array

_MEMORY, _SQUARES_MEMORY, _SMALLEST = 0.9, 0.999, 1e-8
"""Of Adam, as Kingma and Ba (2015) propose."""
_LEAST_RANGE = 1e-6
"""Half-width given to a quantity that never changes, unless _LEAST_STEPS are more."""
_LEAST_STEPS = 4
"""The same in steps of float64 at that quantity."""


@dataclass(frozen=True)
class TrainingPlan:
    """Duration and learning rate of a training."""

    hidden: Sequence[int] = (64, 64)
    """Units of the layers before the last."""
    epochs: int = 60
    batch: int = 64
    rate: float = 5e-3
    """Adam's step at the start; it falls to zero with a cosine."""
    seed: int = 0


def train(inputs: ArrayLike, outputs: ArrayLike, plan: TrainingPlan | None = None) -> Network:
    """Return a network that gives these outputs, float[count, m], for these inputs, float[count, n].

    Ranges are those of the samples. InputError for arrays that do not fit each other, or are not of real and
    finite numbers, and for a plan with values out of range.
    """
    plan = plan or TrainingPlan()
    _check(plan)
    given, wanted = (
        real_array(each, what).astype(np.float64) for each, what in ((inputs, "inputs"), (outputs, "outputs"))
    )
    if given.ndim != 2 or wanted.ndim != 2 or len(given) != len(wanted) or not given.size or not wanted.size:
        raise InputError(
            f"expected inputs [count, n] and outputs [count, m]; got {list(given.shape)} and "
            f"{list(wanted.shape)}"
        )
    if not (np.all(np.isfinite(given)) and np.all(np.isfinite(wanted))):
        raise InputError("expected finite samples; got NaN or infinity")
    random = np.random.default_rng(plan.seed)
    kept = given[_kept(given, wanted, random)]
    sizes = (given.shape[1], *plan.hidden, wanted.shape[1])
    network = random_network(sizes, _ranges(given), _ranges(wanted), kept, random)
    x, y = network.inputs.normalise(given), network.outputs.normalise(wanted)
    layers = _fit(network, x.astype(np.float32), y.astype(np.float32), plan, random)
    return Network(layers, network.inputs, network.outputs, kept)


def _kept(
    given: NDArray[np.float64], wanted: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.intp]:
    """Indices of samples for the ranges and errors of a quantised network.

    They include those with the least and greatest values of each quantity, which may be rare: the ranges of
    the layers would cut them off.
    """
    order = random.permutation(len(given))
    if len(order) <= MOST_SAMPLES:
        return order
    quantities = np.concatenate([wanted, given], axis=1)[order]
    each = max(1, MOST_SAMPLES // 4 // quantities.shape[1])
    by_size = np.argsort(quantities, axis=0, kind="stable")
    ends = np.concatenate([by_size[:each], by_size[-each:]]).T.ravel()[: MOST_SAMPLES // 2]
    return order[_first(ends, len(order))]


def _first(ends: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """These numbers and then the others below `count`, MOST_SAMPLES in all."""
    chosen = np.zeros(count, bool)
    chosen[ends] = True
    return np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)])[:MOST_SAMPLES]


def _check(plan: TrainingPlan) -> None:
    if not all(1 <= units <= MOST_UNITS for units in plan.hidden):
        units = ", ".join(map(str, plan.hidden))
        raise InputError(f"expected hidden layers of 1 to {MOST_UNITS} units; got {units}")
    if plan.epochs < 1:
        raise InputError(f"expected 1 epoch or more; got {plan.epochs}")
    if plan.batch < 1:
        raise InputError(f"expected batches of 1 sample or more; got {plan.batch}")
    if not 0 < plan.rate < np.inf:
        raise InputError(f"expected a rate above 0; got {plan.rate:g}")
    if plan.seed < 0:
        raise InputError(f"expected a seed of 0 or more; got {plan.seed}")


def _ranges(samples: NDArray[np.float64]) -> Interval:
    low, high = samples.min(axis=0), samples.max(axis=0)
    steps = np.spacing(np.maximum(np.abs(low), np.abs(high)))
    least = np.maximum(_LEAST_RANGE, _LEAST_STEPS * steps)
    narrow = (high - low) < 2 * least
    return Interval(low - narrow * least, high + narrow * least)


def _fit(
    network: Network,
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    plan: TrainingPlan,
    random: np.random.Generator,
) -> tuple[Layer, ...]:
    parameters = [a.astype(np.float32) for each in network.layers for a in (each.weights, each.bias)]
    first, second = ([np.zeros_like(each) for each in parameters] for _ in range(2))
    batches = max(1, len(x) // plan.batch)
    steps, step = plan.epochs * batches, 0
    for _ in range(plan.epochs):
        order = random.permutation(len(x))
        for batch in np.array_split(order, batches):
            gradients = _gradients(parameters, x[batch], y[batch])
            step += 1
            rate = plan.rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            rate *= np.sqrt(1 - _SQUARES_MEMORY**step) / (1 - _MEMORY**step)
            for value, gradient, mean, square in zip(parameters, gradients, first, second, strict=True):
                mean += (1 - _MEMORY) * (gradient - mean)
                square += (1 - _SQUARES_MEMORY) * (gradient * gradient - square)
                value -= (rate * mean / (np.sqrt(square) + _SMALLEST)).astype(np.float32)
    pairs = zip(parameters[::2], parameters[1::2], strict=True)
    return tuple(Layer(weights.astype(np.float64), bias.astype(np.float64)) for weights, bias in pairs)


def _gradients(
    parameters: list[NDArray[np.float32]], x: NDArray[np.float32], y: NDArray[np.float32]
) -> list[NDArray[np.float32]]:
    """Gradients of half the mean squared error."""
    values = [x]
    last = len(parameters) // 2 - 1
    for number in range(last + 1):
        sums = values[-1] @ parameters[2 * number].T + parameters[2 * number + 1]
        values.append(sums if number == last else np.maximum(sums, 0.0))
    error: NDArray[np.float32] = (values[-1] - y) / np.float32(len(x))
    found: list[NDArray[np.float32]] = []
    for number in range(last, -1, -1):
        of_bias: NDArray[np.float32] = error.sum(axis=0, dtype=np.float32)
        found[:0] = [np.asarray(error.T @ values[number], np.float32), of_bias]
        if number:
            error = (error @ parameters[2 * number]) * (values[number] > 0)
    return found
