"""Ports that killed processes leave in the shared memory of Fast DDS."""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rcl_interfaces.srv import GetParameters
from rclpy.utilities import get_rmw_implementation_identifier

from edgetpu_driver.node_kit.middleware.zombie_ports import invalidate_zombie_ports
from testdata.running_nodes.fast_dds_port import DEAD, LISTENERS, OK, READS, USED, WAITS, FastDdsPort
from testdata.running_nodes.ros_graph import Graph, NodeProcess


def kill_while_it_takes_a_message(process: NodeProcess) -> None:
    """Kill a process as if its listeners had just been woken by a message: they are not waiting."""
    os.kill(process.pid, signal.SIGSTOP)
    while any(state(task) != "T" for task in Path(f"/proc/{process.pid}/task").iterdir()):
        pass
    for port in ports_of(process):
        with port.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            domain = port.name.partition("_")[0]
            memory[memory.find(f"{domain}\0".encode()) - LISTENERS] &= ~WAITS
    process.kill()


def state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def ports_of(process: NodeProcess) -> list[Path]:
    """The ports whose locks it holds."""
    files = [os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
    found = [re.fullmatch(r"(.*/fast(?:rtps|dds)_port\d+)_el", file) for file in files]
    return [Path(match[1]) for match in found if match]


@pytest.mark.skipif(
    not get_rmw_implementation_identifier().startswith("rmw_fastrtps"), reason="needs Fast DDS"
)
def test_the_successor_of_a_node_that_was_killed_while_it_took_a_message_answers(
    graph: Graph, start_node: Callable[..., NodeProcess]
) -> None:
    def start() -> NodeProcess:
        return start_node("edgetpu_driver", "edgetpu_node", backend="cpu")

    def call() -> Any:
        return graph.call(GetParameters, "/edgetpu/get_parameters", names=["backend"]).values[0].string_value

    first = start()
    assert call() == "cpu"
    assert ports_of(first)
    kill_while_it_takes_a_message(first)
    second = start()
    assert call() == "cpu"
    second.stop()


class TestAPort:
    @pytest.mark.parametrize("domain", ["fastrtps", "fastdds"])
    def test_of_a_process_that_ended_is_invalid(self, tmp_path: Path, domain: str) -> None:
        port = FastDdsPort(tmp_path, domain)
        before = port.path.read_bytes()
        invalidate_zombie_ports(tmp_path)
        assert port.flags == DEAD
        after = port.path.read_bytes()
        assert [old - new for old, new in zip(before, after, strict=True) if old != new] == [OK - DEAD]

    def test_of_a_process_that_ended_reads_no_message(self, tmp_path: Path) -> None:
        port = FastDdsPort(tmp_path, listener=USED | READS)
        invalidate_zombie_ports(tmp_path)
        assert port.listener == USED

    def test_that_a_sender_has_found_to_be_dead_reads_no_message_either(self, tmp_path: Path) -> None:
        port = FastDdsPort(tmp_path, flags=DEAD, listener=USED | READS)
        invalidate_zombie_ports(tmp_path)
        assert (port.flags, port.listener) == (DEAD, USED)

    def test_of_a_living_process_goes_on_reading(self, tmp_path: Path) -> None:
        port = FastDdsPort(tmp_path, listener=USED | READS)
        with port.lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            invalidate_zombie_ports(tmp_path)
        assert port.listener == USED | READS

    def test_of_a_living_process_stays_valid(self, tmp_path: Path) -> None:
        port = FastDdsPort(tmp_path)
        with port.lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            invalidate_zombie_ports(tmp_path)
        assert port.flags == OK

    def test_with_another_layout_is_left_alone(self, tmp_path: Path) -> None:
        port = FastDdsPort(tmp_path, layout=b"port_node_abi6")
        invalidate_zombie_ports(tmp_path)
        assert port.flags == OK

    def test_with_unknown_flags_is_left_alone(self, tmp_path: Path) -> None:
        port = FastDdsPort(tmp_path, flags=0b1111)
        invalidate_zombie_ports(tmp_path)
        assert port.flags == 0b1111

    def test_without_content_does_not_matter(self, tmp_path: Path) -> None:
        (tmp_path / "fastrtps_port1").touch()
        (tmp_path / "fastrtps_port1_el").touch()
        (tmp_path / "fastrtps_port2_el").touch()
        port = FastDdsPort(tmp_path)
        invalidate_zombie_ports(tmp_path)
        assert port.flags == DEAD


def test_where_there_is_no_shared_memory_nothing_happens(tmp_path: Path) -> None:
    invalidate_zombie_ports(tmp_path / "shm")
