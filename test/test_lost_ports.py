"""Ports in the shared memory of Fast DDS that another process has replaced."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rcl_interfaces.srv import GetParameters
from rclpy.executors import SingleThreadedExecutor

from edgetpu_driver.node_kit.middleware.fast_dds_memory import lost_ports
from edgetpu_driver.node_kit.middleware.fast_dds_memory.lost_ports import (
    MOST_SPARED,
    PortWatch,
    renew_lost_ports,
)
from testdata.running_nodes.killed_nodes import kill_while_it_takes_a_message
from testdata.running_nodes.port_files import (
    DEAD,
    FAST_DDS_ONLY,
    OK,
    READS,
    USED,
    PortFiles,
    SentMessage,
    ports_of,
)
from testdata.running_nodes.ros_graph import Graph, NodeProcess
from testdata.running_nodes.spinning_node import SpinningNode


@contextlib.contextmanager
def newcomer() -> Iterator[SpinningNode]:
    """A node that has opened no port of another one."""
    node = SpinningNode(SingleThreadedExecutor)
    try:
        yield node
    finally:
        node.close()


@FAST_DDS_ONLY
def test_a_newcomer_reaches_a_node_whose_ports_were_taken_for_dead(
    graph: Graph, start_node: Callable[..., NodeProcess]
) -> None:
    node = start_node("edgetpu_driver", "edgetpu_node", backend="cpu")
    graph.call(GetParameters, "/edgetpu/get_parameters", names=["backend"])
    for port in ports_of(node.pid):
        for file in (port, port.with_name(f"{port.name}_el")):
            file.unlink(missing_ok=True)  # the node notices the loss of one, and may replace both
    with newcomer() as other:
        client = other.node.create_client(GetParameters, "/edgetpu/get_parameters")
        answer = other.ask(client, GetParameters.Request(names=["backend"]))
    assert answer.values[0].string_value == "cpu"
    node.stop()


@FAST_DDS_ONLY
def test_the_successor_of_a_killed_node_answers_although_a_newcomer_has_replaced_its_port(
    graph: Graph, start_node: Callable[..., NodeProcess]
) -> None:
    first = start_node("edgetpu_driver", "edgetpu_node", backend="cpu")
    graph.call(GetParameters, "/edgetpu/get_parameters", names=["backend"])
    ports = {port: port.stat().st_ino for port in ports_of(first.pid)}
    kill_while_it_takes_a_message(first)

    def is_replaced() -> bool:
        with contextlib.suppress(FileNotFoundError):  # it is just being replaced
            return any(port.stat().st_ino != inode for port, inode in ports.items())
        return False

    with newcomer() as other:
        other.spin_until(is_replaced)
    second = start_node("edgetpu_driver", "edgetpu_node", backend="virtual")
    answer = graph.call(GetParameters, "/edgetpu/get_parameters", names=["backend"])
    assert answer.values[0].string_value == "virtual"
    second.stop()


class TestAPort:
    def test_that_others_find_stays_valid(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received(), port.mapped() as memory:
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == OK

    def test_that_was_replaced_is_invalid(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received(), port.mapped() as memory:
            before = memory[:]
            port.replace_port()
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == DEAD
            differences = [old - new for old, new in zip(before, memory[:], strict=True) if old != new]
        assert differences == [OK - DEAD]

    def test_that_has_taken_its_place_stays_valid(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received(), port.mapped():
            port.replace_port()
            with port.mapped() as memory:
                renew_lost_ports(tmp_path)
                assert port.flags_in(memory) == OK

    def test_that_was_deleted_is_invalid(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received(), port.mapped() as memory:
            port.remove()
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == DEAD

    def test_whose_lock_was_deleted_is_invalid(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received(), port.mapped() as memory:
            port.lock.unlink()
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == DEAD

    def test_from_which_another_process_receives_as_well_stays_valid(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received(), port.mapped() as memory:
            port.lock.unlink()
            port.lock.touch()
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == OK

    def test_whose_listener_is_reading_stays_valid_until_it_has_read(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path, listener=USED | READS)
        with port.received(), port.mapped() as memory:
            port.replace_port()
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == OK
            port.stop_reading_in(memory)
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == DEAD

    def test_to_which_this_process_sends_is_invalid_if_it_was_replaced(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.mapped() as memory:
            port.replace_port()
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == DEAD

    def test_to_which_this_process_sends_reads_no_message_any_more(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, readers=1)
        port = PortFiles(tmp_path, listener=USED | READS, read=message.descriptor)
        with message.sent(), port.mapped() as memory:
            port.replace_port()
            renew_lost_ports(tmp_path)
            assert (port.flags_in(memory), port.listener_in(memory)) == (DEAD, USED)
        assert message.counts == (0, 1)

    def test_to_which_this_process_sends_stays_valid_without_a_receiver(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        port.lock.unlink()
        with port.mapped() as memory:
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == OK

    def test_with_another_layout_is_left_alone(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path, layout=b"port_node_abi6")
        with port.received(), port.mapped() as memory:
            port.replace_port()
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == OK


class TestAMessage:
    """A message in a port that was replaced."""

    def test_of_this_process_is_given_back_once(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=3)
        port = PortFiles(tmp_path, listener=USED, waiting=(message.descriptor,))
        with message.sent(), port.mapped():
            port.replace_port()
            renew_lost_ports(tmp_path)
            renew_lost_ports(tmp_path)
        assert message.counts == (2, 0)

    def test_of_another_process_goes_on_waiting(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=3)
        port = PortFiles(tmp_path, listener=USED, waiting=(message.descriptor,))
        with port.mapped():
            port.replace_port()
            renew_lost_ports(tmp_path)
        assert message.counts == (3, 0)

    def test_for_which_a_listener_waits_goes_on_waiting(self, tmp_path: Path) -> None:
        message = SentMessage(tmp_path, ports=3)
        port = PortFiles(tmp_path, waiting=(message.descriptor,))
        with message.sent(), port.mapped() as memory:
            port.replace_port()
            renew_lost_ports(tmp_path)
            assert port.flags_in(memory) == DEAD
        assert message.counts == (3, 0)


class TestAWatch:
    """It looks for lost ports after files were made or deleted."""

    def test_looks_twice_after_a_change_and_now_and_then_without_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks: list[int] = []
        monkeypatch.setattr(lost_ports, "renew_lost_ports", lambda _: not looks.append(len(looks)))
        watch = PortWatch(tmp_path)

        def looks_of(rounds: int) -> int:
            before = len(looks)
            for _ in range(rounds):
                watch.look()
            return len(looks) - before

        assert looks_of(MOST_SPARED) == 2
        os.utime(tmp_path, ns=(0, 0))  # as a file does that is made or deleted
        assert looks_of(MOST_SPARED) == 2
        assert looks_of(3 * (MOST_SPARED + 1)) == 3

    def test_finds_a_port_that_was_replaced_while_it_spared_looks(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received(), port.mapped() as memory:
            os.utime(tmp_path, ns=(0, 0))
            watch = PortWatch(tmp_path)
            for _ in range(3):
                watch.look()
            assert port.flags_in(memory) == OK
            port.replace_port()
            watch.look()
            assert port.flags_in(memory) == DEAD

    def test_finds_a_port_that_was_replaced_at_the_time_of_an_earlier_change(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path)
        with port.received(), port.mapped() as memory:
            watch = PortWatch(tmp_path)
            os.utime(tmp_path, ns=(0, 0))
            watch.look()
            port.replace_port()
            os.utime(tmp_path, ns=(0, 0))
            watch.look()
            assert port.flags_in(memory) == DEAD

    def test_looks_until_the_listener_of_a_lost_port_has_read(self, tmp_path: Path) -> None:
        port = PortFiles(tmp_path, listener=USED | READS)
        with port.received(), port.mapped() as memory:
            port.replace_port()
            watch = PortWatch(tmp_path)
            for _ in range(3):
                watch.look()
            assert port.flags_in(memory) == OK
            port.stop_reading_in(memory)
            watch.look()
            assert port.flags_in(memory) == DEAD


def test_where_there_is_no_shared_memory_nothing_happens(tmp_path: Path) -> None:
    renew_lost_ports(tmp_path / "shm")
    PortWatch(tmp_path / "shm").look()


def test_a_process_that_cannot_read_proc_goes_on(tmp_path: Path) -> None:
    port = PortFiles(tmp_path)
    with port.received(), port.mapped() as memory:
        port.replace_port()
        renew_lost_ports(tmp_path, process=tmp_path / "proc")
        assert port.flags_in(memory) == OK
