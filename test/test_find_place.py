"""~/find_place while the driver is still starting: the answer waits for it, but for a limited time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.node_kit.executor.executor import StaticSingleThreadedExecutor
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_driver.usb.connector import OnPhase
from edgetpu_matrix.nodes import place_recognition_node
from edgetpu_matrix.nodes.place_recognition_node import PlaceRecognitionNode
from edgetpu_msgs.msg import ErrorCode
from edgetpu_msgs.srv import AddPlace, FindPlace
from testdata.running_nodes.spinning_node import spin_until
from testdata.timeouts import PATIENCE

KITCHEN, HALL = [1.0, 0.0, 0.5], [0.0, 1.0, 0.0]


class HeldBackend(CpuBackend):
    """A device whose bring-up lasts until the test lets it end."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.entered = threading.Event(), threading.Event()

    def open(self, on_phase: OnPhase | None = None) -> None:
        self.entered.set()
        self.free.wait()
        super().open(on_phase)


class StartingDriver(DriverNode):
    """The driver node of one held device."""

    def make_backends(self) -> list[Backend]:
        self.device = HeldBackend()
        return [self.device]


class House:
    """A place recognition node that knows two places, with one executor for it, its caller and a driver."""

    def __init__(self, models: Path) -> None:
        self._models = str(models)
        self.executor = StaticSingleThreadedExecutor()
        self._caller = rclpy.create_node("caller")
        self._nodes: list[Node] = [self._caller]
        self.executor.add_node(self._caller)
        self.places = self._add(PlaceRecognitionNode, model="dense_64", model_dir=self._models)
        for label, embedding in (("kitchen", KITCHEN), ("hall", HALL)):
            added = self.ask(AddPlace, "add_place", label=label, embedding=embedding)
            self.spin_until(added.done)

    def _add(self, kind: Callable[..., Node], **values: Any) -> Any:
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        node = kind(parameter_overrides=overrides, namespace="/house")
        self._nodes.append(node)
        self.executor.add_node(node)
        return node

    def start_driver(self) -> StartingDriver:
        driver: StartingDriver = self._add(StartingDriver, backend="cpu", model_dirs=[self._models])
        return driver

    def ask(self, kind: Any, service: str, **fields: Any) -> Any:
        client = self._caller.create_client(kind, f"/house/place_recognition/{service}")
        self.spin_until(client.service_is_ready)
        return client.call_async(kind.Request(**fields))

    def spin_until(self, condition: Callable[[], bool]) -> None:
        spin_until(condition, lambda: self.executor.spin_once(0.02))

    def close(self) -> None:
        self.executor.shutdown()
        for node in reversed(self._nodes):
            if isinstance(node, StartingDriver):
                node.device.free.set()
            node.destroy_node()


@pytest.fixture
def house(graph: Any, tmp_path: Path, patient_clients: None) -> Iterator[House]:  # noqa: ARG001
    house = House(tmp_path)
    yield house
    house.close()


def test_it_is_answered_when_the_driver_and_its_device_have_started(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_recognition_node, "FIND_PATIENCE", PATIENCE)
    found = house.ask(FindPlace, "find_place", embedding=KITCHEN)
    driver = house.start_driver()
    house.spin_until(driver.device.entered.is_set)
    house.spin_until(lambda: bool(driver.active_host().models()))
    assert not found.done()
    driver.device.free.set()
    house.spin_until(found.done)
    assert (found.result().success, list(found.result().labels)) == (True, ["kitchen"])


def test_it_is_answered_when_the_device_has_come_back(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_recognition_node, "FIND_PATIENCE", PATIENCE)
    driver = house.start_driver()
    driver.device.free.set()
    first = house.ask(FindPlace, "find_place", embedding=HALL)
    house.spin_until(first.done)
    driver.device.free.clear()
    driver.device.entered.clear()
    driver.active_host().reset()
    house.spin_until(driver.device.entered.is_set)
    found = house.ask(FindPlace, "find_place", embedding=KITCHEN)
    house.spin_until(lambda: bool(house.places.problems()))  # it has asked the driver in vain
    assert not found.done()
    driver.device.free.set()
    house.spin_until(found.done)
    assert (found.result().success, list(found.result().labels)) == (True, ["kitchen"])


def test_without_a_driver_it_is_answered_after_a_while(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_recognition_node, "FIND_PATIENCE", 0.0)
    found = house.ask(FindPlace, "find_place", embedding=KITCHEN)
    house.spin_until(found.done)
    assert (found.result().success, found.result().error.value) == (False, ErrorCode.UNAVAILABLE)


def test_a_device_that_does_not_start_is_not_waited_for_for_ever(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_recognition_node, "FIND_PATIENCE", 0.0)
    driver = house.start_driver()
    house.spin_until(driver.device.entered.is_set)
    found = house.ask(FindPlace, "find_place", embedding=KITCHEN)
    house.spin_until(found.done)
    assert (found.result().success, found.result().error.value) == (False, ErrorCode.UNAVAILABLE)
