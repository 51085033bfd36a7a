"""A request that claims to hold more than it does takes no memory, and does not end a node."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rcl_interfaces.srv import GetParameters, SetParameters

from edgetpu_msgs.srv import Invoke
from fuzz.raw_requests import RawRequests
from testdata.running_nodes.peak_memory import peak_memory
from testdata.running_nodes.ros_graph import Graph, NodeProcess

MIB = 1 << 20
CLAIMED = 768 * MIB
"""Bytes that the requests claim to hold: the limit of a process allows them, twice."""
BEYOND_ANY_LIMIT = 0xFFFFFFFF
ATTEMPTS = 5
"""Times that a request is sent. Each ended the driver, most likely."""


class Cdr:
    """A serialised request, little-endian."""

    def __init__(self) -> None:
        self.data = bytearray()

    def text(self, text: str = "") -> Cdr:
        return self.number(len(text) + 1).octets(text.encode() + b"\0")

    def number(self, value: int, size: int = 4) -> Cdr:
        return self.octets(bytes(-len(self.data) % size) + value.to_bytes(size, "little"))

    def octets(self, data: bytes) -> Cdr:
        self.data += data
        return self

    def tensor(self, *, shape: int, data: int) -> Cdr:
        """A tensor of type uint8 with these claimed lengths, and nothing in it."""
        self.text().octets(b"\3").number(shape)
        return self.octets(struct.pack("<fi", 0.0, 0)).number(data)

    @property
    def request(self) -> bytes:
        return bytes((0, 1, 0, 0)) + bytes(self.data)


def claiming_tensor() -> bytes:
    """A request to invoke whose only tensor claims its data."""
    return Cdr().text("model").number(1).tensor(shape=0, data=CLAIMED).request


def claiming_parameter() -> bytes:
    """A request to set_parameters whose first parameter claims its byte array; the second is missing."""
    value = Cdr().number(2).text("name").octets(b"\5\0").number(0, 8).number(0, 8).text()
    return value.number(CLAIMED).request


def claiming_tensors() -> bytes:
    """A request to invoke with claims for which Fast CDR replaces the buffer by one that ends before it.

    The first tensor claims more than any process may have, so that Fast CDR forgets the buffer of 5 MiB. It
    makes one of 3 MiB for the second, which begins 4 MiB from the beginning. The million others follow.
    """
    tensors = Cdr().text("m" * 4 * MIB).number(MIB).text().octets(b"\3").number(BEYOND_ANY_LIMIT)
    return tensors.text().octets(b"\3").number(3 * MIB).request


class Driver:
    """A driver, and bytes that it gets as requests."""

    def __init__(self, start_node: Callable[..., NodeProcess], graph: Graph, name: str) -> None:
        self.process = start_node("edgetpu_driver", "edgetpu_node", "-r", f"__node:={name}", backend="cpu")
        self._graph, self._name = graph, name
        self._graph.meet(f"/{name}")

    def get(self, kind: Any, service: str, data: bytes) -> None:
        """Send a request several times, and wait until the driver reports it or ends."""
        requests = RawRequests(self._graph.node, kind, f"/{self._name}/{service}")
        self._graph.spin_until(requests.matched)
        for _ in range(ATTEMPTS):
            assert requests.send(data)
        line = f"request to /{self._name}/{service}: cannot be read, skipped"
        self._graph.spin_until(lambda: line in self.process.output or not self.process.running)

    def answers(self) -> bool:
        """Whether it runs and answers."""
        if self.process.running:
            self._graph.call(GetParameters, f"/{self._name}/get_parameters")
        return self.process.running


@pytest.fixture
def driver(
    start_node: Callable[..., NodeProcess], graph: Graph, request: pytest.FixtureRequest
) -> Iterator[Driver]:
    driver = Driver(start_node, graph, request.node.name)
    yield driver
    if driver.process.running:
        driver.process.end()


def test_a_tensor_takes_no_memory_for_data_that_did_not_come(driver: Driver) -> None:
    before = peak_memory(driver.process.pid)
    driver.get(Invoke, "invoke", claiming_tensor())
    assert driver.answers()
    assert peak_memory(driver.process.pid) - before < CLAIMED // 4 // MIB


def test_a_parameter_takes_no_memory_for_bytes_that_did_not_come(driver: Driver) -> None:
    before = peak_memory(driver.process.pid)
    driver.get(SetParameters, "set_parameters", claiming_parameter())
    assert driver.answers()
    assert peak_memory(driver.process.pid) - before < CLAIMED // 4 // MIB


def test_no_tensor_is_read_behind_the_end_of_its_request(driver: Driver) -> None:
    driver.get(Invoke, "invoke", claiming_tensors())
    assert driver.answers()
