"""A quantised network on the driver, which can be replaced between two inferences."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from edgetpu_control.learned.network import Array, Network
from edgetpu_control.learned.quantised_network import INPUT, OUTPUT, QuantisedNetwork
from edgetpu_driver.errors import EdgeTpuError, reason_of
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_driver.files.file_access import user_path, write_file
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.clients.driver_choice import driver_names
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls
from edgetpu_msgs.srv import Invoke, LoadModel

Done = Callable[[Array | None, InferenceResult], None]
"""Called with the outputs, or None and the error in the result."""

_NONE_GIVEN = "no network was given yet"


class _Served(NamedTuple):
    """A network and its client."""

    network: QuantisedNetwork
    client: ModelClient
    file: Path
    """Of its graph, for the driver."""
    slot: int
    """Number in the model's name on the driver."""


class NetworkOnDriver:
    """Quantises networks in a thread of its own, writes their graphs for the driver, and runs them there.

    While a new network is quantised and loaded, the present one is used.
    """

    def __init__(
        self,
        node: BaseNode,
        quantise: Callable[[Network], QuantisedNetwork],
        on_ready: Callable[[], None],
    ) -> None:
        """on_ready: called each time that a network has been loaded."""
        self._node = node
        self._quantise = quantise
        self._on_ready = on_ready
        self._calls = executor_calls(node)
        self._thread = BackgroundThread("networks")
        self._present: _Served | None = None
        self._next: _Served | None = None
        self._retired: list[_Served] = []
        """Former networks with a pending request."""
        self._written: set[Path] = set()
        """Files of graphs that were made here."""
        self._number = 0
        self._problem = _NONE_GIVEN

    def create_clients(self) -> None:
        """Create the service clients before a network is given, so that the security policy lists them."""
        for driver in driver_names(self._node.values["driver"]):
            self._node.create_client(LoadModel, f"{driver}/load_model")
            self._node.create_client(Invoke, f"{driver}/invoke")

    @property
    def network(self) -> QuantisedNetwork | None:
        """The network in use; None until the first is loaded."""
        return self._present.network if self._present is not None else None

    @property
    def problem(self) -> str:
        """Why there are no results, or why a requested network is not used; empty if all is well."""
        if self._next is not None:
            return self._next.client.problem
        return self._problem or (self._present.client.problem if self._present is not None else "")

    @property
    def ready(self) -> bool:
        """Whether an input can be run now."""
        return self._present is not None and self._present.client.free

    def replace(self, network: Network) -> None:
        """Use this network once the driver has loaded it; the newest call counts."""
        self._number += 1
        self._thread.submit(partial(self._prepare, network, self._number))

    def run(self, inputs: Array, done: Done) -> bool:
        """Run the network for inputs, float64[batch, n]; False, with `done` never called, unless `ready`."""
        if self._present is None:
            return False
        network, client, *_ = self._present

        def finish(result: InferenceResult) -> None:
            self._let_go()
            outputs = None if result.error is not None else network.decode(result.outputs[OUTPUT])
            done(outputs, result)

        return client.invoke({INPUT: network.encode(inputs)}, finish, still_wanted=lambda: False)

    def remove(self) -> None:
        """Use no network until one is given; a pending request ends with an error."""
        self.close()
        self._problem = _NONE_GIVEN

    def close(self) -> None:
        """Stop looking for the driver; a pending request ends with an error."""
        self._number += 1
        served = self._served()
        self._retired, self._present, self._next = [], None, None
        for each in served:
            each.client.close()

    def _served(self) -> list[_Served]:
        """Return all networks that have a client."""
        return [*self._retired, *(each for each in (self._present, self._next) if each is not None)]

    def _prepare(self, network: Network, number: int) -> None:
        """In the thread: quantise, and write the graph under a name derived from its content and this node.

        Nodes with equal networks have a file each, as every node removes its own.
        """
        if number != self._number:  # a newer one waits
            return
        try:
            quantised = self._quantise(network)
            graph = quantised.graph()
            directory = user_path(self._node.values["model_dir"] or default_model_dir())
            digest = hashlib.sha256(self._node.full_name.encode() + b"\0" + graph).hexdigest()
            file = directory / f"network_{digest[:16]}.tflite"
            self._remove_former(file)
            if write_file(file, graph):
                self._written.add(file)
        except (EdgeTpuError, OSError) as error:
            self._calls.add(partial(self._fail, number, f"the network cannot be used: {reason_of(error)}"))
            return
        self._calls.add(partial(self._load, quantised, file, number))

    def _remove_former(self, new: Path) -> None:
        """In the thread: remove graphs written here that are no longer used."""
        used = {new, *(each.file for each in (self._present, self._next) if each is not None)}
        for file in self._written - used:
            with suppress(OSError):
                file.unlink()
        self._written &= used

    def _fail(self, number: int, problem: str) -> None:
        if number == self._number:
            self._drop_next()
            self._problem = problem
            self._node.get_logger().error(problem)

    def _load(self, quantised: QuantisedNetwork, file: Path, number: int) -> None:
        if number != self._number:
            return
        self._drop_next()
        self._problem = ""
        # The models in other slots stay loaded meanwhile.
        slot = min(set(range(len(self._retired) + 2)) - {each.slot for each in self._served()})
        client = ModelClient(
            self._node,
            file.stem,
            name=f"{self._node.full_name}/network_{slot}",
            driver=self._node.values["driver"],
            on_ready=partial(self._loaded, number),
            sets_weights=False,
        )
        self._next = _Served(quantised, client, file, slot)

    def _drop_next(self) -> None:
        """Give up a network that was requested before and is still being loaded."""
        if self._next is not None:
            self._next.client.close()
            self._next = None

    def _loaded(self, number: int) -> None:
        loaded = self._next
        # A network that the device cannot run, as its graph is not compiled, does not replace one that runs.
        if (
            loaded is not None
            and number == self._number
            and (self._present is None or not loaded.client.problem)
        ):
            if self._present is not None:
                self._retired.append(self._present)
            self._present, self._next = loaded, None
            self._log_errors(loaded.network)
            self._calls.add(self._let_go)
        self._on_ready()

    def _let_go(self) -> None:
        """Close the clients of former networks that have no pending request."""
        for each in [each for each in self._retired if not each.client.busy]:
            self._retired.remove(each)
            each.client.close()

    def _log_errors(self, quantised: QuantisedNetwork) -> None:
        errors = ", ".join(
            f"{number}: {each.own:.2%} alone, {each.total:.2%} in all"
            for number, each in enumerate(quantised.layer_errors, 1)
        )
        self._node.get_logger().info(f"using a new network; errors due to 8 bits by layer: {errors}")
