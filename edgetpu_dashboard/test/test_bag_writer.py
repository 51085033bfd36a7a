"""A bag is complete however it ends."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("rosbags", reason="needs rosbags")

from rosbags.rosbag2 import Reader

from edgetpu_dashboard.live.bag_writer import BagRecording

KIND = "std_msgs/msg/Empty"


def test_messages_that_wait_too_long_at_the_end_are_lost_and_the_bag_is_complete(tmp_path: Path) -> None:
    writing, released = threading.Event(), threading.Event()

    def definition(_kind: str) -> tuple[str, str]:
        writing.set()
        assert released.wait(20.0)
        return "", "RIHS01_" + 64 * "0"

    bag = BagRecording(tmp_path / "bag", definition, 1000)
    for time in range(3):
        bag.put("/a", KIND, time, b"\0\1\0\0\0")
    assert writing.wait(20.0)
    bag.end(0.0)
    released.set()
    bag.join(20.0)
    progress = bag.progress()
    assert (progress.messages, progress.lost, progress.ended, progress.problem) == (1, 2, True, "")
    with Reader(tmp_path / "bag") as reader:
        assert reader.message_count == 1
