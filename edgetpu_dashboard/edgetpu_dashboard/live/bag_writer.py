"""Writes a rosbag2 (mcap) in a separate thread, so that adding a message never waits for the disk."""

from __future__ import annotations

import math
import queue
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetpu_driver.errors import EdgeTpuError

MISSING = "saving a bag needs the Python package rosbags: `pip install rosbags`"
MOST_WAITING = 64 * 2**20
"""Most bytes that wait for the disk: two seconds of 640x480 RGB at 30 Hz. Further messages are lost."""
LEAST_FREE = 2**30
"""Bytes of the disk that a bag leaves free, so that logs, models and the state of nodes can still be written.
The waiting messages, and the index that completes the bag, need less than a tenth of it."""

Definition = Callable[[str], tuple[str, str]]
"""Returns the text of a message type, with all types that it refers to, and its RIHS01 hash."""


class BagError(EdgeTpuError):
    """A bag cannot be written; the message says why."""


@dataclass(frozen=True)
class BagProgress:
    """The progress of a bag."""

    path: Path
    """The directory of the bag."""
    messages: int
    bytes: int
    lost: int
    """Messages lost because the disk was too slow."""
    ended: bool
    """Whether nothing more will be written."""
    complete: bool
    """Whether the bag can be read; False while it is written, and if the disk was full."""
    left_out: tuple[str, ...]
    """Topics without a definition of their type, each with the reason."""
    problem: str
    """Why nothing more is written; empty if all is well."""


class BagRecording:
    """A bag that is being written. Safe to use from any thread."""

    def __init__(self, path: Path, definition: Definition, largest: int) -> None:
        """Start a bag. Raises BagError.

        path: directory to write; must not exist. largest: most bytes of messages in the bag.
        """
        try:
            from rosbags.rosbag2 import StoragePlugin, Writer
        except ImportError:
            raise BagError(MISSING) from None
        self.path = path
        self._definition, self._largest = definition, largest
        self._queue: queue.SimpleQueue[tuple[str, str, int, bytes] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._messages = self._bytes = self._waiting = self._lost = 0
        self._problem = ""
        self._complete = False
        self._left_out: list[str] = []
        self._deadline = math.inf
        self._connections: dict[str, Any] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if lack := _lack_of_space(path.parent):
                raise BagError(lack)
            self._writer = Writer(path, version=9, storage_plugin=StoragePlugin.MCAP)
            self._writer.open()
        except Exception as error:  # rosbags lets many types of error through
            raise BagError(f"{path} cannot be written: {error}") from None
        self._thread = threading.Thread(target=self._write_all, name="bag", daemon=True)
        self._thread.start()

    def put(self, topic: str, kind: str, time_ns: int, message: bytes) -> None:
        """Add a serialised message; kind: its type, such as sensor_msgs/msg/Image."""
        with self._lock:
            if self._problem:
                return
            if self._bytes + self._waiting + len(message) > self._largest:
                self._problem = f"the bag has reached {self._largest / 1e6:.0f} MB"
                return
            if self._waiting + len(message) > MOST_WAITING:
                self._lost += 1
                return
            self._waiting += len(message)
        self._queue.put((topic, kind, time_ns, message))

    def progress(self) -> BagProgress:
        """Return the progress of the bag."""
        ended = not self._thread.is_alive()
        with self._lock:
            return BagProgress(
                self.path,
                self._messages,
                self._bytes,
                self._lost,
                ended,
                self._complete,
                tuple(self._left_out),
                self._problem,
            )

    def end(self, seconds: float = math.inf) -> None:
        """Have the bag completed after the waiting messages; return at once.

        seconds: time after which messages that still wait are lost, so that the bag is completed in time.
        """
        self._deadline = min(self._deadline, time.monotonic() + seconds)
        self._queue.put(None)

    def join(self, seconds: float) -> None:
        """Wait until the bag is complete, at most this long."""
        self._thread.join(seconds)

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            if time.monotonic() < self._deadline:
                self._write(*item)
            else:
                with self._lock:
                    self._lost += 1
        try:
            self._writer.close()
        except Exception as error:  # of the disk, through rosbags
            self._give_up(f"{self.path} cannot be completed: {error}")
        else:
            self._complete = True

    def _write(self, topic: str, kind: str, time_ns: int, message: bytes) -> None:
        written = 0
        try:
            connection = self._connection(topic, kind)
            if lack := _lack_of_space(self.path):
                self._give_up(lack)  # no further messages; those that wait are written
            if connection is not None:
                self._writer.write(connection, time_ns, message)
                written = 1
        except Exception as error:  # of the disk, or of rosbags
            self._give_up(f"{topic} cannot be written: {error}")
        with self._lock:
            self._waiting -= len(message)
            self._messages += written
            self._bytes += written * len(message)

    def _connection(self, topic: str, kind: str) -> Any:
        """The connection of a topic; None for one whose type has no definition, which is left out."""
        if topic not in self._connections:
            try:
                text, digest = self._definition(kind)
            except Exception as error:  # of rosbags, for a type of any package
                self._connections[topic] = None
                with self._lock:
                    self._left_out.append(f"{topic}: {error}")
            else:
                self._connections[topic] = self._writer.add_connection(
                    topic, kind, msgdef=text, rihs01=digest
                )
        return self._connections[topic]

    def _give_up(self, problem: str) -> None:
        with self._lock:
            self._problem = self._problem or problem


def _lack_of_space(folder: Path) -> str:
    """Why no more of a bag should be written to a folder; empty if it may. OSError without such a folder."""
    free = shutil.disk_usage(folder).free
    if free >= LEAST_FREE:
        return ""
    return f"the disk of {folder} has {free / 1e6:.0f} MB left; a bag leaves {LEAST_FREE / 1e6:.0f} MB free"
