"""Reads the images of a recorded rosbag2 (sqlite3 or mcap), without ROS."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from rosbags.interfaces import Connection
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from demo.errors import BagError

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
ORIENTATION = "geometry_msgs/msg/QuaternionStamped"
STORAGE_SUFFIXES = (".mcap", ".db3")


Quaternion = tuple[float, float, float, float]
"""x, y, z, w."""


@dataclass(frozen=True)
class ImageTopic:
    """A topic with images and that of its camera_info, if it has messages, named as by image_transport."""

    name: str
    type: str
    count: int
    camera_info: str | None

    @property
    def compressed(self) -> bool:
        """Whether the images are sensor_msgs/CompressedImage."""
        return self.type == COMPRESSED_IMAGE

    @property
    def base(self) -> str:
        """Name of the topic without the suffix of its transport."""
        return self.name.removesuffix("/compressed") if self.compressed else self.name

    @property
    def published(self) -> str:
        """Topic on which a subscriber of `base` expects the images."""
        return f"{self.base}/compressed" if self.compressed else self.base


@dataclass(frozen=True)
class Record:
    """One serialised message of the bag."""

    topic: str
    type: str
    time_ns: int
    """When it was recorded."""
    stamp_ns: int
    """The stamp of its header."""
    cdr: bytes


class ImageBag:
    """The images of one topic of a bag; a context manager."""

    def __init__(self, path: Path, topic: str | None = None) -> None:
        """Open the bag and find its image topic.

        Args:
            path: a rosbag2 directory, or one .mcap or .db3 file. A directory without a usable
                metadata.yaml is read if it has exactly one such file.
            topic: topic of the images; may be omitted if the bag has one image topic.

        Raises:
            BagError: there is no rosbag2 or a truncated one, or not exactly one image topic.
        """
        self.path = path
        self._reader = open_bag(path)
        try:
            self.topic = self._find_topic(topic)
        except Exception as error:
            self._reader.close()
            raise self._damaged(error) from error

    def __enter__(self) -> ImageBag:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()

    def records(self) -> Iterator[Record]:
        """Yield the images and camera infos in the order they were recorded.

        Raises:
            BagError: the next message cannot be read.
        """
        wanted = {self.topic.name: self.topic.type}
        if self.topic.camera_info:
            wanted[self.topic.camera_info] = CAMERA_INFO
        return self._records([c for c in self._reader.connections if wanted.get(c.topic) == c.msgtype])

    def orientations(self) -> Iterator[tuple[int, Quaternion]]:
        """Yield stamp, ns, and orientation of the camera, if exactly one topic has orientations.

        Those that cannot be read are left out.

        Raises:
            BagError: the bag itself cannot be read further.
        """
        connections = [c for c in self._reader.connections if c.msgtype == ORIENTATION]
        if len(connections) != 1:
            return
        store = get_typestore(Stores.ROS2_JAZZY)
        for record in self._records(connections):
            try:
                quaternion: Any = store.deserialize_cdr(record.cdr, ORIENTATION)
            except Exception:  # rosbags raises errors of many types for a damaged message
                continue
            q = quaternion.quaternion
            yield record.stamp_ns, (q.x, q.y, q.z, q.w)

    def _records(self, connections: Sequence[Connection]) -> Iterator[Record]:
        messages = self._reader.messages(connections)
        while True:
            try:
                connection, time_ns, cdr = next(messages)
            except StopIteration:
                return
            except Exception as error:
                raise self._damaged(error) from error
            data = bytes(cdr)
            yield Record(connection.topic, connection.msgtype, time_ns, header_stamp(data), data)

    def _damaged(self, error: Exception) -> BagError:
        """BagError for an error of rosbags, which raises many types, or of a damaged file."""
        return (
            error if isinstance(error, BagError) else BagError(f"{self.path} is damaged: {one_line(error)}")
        )

    def _find_topic(self, wanted: str | None) -> ImageTopic:
        types: dict[str, str] = {}
        counts: dict[str, int] = {}
        for connection in self._reader.connections:
            types[connection.topic] = connection.msgtype
            counts[connection.topic] = counts.get(connection.topic, 0) + connection.msgcount
        images = sorted(name for name, kind in types.items() if kind in (IMAGE, COMPRESSED_IMAGE))
        listed = ", ".join(images)
        if not images:
            raise BagError(f"{self.path} has no topic with images (sensor_msgs Image or CompressedImage)")
        if wanted is None:
            if len(images) > 1:
                raise BagError(f"{self.path} has {len(images)} image topics, name one: {listed}")
            name = images[0]
        else:
            name = "/" + wanted.strip("/")
            if name not in images:
                reason = f"is a {types[name]}" if name in types else "is not in the bag"
                raise BagError(f"{name} {reason}; image topics in {self.path}: {listed}")
        if not counts[name]:
            raise BagError(f"{name} in {self.path} has no messages")
        topic = ImageTopic(name, types[name], counts[name], None)
        info = topic.base.rpartition("/")[0] + "/camera_info"
        known = types.get(info) == CAMERA_INFO and counts[info] > 0
        return replace(topic, camera_info=info) if known else topic


def open_bag(path: Path) -> Reader:
    """Open a rosbag2 directory or file; without a good metadata.yaml, the only file of the directory.

    Raises:
        BagError: there is no rosbag2, or a truncated one.
    """
    if not path.exists():
        raise BagError(f"no bag at {path}")
    if not path.is_dir():
        return _open_reader(path)
    files = sorted(file for file in path.iterdir() if file.suffix in STORAGE_SUFFIXES)
    if not files:
        raise BagError(f"{path} is not a rosbag2: it has no .mcap or .db3 file")
    if (path / "metadata.yaml").exists():
        try:
            return _open_reader(path)
        except BagError:
            if len(files) > 1:
                raise
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise BagError(
            f"{path} has no metadata.yaml: write it with `ros2 bag reindex {path}`, or name one of its "
            f"files: {names}"
        )
    return _open_reader(files[0])


def _open_reader(path: Path) -> Reader:
    """Open a directory with metadata.yaml, or a file; raises BagError with commands that may restore it."""
    try:
        reader = Reader(path)
        reader.open()
    except Exception as error:  # rosbags lets many types of error through
        if path.is_dir():
            remedy = f"`ros2 bag reindex {path}` rewrites its metadata"
        elif path.suffix == ".mcap":
            remedy = (
                f"if its recording was interrupted, `mcap recover {path} -o recovered.mcap` restores it, or "
                f"`ros2 bag reindex {path.parent}`"
            )
        else:
            remedy = f"if its recording was interrupted, try `ros2 bag reindex {path.parent}`"
        raise BagError(f"{path} cannot be read as a rosbag2: {one_line(error)}; {remedy}") from error
    return reader


def header_stamp(cdr: bytes) -> int:
    """Return the stamp, in ns, of a serialised message that begins with a std_msgs/Header.

    A CDR message begins with four bytes, of which the second gives the byte order (1: little endian); the
    stamp follows as int32 seconds and uint32 nanoseconds. Zero for a message too short for a stamp.
    """
    if len(cdr) < 12:
        return 0
    seconds, nanoseconds = struct.unpack_from("<iI" if cdr[1] & 1 else ">iI", cdr, 4)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def one_line(error: Exception) -> str:
    """The text of an error on one line of at most 200 characters; its type if it has no text."""
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__
