"""A sample that is too large for its signal is left out, and a signal that has grown is not."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.errors import InputError
from edgetpu_matrix.reservoir.broken_samples import IN_A_ROW, LARGEST_JUMP, SignalScale
from edgetpu_matrix.reservoir.echo_state_network import EchoStateNetwork
from edgetpu_matrix.reservoir.ridge_readout import RidgeReadout


def passes(scale: SignalScale, *values: float) -> bool:
    try:
        scale.check(np.array(values))
    except InputError:
        return False
    return True


def test_a_sample_that_drowns_those_before_it_is_refused() -> None:
    scale = SignalScale()
    assert passes(scale, 1.0, -0.5)
    assert passes(scale, -LARGEST_JUMP, 0.0)
    with pytest.raises(InputError, match=r"expected values of up to 6\.7e\+07 times the largest before"):
        scale.check(np.array([0.0, -1e30]))
    assert passes(scale, 1.0)


def test_a_signal_that_stays_large_is_taken() -> None:
    scale = SignalScale()
    assert passes(scale, 1e-16)
    assert [passes(scale, 1.0) for _ in range(IN_A_ROW + 2)] == [False] * IN_A_ROW + [True] * 2


def test_after_zeros_every_size_is_taken() -> None:
    scale = SignalScale()
    assert passes(scale, 0.0)
    assert passes(scale, 1e30)


@pytest.mark.parametrize("activation", ["tanh", "relu", "identity"])
def test_one_broken_sample_does_not_spoil_the_training(activation: str) -> None:
    network, readout, scale = EchoStateNetwork(32, activation=activation), RidgeReadout(34, 1), SignalScale()
    before = None
    for step in range(400):
        sample = np.array([1e30 if step == 200 else np.sin(step / 5)])
        if passes(scale, *sample):
            network.advance(network.matrix @ network.state, sample)
            if before is not None and step > 50:
                readout.add(before, sample)
            before = network.features(sample)
    assert readout.solve().residual_rms[0] < 0.02  # the step that is missing is 0.2
