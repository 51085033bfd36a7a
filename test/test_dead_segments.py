"""Segments that killed processes leave in the shared memory of Fast DDS."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rcl_interfaces.srv import GetParameters

from edgetpu_driver.node_kit.middleware.fast_dds_memory import killed_processes
from edgetpu_driver.node_kit.middleware.fast_dds_memory.dead_segments import MIN_AGE, remove_dead_segments
from testdata.running_nodes.port_files import FAST_DDS_ONLY, segments_of
from testdata.running_nodes.ros_graph import Graph, NodeProcess

NAME = "fastrtps_0123456789abcdef"


def make_segment(directory: Path, name: str = NAME, age: float = MIN_AGE + 5.0) -> tuple[Path, Path]:
    """A segment whose process has ended, and its lock."""
    segment, lock = directory / name, directory / f"{name}_el"
    segment.touch()
    lock.touch()
    make_older(lock, age)
    return segment, lock


def make_older(file: Path, seconds: float) -> None:
    """Set the time of its last change to so long ago."""
    os.utime(file, 2 * (time.time() - seconds,))


@FAST_DDS_ONLY
def test_the_command_for_use_after_kills_deletes_what_a_node_has_left(
    graph: Graph, start_node: Callable[..., NodeProcess]
) -> None:
    killed = start_node("edgetpu_driver", "edgetpu_node", backend="cpu")
    graph.call(GetParameters, "/edgetpu/get_parameters", names=["backend"])
    segments = segments_of(killed.pid)
    assert segments
    killed.kill()
    for segment in segments:
        with contextlib.suppress(FileNotFoundError):  # a node of another test run has deleted it
            make_older(segment.with_name(f"{segment.name}_el"), MIN_AGE)
    subprocess.run([sys.executable, "-m", killed_processes.__name__], check=True)
    assert not any(segment.exists() for segment in segments)


@pytest.mark.parametrize("name", [NAME, "fastdds_fedcba9876543210"])
def test_the_segment_of_a_process_that_ended_is_deleted(tmp_path: Path, name: str) -> None:
    make_segment(tmp_path, name)
    remove_dead_segments(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_living_process_remains(tmp_path: Path) -> None:
    segment, lock = make_segment(tmp_path)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_dead_segments(tmp_path)
    assert segment.exists()
    assert lock.exists()


def test_one_that_is_just_being_made_remains(tmp_path: Path) -> None:
    segment, lock = make_segment(tmp_path, age=0.0)
    remove_dead_segments(tmp_path)
    assert segment.exists()
    assert lock.exists()


def test_a_lock_that_is_left_without_a_segment_is_deleted(tmp_path: Path) -> None:
    segment, lock = make_segment(tmp_path)
    segment.unlink()
    remove_dead_segments(tmp_path)
    assert not lock.exists()


@pytest.mark.parametrize("name", ["fastrtps_port7411", "fastrtps_0123456789abcde", "other_0123456789abcdef"])
def test_other_files_remain(tmp_path: Path, name: str) -> None:
    segment, lock = make_segment(tmp_path, name)
    remove_dead_segments(tmp_path)
    assert segment.exists()
    assert lock.exists()


def test_where_there_is_no_shared_memory_nothing_happens(tmp_path: Path) -> None:
    remove_dead_segments(tmp_path / "shm")
