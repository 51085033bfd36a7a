"""The parameters of the reservoir node."""

from __future__ import annotations

from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.state_paths import directory_setting
from edgetpu_matrix.nodes.matrix_parameters import matrix_settings
from edgetpu_matrix.reservoir.echo_state_network import ACTIVATIONS, LARGEST_SIZE
from edgetpu_matrix.reservoir.host_subspace import DIRECTIONS

SETTINGS = matrix_settings(
    Setting("size", 256, "Neurons of the reservoir.", 1, LARGEST_SIZE),
    Setting(
        "spectral_radius",
        0.9,
        "Largest absolute eigenvalue of the recurrent weights after rounding: the larger, the longer the "
        "memory. Must be below 1 with relu and identity.",
        0.01,
        2.0,
    ),
    Setting("leak", 1.0, "Share of the state that is new at every step.", 0.001, 1.0),
    Setting("activation", "tanh", "Activation function of the neurons.", choices=tuple(ACTIVATIONS)),
    Setting("input_scaling", 0.5, "Largest weight of an input.", 0.0, 1000.0),
    Setting("bias", 0.2, "Largest constant input of a neuron.", 0.0, 1000.0),
    Setting("seed", 0, "Seed of the random weights.", 0, 2**31 - 1),
    Setting(
        "host_directions",
        DIRECTIONS,
        "Number of directions of largest variance of the state that are multiplied on the host, so that "
        "eight bits only round the residual. 0: none.",
        0,
        LARGEST_SIZE,
    ),
    Setting("washout", 100, "Number of inputs after a reset that are not used for training.", 0, 1000000),
    Setting(
        "horizon",
        0,
        "Number of inputs by which the readout predicts the input ahead; the targets are then the inputs "
        "themselves. 0: targets are read from the topic target.",
        0,
        10000,
    ),
    Setting(
        "regularization",
        1e-6,
        "Regularization of the ridge regression, in the unit of the mean square of a state.",
        0.0,
        1e6,
        read_only=False,
    ),
    Setting("target_type", "std_msgs/msg/Float32MultiArray", "Type of the messages on target."),
    Setting("target_fields", "data", "Fields of these messages to read, as in input_fields."),
    directory_setting("readouts"),
    Setting("readout", "", "Name of a saved readout to start with. Empty: none."),
)
