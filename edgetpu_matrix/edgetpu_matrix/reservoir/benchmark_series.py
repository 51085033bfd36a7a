"""Two benchmark time series for reservoirs: a nonlinear filter and a chaotic signal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def narma10(length: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Input and target, each [length], of the nonlinear autoregressive moving average of order 10.

    After Atiya and Parlos (2000), whose input is uniform in 0..0.5; here it is scaled to -1..1.
    """
    inputs, outputs = np.random.default_rng(seed).uniform(0, 0.5, length + 1), np.zeros(length + 1)
    for t in range(9, length):
        memory = outputs[t - 9 : t + 1].sum()
        outputs[t + 1] = 0.3 * outputs[t] + 0.05 * outputs[t] * memory + 1.5 * inputs[t - 9] * inputs[t] + 0.1
    return inputs[:-1] * 4 - 1, outputs[1:]


def mackey_glass(
    length: int, ahead: int, start: float = 1.2
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The Mackey-Glass series (1977) with delay 17, and the same series `ahead` samples later, each [length].

    One sample per unit of time, tanh(x - 1); `start` is the constant initial history. The first 200 samples
    are discarded.
    """
    step, every, delay = 0.1, 10, 170
    series = np.full((length + ahead + 200) * every + delay, start)
    for t in range(delay, len(series) - 1):
        late = series[t - delay]
        series[t + 1] = series[t] + step * (0.2 * late / (1 + late**10) - 0.1 * series[t])
    samples = np.tanh(series[delay + 200 * every :: every] - 1)
    return samples[:length], samples[ahead : ahead + length]
