"""The echo-state network, its spectral radius, and what eight bits cost on two known tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_matrix.reservoir.benchmark_series import mackey_glass, narma10
from edgetpu_matrix.reservoir.echo_state_network import EchoStateNetwork, spectral_radius
from edgetpu_matrix.reservoir.host_subspace import DIRECTIONS
from edgetpu_matrix.reservoir.ridge_readout import RidgeReadout

Array = NDArray[np.float64]


def test_inputs_and_bias_of_minus_zero_count_as_zero(on_cpu: Any) -> None:
    network = EchoStateNetwork(10, inputs=2, input_scaling=-0.0, bias=-0.0)
    network.bind(on_cpu(network.matrix).effective)
    assert not network.advance(np.zeros(10), [1.0, 1.0]).any()


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[0.0, 4.0], [-1.0, 0.0]]),
        np.array([[-3.0]]),
        np.array([[0.0, 1.0], [0.0, 0.0]]),
        np.eye(3) * 1e-100,
        np.random.default_rng(1).normal(size=(100, 100)),
    ],
    ids=["rotation", "one", "nilpotent", "tiny", "random"],
)
def test_the_spectral_radius_is_the_largest_eigenvalue(matrix: Array) -> None:
    expected = np.abs(np.linalg.eigvals(matrix)).max()
    assert spectral_radius(matrix) == pytest.approx(expected, rel=1e-4, abs=1e-300)


@pytest.mark.parametrize("radius", [0.5, 0.9, 1.2])
@pytest.mark.parametrize("size", [10, 256, 300])
def test_the_effective_matrix_gets_the_radius_asked_for(on_cpu: Any, size: int, radius: float) -> None:
    network = EchoStateNetwork(size, spectral_radius=radius, activation="tanh", input_scaling=0, bias=0)
    effective = on_cpu(network.matrix).effective
    network.bind(effective)
    columns = []
    for axis in np.eye(size):
        network.reset()
        columns.append(np.arctanh(network.advance(1e-3 * effective @ axis, [0.0])) * 1e3)
    assert spectral_radius(np.array(columns).T) == pytest.approx(radius, rel=2e-4)


def test_a_step_is_the_equation_of_the_docstring() -> None:
    network = EchoStateNetwork(20, 2, leak=0.3, seed=5)
    matrix = network.matrix * 0.9 / spectral_radius(network.matrix)
    network.advance(np.zeros(20), [0.1, 0.2])
    first = network.state
    second = network.advance(network.matrix @ first, [0.5, -0.5])
    # With W x = 0 the state shows W_in u + b.
    network.reset()
    drive = np.arctanh(network.advance(np.zeros(20), [0.5, -0.5]) / 0.3)
    assert second == pytest.approx(0.7 * first + 0.3 * np.tanh(matrix @ first + drive))


@pytest.mark.parametrize(
    ("activation", "function"), [("relu", lambda x: np.maximum(x, 0)), ("identity", lambda x: x)]
)
def test_the_activation_is_applied_to_the_state(activation: str, function: Callable[[Array], Array]) -> None:
    drive = np.arctanh(EchoStateNetwork(20, seed=5).advance(np.zeros(20), [3.0]))
    state = EchoStateNetwork(20, activation=activation, seed=5).advance(np.zeros(20), [3.0])
    assert state == pytest.approx(function(drive))


def test_a_network_is_what_its_seed_says() -> None:
    one, same, other = (EchoStateNetwork(20, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.matrix, same.matrix)
    assert not np.array_equal(one.matrix, other.matrix)
    assert np.array_equal(one.matrix, EchoStateNetwork(20, 3, seed=1).matrix)


def test_the_first_sample_says_how_many_inputs_there_are() -> None:
    told, learning = EchoStateNetwork(20, 3), EchoStateNetwork(20)
    for network in (told, learning):
        network.advance(np.zeros(20), [1, 2, 3])
    assert learning.inputs == 3
    assert np.array_equal(told.state, learning.state)
    with pytest.raises(InputError, match="expected a sample of 3 values"):
        learning.advance(np.zeros(20), [1, 2])


def test_features_are_a_constant_the_sample_and_the_state() -> None:
    network = EchoStateNetwork(3, 2)
    network.advance(np.zeros(3), [7, 8])
    assert network.features([7, 8]).tolist() == [1, 7, 8, *network.state]


@pytest.mark.parametrize(
    "arguments",
    [
        {"size": 0},
        {"size": 1025},
        {"inputs": -1},
        {"leak": 0.0},
        {"leak": 1.1},
        {"spectral_radius": 0.0},
        {"spectral_radius": np.inf},
        {"input_scaling": np.inf},
        {"bias": np.nan},
        {"seed": -1},
        {"activation": "sine"},
        {"activation": "identity", "spectral_radius": 1.0},
    ],
    ids=str,
)
def test_bad_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        EchoStateNetwork(**arguments)


@pytest.mark.parametrize("sample", [[np.nan], [np.inf], [1.0, 2.0], 1.0, [1e308]])
def test_a_bad_sample_is_refused_and_the_state_kept(sample: Any) -> None:
    network = EchoStateNetwork(5, activation="identity", input_scaling=100.0)
    network.advance(np.zeros(5), [1.0])
    state = network.state.copy()
    with pytest.raises(InputError, match="expected a sample"):
        network.advance(np.zeros(5), sample)
    assert np.array_equal(network.state, state)


def error(network: EchoStateNetwork, multiply: Callable[[Array], Array], task: tuple[Array, Array]) -> float:
    """Error of the trained readout on the last third of a task / standard deviation of its targets."""
    network.reset()
    inputs, targets = task
    features, trained = [], len(inputs) * 2 // 3
    for sample in inputs:
        network.advance(multiply(network.state), [sample])
        features.append(network.features([sample]))
    readout = RidgeReadout(len(features[0]), 1)
    for t in range(200, trained):
        readout.add(features[t], [targets[t]])
    readout.solve(1e-7)
    predicted = np.array([readout.predict(each)[0] for each in features[trained:]])
    return float(np.sqrt(np.mean((predicted - targets[trained:]) ** 2)) / targets[trained:].std())


def as_defined(seed: int) -> tuple[Array, Array]:
    """NARMA-10 with inputs of 0 to 0.5: the states move little, around a mean that is far from 0."""
    inputs, targets = narma10(3000, seed)
    return (inputs + 1) / 4, targets


# Series whose errors are averaged, bound of the error in float64, and of the error in eight bits over that.
FAST, SLOW = {"spectral_radius": 0.9}, {"spectral_radius": 0.95, "leak": 0.5}
TASKS: dict[str, tuple[list[tuple[Array, Array]], float, float, dict[str, float]]] = {
    "NARMA-10": ([narma10(3000, seed) for seed in range(2)], 0.31, 1.05, FAST),
    "NARMA-10, inputs as defined": ([as_defined(2)], 0.27, 1.1, FAST),
    "Mackey-Glass, 1 ahead": ([mackey_glass(3000, 1)], 0.005, 1.5, SLOW),
    "Mackey-Glass, 17 ahead": ([mackey_glass(3000, 17)], 0.03, 1.2, SLOW),
}


@pytest.mark.parametrize("name", TASKS)
def test_eight_bits_cost_little(on_cpu: Any, name: str) -> None:
    series, exact_reach, factor, arguments = TASKS[name]
    network = EchoStateNetwork(256, **arguments)
    exact = np.mean([error(network, lambda state: network.matrix @ state, each) for each in series])
    matrix = on_cpu(network.matrix, host_directions=DIRECTIONS)
    network.bind(matrix.effective)

    def multiply(state: Array) -> Array:
        outputs: Array = matrix.multiply(state).outputs
        return outputs

    quantised = np.mean([error(network, multiply, each) for each in series])
    print(f"{name}: float64 {exact:.4f}, eight bits {quantised:.4f}")
    assert exact < exact_reach
    assert quantised < factor * exact
