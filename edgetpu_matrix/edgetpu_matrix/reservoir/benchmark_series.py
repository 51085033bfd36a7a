"""Two time series on which reservoirs are compared: a filter to imitate, and chaos to predict."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def narma10(length: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Input and target, [length], of the nonlinear autoregressive moving average of order 10.

    After Atiya and Parlos (2000); the input is uniform in 0..0.5 there, and brought to -1..1 here.
    """
    inputs, outputs = np.random.default_rng(seed).uniform(0, 0.5, length + 1), np.zeros(length + 1)
    for t in range(9, length):
        memory = outputs[t - 9 : t + 1].sum()
        outputs[t + 1] = 0.3 * outputs[t] + 0.05 * outputs[t] * memory + 1.5 * inputs[t - 9] * inputs[t] + 0.1
    return inputs[:-1] * 4 - 1, outputs[1:]


def mackey_glass(
    length: int, ahead: int, start: float = 1.2
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The series of Mackey and Glass (1977) of delay 17, and itself `ahead` samples later, each [length].

    A sample per unit of time, tanh(x - 1), from a constant start after a transient of 200 samples.
    """
    step, every, delay = 0.1, 10, 170
    series = np.full((length + ahead + 200) * every + delay, start)
    for t in range(delay, len(series) - 1):
        late = series[t - delay]
        series[t + 1] = series[t] + step * (0.2 * late / (1 + late**10) - 0.1 * series[t])
    samples = np.tanh(series[delay + 200 * every :: every] - 1)
    return samples[:length], samples[ahead : ahead + length]
