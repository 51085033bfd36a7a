"""Commands of a policy of three layers of 256 units: rate, and the host's part.

The rate is in simulated time with the timing of USB 3, from the transfer of the observation to that of the
command. The baseline of the host's time is the same network in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.timing import compare
from edgetpu_control.learned.network import Interval, Network, random_network
from edgetpu_control.learned.quantised_network import INPUT, OUTPUT, QuantisedNetwork, quantise
from edgetpu_driver import CompiledModel, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from measured_figures.row import Row

AREA = "policy"
_SIZE = 256
_COMMANDS = 50
_WANTED = 1000.0
"""Rate of commands that is asked for, Hz."""
_ENDS = 8, 2
"""Numbers of inputs and outputs of the policy whose hidden layers have 256 units."""


def rows() -> Iterator[Row]:
    """Measure a network of three square layers, and a policy of the same width."""
    for case, sizes in (
        ("3 layers of 256", (_SIZE,) * 4),
        ("2 hidden layers of 256, 8 inputs, 2 outputs", (_ENDS[0], _SIZE, _SIZE, _ENDS[1])),
    ):
        yield from _rows(case, _network(sizes))


def _network(sizes: tuple[int, ...]) -> Network:
    random = np.random.default_rng(0)
    ends = [Interval(-np.ones(size), np.ones(size)) for size in (sizes[0], sizes[-1])]
    samples = random.uniform(-1, 1, (256, sizes[0]))
    return random_network(sizes, ends[0], ends[1], samples, random)


def _rows(case: str, network: Network) -> Iterator[Row]:
    quantised = quantise(network, width=_SIZE)
    graph = quantised.graph()
    model = CompiledModel.parse(pack(graph, name="policy"), "policy")
    device = VirtualEdgeTpu().register_model(model, graph)
    observation = network.samples[:1]
    with EdgeTpu.open(usb_backend=device) as tpu:

        def command() -> np.ndarray:
            return quantised.decode(tpu.run(model, {INPUT: quantised.encode(observation)})[OUTPUT])

        command()  # which also uploads the parameters
        began = device.clock.monotonic()
        for _ in range(_COMMANDS):
            command()
        rate = _COMMANDS / (device.clock.monotonic() - began)
    yield Row(AREA, case, "commands a second, simulated device", rate, "Hz", _WANTED, "higher")
    yield _host_part(f"{case}, the host's part", network, quantised)


def _host_part(case: str, network: Network, quantised: QuantisedNetwork) -> Row:
    """Measure encoding an observation and decoding a command, without the device."""
    observation, answer = network.samples[:1], np.zeros((1, _SIZE), np.uint8)

    def convert() -> None:
        quantised.encode(observation)
        quantised.decode(answer)

    return compare(convert, lambda: network(observation)).row(AREA, case, "the network in NumPy", None)
