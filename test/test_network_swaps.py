"""Networks of a control node that replace each other quickly, and ones that the driver cannot run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.parameter import Parameter

from edgetpu_control.learned.network import Interval, Layer, Network
from edgetpu_control.learned.quantised_network import QuantisedNetwork, quantise
from edgetpu_control.nodes import network_on_driver
from edgetpu_control.nodes.network_on_driver import NetworkOnDriver
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.clients.driver_choice import DRIVER_SETTING
from edgetpu_driver.node_kit.dense_graph_files import MODEL_DIR


class _Client:
    """A client of a driver that has loaded the model, or cannot run it, when the test says so."""

    def __init__(self, node: Any, model: str, *, name: str, on_ready: Callable[[], None], **_: Any) -> None:
        del node
        self.model, self.name, self._on_ready = model, name, on_ready
        self.problem = "looking for the driver"
        self.busy = self.closed = False

    def load(self, reservation: str = "") -> None:
        assert not self.closed
        self.problem = reservation
        self._on_ready()

    def close(self) -> None:
        self.closed = True


class _Stage:
    """A server of networks whose thread, executor and driver work when the test says so."""

    def __init__(self, node: Any, patch: pytest.MonkeyPatch) -> None:
        self.clients: list[_Client] = []
        self.quantised: list[float] = []
        self._work: list[Callable[[], None]] = []
        self._calls: list[Callable[[], None]] = []

        def client(*arguments: Any, **options: Any) -> _Client:
            self.clients.append(_Client(*arguments, **options))
            return self.clients[-1]

        patch.setattr(network_on_driver, "ModelClient", client)
        self.server = NetworkOnDriver(node, self._quantise, lambda: None)
        patch.setattr(self.server._thread, "submit", self._work.append)
        patch.setattr(self.server._calls, "add", self._calls.append)

    def _quantise(self, network: Network) -> QuantisedNetwork:
        self.quantised.append(float(network.layers[0].weights[0, 0]))
        return quantise(network)

    def replace(self, *gains: float) -> None:
        """Give networks one after the other, then let the thread and the executor work."""
        for gain in gains:
            self.server.replace(network(gain))
        self.work()

    def work(self) -> None:
        while self._work or self._calls:
            (self._work or self._calls).pop(0)()

    @property
    def gain(self) -> float:
        """Of the network in use."""
        assert self.server.network is not None
        return float(self.server.network.network.layers[0].weights[0, 0])


def network(gain: float) -> Network:
    """A network of one layer that multiplies one number."""
    range_ = Interval(-np.ones(1), np.ones(1))
    return Network((Layer(np.full((1, 1), gain), np.zeros(1)),), range_, range_, np.ones((4, 1)))


class _Node(BaseNode):
    settings = (DRIVER_SETTING, MODEL_DIR)


@pytest.fixture
def stage(graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Stage]:  # noqa: ARG001
    node = _Node("swaps", parameter_overrides=[Parameter("model_dir", value=str(tmp_path))])
    yield _Stage(node, monkeypatch)
    node.destroy_node()


def test_a_network_is_never_loaded_over_the_one_in_use(stage: _Stage) -> None:
    stage.replace(0.25)
    stage.clients[0].load()
    stage.replace(0.5)  # and another one before the driver has loaded it
    stage.replace(0.75)
    present, superseded, newest = stage.clients
    assert superseded.closed
    assert newest.name != present.name
    newest.load()
    assert stage.gain == 0.75


def test_a_network_is_never_loaded_over_a_former_one_that_still_works(stage: _Stage) -> None:
    stage.replace(0.25)
    stage.clients[0].load()
    stage.clients[0].busy = True
    stage.replace(0.5)
    stage.clients[1].load()
    stage.replace(0.75)
    assert len({each.name for each in stage.clients}) == 3
    stage.clients[0].busy = False
    stage.work()
    stage.clients[2].load()
    stage.work()
    assert [each.closed for each in stage.clients] == [True, True, False]


def test_a_graph_that_another_node_uses_is_not_removed(
    stage: _Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.replace(0.25)
    stage.clients[0].load()
    node = _Node("neighbour", parameter_overrides=[Parameter("model_dir", value=str(tmp_path))])
    neighbour = _Stage(node, monkeypatch)  # which is told of the clients of both from now on
    neighbour.replace(0.25)
    neighbour.clients[0].load()
    for gain in (0.5, 0.75):
        stage.replace(gain)
        neighbour.clients[-1].load()
    assert neighbour.clients[0].model in [file.stem for file in tmp_path.glob("network_*.tflite")]
    node.destroy_node()


def test_only_the_newest_of_several_networks_is_quantised(stage: _Stage) -> None:
    stage.replace(0.25, 0.5, 0.75)
    assert stage.quantised == [0.75]


def test_a_network_that_cannot_be_written_is_the_problem_though_another_is_being_loaded(
    stage: _Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.replace(0.25)

    def disk_full(*_arguments: Any) -> bool:
        raise OSError("no space left on device")

    monkeypatch.setattr(network_on_driver, "write_file", disk_full)
    stage.replace(0.5)
    assert stage.clients[0].closed  # which would never be used, as the newest call counts
    assert stage.server.problem == "the network cannot be used: no space left on device"


def test_a_network_that_the_driver_cannot_run_replaces_none_that_runs(stage: _Stage) -> None:
    stage.replace(0.25)
    stage.clients[0].load()
    stage.replace(0.5)
    stage.clients[1].load("loaded, but it cannot run here: it is not compiled")
    assert stage.gain == 0.25
    assert stage.server.problem == "loaded, but it cannot run here: it is not compiled"
    assert not stage.clients[0].closed
    stage.clients[1].load()  # by a driver that was started again
    assert stage.gain == 0.5
