"""The policy as a node: publishes the outputs of a network on the stick for numbers from messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgetpu_control.learned.network import MOST_UNITS, Array, Network
from edgetpu_control.learned.quantised_network import QuantisedNetwork, quantise
from edgetpu_control.nodes.network_control_node import NetworkControlNode, network_control_settings
from edgetpu_driver.errors import InputError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.node_kit.parameters import Setting


class PolicyNode(NetworkControlNode):
    """Runs a network for each observation and publishes its outputs."""

    settings = network_control_settings(
        Setting(
            "policy",
            "",
            "File of the network, .npz, as train_policy writes it. Another file replaces it without a gap. "
            "Empty: none.",
            read_only=False,
        ),
        Setting(
            "width",
            256,
            "Units to which each layer is filled up with copies of its units, which reduce the error due "
            "to 8 bits. 0: no copies.",
            0,
            MOST_UNITS,
        ),
    )
    file_parameter = "policy"

    def __init__(self, **options: Any) -> None:
        super().__init__("policy", **options)
        with self.destroyed_on_error():
            self.start()

    def quantised(self, network: Network) -> QuantisedNetwork:
        """Quantise a network with as many copies as the width has room for."""
        width: int = self.values["width"]
        return quantise(network, width=max(width, *network.sizes) if width else 0)

    def checked(self, network: Network) -> Network:
        """Return the network; InputError if outputs are velocities and there are not two."""
        if self.values["twist"] and network.sizes[-1] != 2:
            raise InputError(f"expected a network with 2 outputs for a velocity; got {network.sizes[-1]}")
        return network

    def observation_size(self) -> int:
        """Return the number of inputs of the present network."""
        assert self.server.network is not None
        return self.server.network.network.sizes[0]

    def command(self, observation: Array) -> None:
        """Run the network."""
        self.server.run(observation[np.newaxis], self._on_outputs)

    def _on_outputs(self, outputs: Array | None, result: InferenceResult) -> None:
        if outputs is None:
            self.fail(result.error)
        else:
            self.publish_command(outputs[0])
        self.advance()
