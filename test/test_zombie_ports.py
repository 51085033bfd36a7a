"""Ports that killed processes leave in the shared memory of Fast DDS."""

from __future__ import annotations

import mmap
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rcl_interfaces.srv import GetParameters

from edgetpu_driver.node_kit.middleware.fast_dds_memory.fast_dds_port import (
    SHARED_MEMORY,
    FastDdsPort,
    Message,
)
from edgetpu_driver.node_kit.middleware.fast_dds_memory.zombie_ports import invalidate_zombie_ports
from testdata.running_nodes.killed_nodes import kill_while_it_takes_a_message, suspend
from testdata.running_nodes.port_files import (
    DEAD,
    FAST_DDS_ONLY,
    OK,
    READS,
    USED,
    PortFiles,
    SentMessage,
    keeps_ports,
    ports_of,
)
from testdata.running_nodes.ros_graph import Graph, NodeProcess


def messages_in_ports_of(process: NodeProcess, copies: Path) -> list[Message]:
    """The messages that wait in the ports of a process, except in one that a sender has replaced."""
    found = []
    for port in ports_of(process.pid):
        with suppress(FileNotFoundError):
            found += waiting_messages(port, copies)
    return found


def waiting_messages(port: Path, copies: Path) -> list[Message]:
    """The messages that wait in a port, which is not changed."""
    copy = Path(shutil.copy(port, copies))
    with copy.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        return list(FastDdsPort(copy, int(port.name.partition("_port")[2]), memory).take_waiting())


def ports_with(message: Message) -> int:
    """In how many ports a message waits, as its sender has noted it; 0 if the sender has ended."""
    try:
        data = (SHARED_MEMORY / message.segment.name).read_bytes()
    except FileNotFoundError:
        return 0
    (counts,) = struct.unpack_from("<Q", data, message.counts_at)
    return int(counts >> 24 & 0xFFFFF) if counts & 0xFFFFFF == message.version else 0


@FAST_DDS_ONLY
def test_the_successor_of_a_node_that_was_killed_while_it_took_a_message_answers(
    graph: Graph, start_node: Callable[..., NodeProcess]
) -> None:
    def start() -> NodeProcess:
        return start_node("edgetpu_driver", "edgetpu_node", backend="cpu")

    def call() -> Any:
        return graph.call(GetParameters, "/edgetpu/get_parameters", names=["backend"]).values[0].string_value

    first = start()
    assert call() == "cpu"
    assert ports_of(first.pid)
    kill_while_it_takes_a_message(first)
    second = start()
    assert call() == "cpu"
    second.stop()


@FAST_DDS_ONLY
def test_senders_may_use_the_memory_of_requests_again_that_a_killed_node_has_not_taken(
    graph: Graph, start_node: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    def messages_of_suspended_node() -> tuple[NodeProcess, set[Message]]:
        node = start_node("edgetpu_driver", "edgetpu_node", backend="cpu")
        graph.call(GetParameters, "/edgetpu/get_parameters", names=["backend"])
        suspend(node)
        taken = set(messages_in_ports_of(node, tmp_path))  # perhaps half: they wait, but no longer count
        client = graph.node.create_client(GetParameters, "/edgetpu/get_parameters")
        graph.spin_until(client.service_is_ready)
        for _ in range(5):
            client.call_async(GetParameters.Request(names=["backend"]))
        messages = set(messages_in_ports_of(node, tmp_path)) - taken
        # What is sent to all participants also waits in the ports of the others until they have read it.
        graph.spin_until(lambda: wait_in_one_port(messages) or not keeps_ports(node.pid))
        return node, messages

    def wait_in_one_port(messages: set[Message]) -> bool:
        return max(map(ports_with, messages), default=0) == 1

    node, messages = messages_of_suspended_node()
    while not wait_in_one_port(messages) or sum(map(ports_with, messages)) < 5:
        node.kill()  # a sender has taken it for dead, by a fault of Fast DDS, and replaced its port
        node, messages = messages_of_suspended_node()
    node.kill()

    def given_back() -> bool:
        invalidate_zombie_ports()  # again, if another process was holding a port to do the same
        return {ports_with(each) for each in messages} == {0}

    graph.spin_until(given_back)


class TestAPort:
    @pytest.mark.parametrize("domain", ["fastrtps", "fastdds"])
    def test_of_a_process_that_ended_is_invalid(self, tmp_path: Path, domain: str) -> None:
        port = PortFiles(tmp_path, domain)
        before = port.path.read_bytes()
        invalidate_zombie_ports(tmp_path)
        assert port.flags == DEAD
        after = port.path.read_bytes()
        assert [old - new for old, new in zip(before, after, strict=True) if old != new] == [OK - DEAD]

    def test_of_a_process_that_ended_reads_no_message(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path, listener=USED | READS)
        invalidate_zombie_ports(tmp_path)
        assert port.listener == USED

    def test_that_a_sender_has_found_to_be_dead_reads_no_message_either(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path, flags=DEAD, listener=USED | READS)
        invalidate_zombie_ports(tmp_path)
        assert (port.flags, port.listener) == (DEAD, USED)

    def test_of_a_living_process_goes_on_reading(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path, listener=USED | READS)
        with port.received():
            invalidate_zombie_ports(tmp_path)
        assert port.listener == USED | READS

    def test_of_a_living_process_stays_valid(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received():
            invalidate_zombie_ports(tmp_path)
        assert port.flags == OK

    def test_with_another_layout_is_left_alone(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path, layout=b"port_node_abi6")
        invalidate_zombie_ports(tmp_path)
        assert port.flags == OK

    def test_with_unknown_flags_is_left_alone(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path, flags=0b1111)
        invalidate_zombie_ports(tmp_path)
        assert port.flags == 0b1111

    def test_without_content_does_not_matter(self, tmp_path: Path) -> None:
        (tmp_path / "fastrtps_port1").touch()
        (tmp_path / "fastrtps_port1_el").touch()
        (tmp_path / "fastrtps_port2_el").touch()
        port = PortFiles(tmp_path)
        invalidate_zombie_ports(tmp_path)
        assert port.flags == DEAD


class TestAMessage:
    def test_that_waits_in_a_dead_port_is_given_back(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=1)
        PortFiles(tmp_path, waiting=(message.descriptor,))
        invalidate_zombie_ports(tmp_path)
        assert message.counts == (0, 0)

    def test_is_given_back_once(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=3)
        PortFiles(tmp_path, waiting=(message.descriptor,))
        invalidate_zombie_ports(tmp_path)
        invalidate_zombie_ports(tmp_path)
        assert message.counts == (2, 0)

    def test_is_given_back_although_a_sender_has_found_the_port_to_be_dead(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=2, readers=1)
        PortFiles(tmp_path, flags=DEAD, waiting=(message.descriptor,))
        invalidate_zombie_ports(tmp_path)
        assert message.counts == (1, 1)

    def test_that_waits_in_the_port_of_a_living_process_goes_on_waiting(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=1)
        port = PortFiles(tmp_path, waiting=(message.descriptor,))
        with port.received():
            invalidate_zombie_ports(tmp_path)
        assert message.counts == (1, 0)

    def test_that_waits_in_256_ports_goes_on_waiting(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=256)
        PortFiles(tmp_path, waiting=(message.descriptor,))
        invalidate_zombie_ports(tmp_path)
        assert message.counts == (256, 0)

    def test_whose_memory_is_used_again_is_not_touched(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=1)
        PortFiles(tmp_path, waiting=(message.descriptor,))
        message.reuse()
        invalidate_zombie_ports(tmp_path)
        assert message.counts == (1, 0)

    def test_whose_sender_has_ended_does_not_matter(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=1)
        port = PortFiles(tmp_path, waiting=(message.descriptor,))
        message.remove()
        invalidate_zombie_ports(tmp_path)
        assert port.flags == DEAD

    def test_that_only_a_dead_listener_reads_is_given_back(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, readers=1)
        PortFiles(tmp_path, listener=USED | READS, read=message.descriptor)
        invalidate_zombie_ports(tmp_path)
        assert message.counts == (0, 0)

    @pytest.mark.parametrize(("ports", "readers"), [(0, 2), (1, 1)])
    def test_that_others_read_or_will_read_remains(self, tmp_path: Path, ports: int, readers: int) -> None:
        message = SentMessage(tmp_path, ports=ports, readers=readers)
        PortFiles(tmp_path, listener=USED | READS, read=message.descriptor)
        invalidate_zombie_ports(tmp_path)
        assert message.counts == (ports, readers)


def test_where_there_is_no_shared_memory_nothing_happens(tmp_path: Path) -> None:
    invalidate_zombie_ports(tmp_path / "shm")
