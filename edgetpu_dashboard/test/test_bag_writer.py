"""A bag is complete however it ends."""

from __future__ import annotations

import resource
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="needs rosbags")
pytest.importorskip("rclpy", reason="needs ROS 2")

from rosbags.rosbag2 import Reader

from edgetpu_dashboard.live import bag_writer
from edgetpu_dashboard.live.bag_writer import BagError, BagRecording
from edgetpu_dashboard.nodes import bag_recorder
from testdata.timeouts import PATIENCE

KIND = "std_msgs/msg/Empty"
NO_FIELDS = "", "RIHS01_" + 64 * "0"
EMPTY = b"\0\1\0\0\0"
"""A message of that type."""


@pytest.fixture(autouse=True)
def spacious_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bags may be written however little space the disk of the tests has left."""
    monkeypatch.setattr(bag_writer, "LEAST_FREE", 0)


def test_messages_that_wait_too_long_at_the_end_are_lost_and_the_bag_is_complete(tmp_path: Path) -> None:
    writing, released = threading.Event(), threading.Event()

    def definition(_kind: str) -> tuple[str, str]:
        writing.set()
        assert released.wait(PATIENCE)
        return NO_FIELDS

    bag = BagRecording(tmp_path / "bag", definition, 1000)
    for time in range(3):
        bag.put("/a", KIND, time, EMPTY)
    assert writing.wait(PATIENCE)
    bag.end(0.0)
    released.set()
    bag.join(PATIENCE)
    progress = bag.progress()
    assert (progress.messages, progress.lost, progress.ended, progress.problem) == (1, 2, True, "")
    with Reader(tmp_path / "bag") as reader:
        assert reader.message_count == 1


def test_a_topic_without_a_definition_is_left_out(tmp_path: Path) -> None:
    def definition(kind: str) -> tuple[str, str]:
        if kind != KIND:
            raise BagError(f"there is no definition of {kind}")
        return NO_FIELDS

    bag = BagRecording(tmp_path / "bag", definition, 1000)
    bag.put("/own", "own/msg/Own", 0, EMPTY)
    bag.put("/a", KIND, 1, EMPTY)
    bag.put("/own", "own/msg/Own", 2, EMPTY)
    bag.end()
    bag.join(PATIENCE)
    progress = bag.progress()
    assert (progress.messages, progress.complete, progress.problem) == (1, True, "")
    assert progress.left_out == ("/own: there is no definition of own/msg/Own",)
    with Reader(tmp_path / "bag") as reader:
        assert [each.topic for each in reader.connections] == ["/a"]


def test_a_bag_that_the_disk_does_not_take_is_not_complete(tmp_path: Path) -> None:
    bag = BagRecording(tmp_path / "bag", lambda _kind: NO_FIELDS, 10**6)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # of this process
    try:
        bag.put("/a", KIND, 0, b"\0\1\0\0" + np.random.default_rng(0).bytes(100_000))
        bag.end()
        bag.join(PATIENCE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    progress = bag.progress()
    assert (progress.ended, progress.complete) == (True, False)
    assert "File too large" in progress.problem


def test_a_bag_is_not_begun_on_a_disk_that_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bag_writer, "LEAST_FREE", 10**18)
    with pytest.raises(BagError, match=r"has \d+ MB left; a bag leaves 1000000000000 MB free"):
        BagRecording(tmp_path / "bag", lambda _kind: NO_FIELDS, 10**6)
    assert not (tmp_path / "bag").exists()


def test_a_bag_ends_while_the_disk_has_space_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def definition(_kind: str) -> tuple[str, str]:
        monkeypatch.setattr(bag_writer, "LEAST_FREE", 10**18)  # as if the disk had filled up
        return NO_FIELDS

    bag = BagRecording(tmp_path / "bag", definition, 10**6)
    bag.put("/a", KIND, 0, EMPTY)
    bag.end()
    bag.join(PATIENCE)
    bag.put("/a", KIND, 1, EMPTY)
    progress = bag.progress()
    assert (progress.messages, progress.complete) == (1, True)
    assert progress.problem.endswith("a bag leaves 1000000000000 MB free")
    with Reader(tmp_path / "bag") as reader:
        assert reader.message_count == 1


class Node:
    """A node that receives what the test gives to it, and runs tasks at once."""

    def __init__(self) -> None:
        self.callbacks: list[Any] = []
        self.executor = SimpleNamespace(create_task=lambda task: task())

    def create_subscription(self, _kind: Any, _topic: str, callback: Any, _qos: Any, *, raw: bool) -> Any:
        assert raw
        self.callbacks.append(callback)
        return callback

    def destroy_subscription(self, callback: Any) -> None:
        self.callbacks.remove(callback)

    def resolve_topic_name(self, topic: str) -> str:
        return f"/{topic}"

    def get_clock(self) -> Any:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=1))


def test_a_bag_that_is_full_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_recorder, "LARGEST", 10)
    node: Any = Node()
    view: Any = SimpleNamespace(lock=threading.Lock(), nodes={})
    recorder = bag_recorder.BagRecorder(node, view)
    recorder.start(tmp_path)
    receive, _ = node.callbacks
    receive(EMPTY)
    assert recorder.records
    receive(EMPTY * 2)
    assert not recorder.records
    assert node.callbacks == []
    assert recorder._recording is not None
    recorder._recording.join(PATIENCE)
    progress = recorder._recording.progress()
    assert (progress.messages, progress.complete) == (1, True)
    assert progress.problem == "the bag has reached 0 MB"
