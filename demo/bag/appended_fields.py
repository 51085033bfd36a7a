"""Rewrites a bag recorded by an older version: its edgetpu_msgs get the fields that were appended since then.

A subscriber drops messages that are shorter than its type, so the results in such a bag do not reach
today's nodes and tools. Images and all other messages are copied unchanged.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ament_index_python.packages import get_package_share_path
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.interfaces import Connection, ConnectionExtRosbag2
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from demo.bag.image_bag import one_line, open_bag
from demo.errors import BagError

PACKAGE = "edgetpu_msgs"
_APPENDED = bytes(256)
"""Zeros after a message, enough for the appended fields of every type: they become 0, false or empty."""


def upgrade_bag(source: Path, target: Path) -> Mapping[str, int]:
    """Write the messages of a bag to a new one (mcap), those of edgetpu_msgs with today's fields.

    Fields that the recording lacks are 0, false or empty.

    Args:
        source: a rosbag2 directory, or one .mcap or .db3 file.
        target: directory to write; must not exist.

    Returns:
        The number of extended messages of each topic that has any.

    Raises:
        BagError: the source cannot be read or has a message that is not a prefix of today's type, or the
            target exists or cannot be written.
    """
    if target.exists():
        raise BagError(f"{target} exists already")
    reader = open_bag(source)
    try:
        return _write(target, reader, source)
    except BagError:
        raise
    except OSError as error:
        raise BagError(f"cannot write {target}: {error.strerror or one_line(error)}") from error
    except Exception as error:  # rosbags lets many types of error through
        raise BagError(f"{source} is damaged: {one_line(error)}") from error
    finally:
        reader.close()


def _write(target: Path, reader: Reader, source: Path) -> Mapping[str, int]:
    """Write the new bag, or nothing at all."""
    store, extended = _todays_types(), Counter[str]()
    try:
        with Writer(target, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            copies = {each.id: _copy(each, writer, store) for each in reader.connections}
            for connection, time_ns, data in _messages(reader, source):
                message = data
                if connection.msgtype.startswith(f"{PACKAGE}/"):
                    message = extended_message(data, connection.msgtype)
                    extended[connection.topic] += len(message) > len(data)
                writer.write(copies[connection.id], time_ns, message)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return {topic: number for topic, number in extended.items() if number}


def _messages(reader: Reader, source: Path) -> Iterator[tuple[Connection, int, bytes]]:
    """Yield the messages of a bag; raises BagError if one cannot be read."""
    try:
        for connection, time_ns, data in reader.messages():
            yield connection, time_ns, bytes(data)
    except Exception as error:
        raise BagError(f"{source} is damaged: {one_line(error)}") from error


def extended_message(data: bytes, msgtype: str) -> bytes:
    """A serialised message (CDR) of edgetpu_msgs with all of today's fields; unchanged if it has them.

    Raises:
        BagError: the type does not exist, or the message is not a prefix of it.
    """
    package, _, name = msgtype.split("/")
    kind: Any = getattr(import_module(f"{package}.msg"), name, None)
    if kind is None:
        raise BagError(f"there is no message type {msgtype}")
    try:
        return bytes(serialize_message(deserialize_message(data + _APPENDED, kind)))
    except Exception as error:  # rclpy has no type for it
        raise BagError(f"expected a message {msgtype} or its beginning: {one_line(error)}") from error


def _todays_types() -> Typestore:
    """The types of ROS 2 and those of the installed edgetpu_msgs."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types: dict[str, Any] = {}
    for path in (get_package_share_path(PACKAGE) / "msg").glob("*.msg"):
        types |= get_types_from_msg(path.read_text(), f"{PACKAGE}/msg/{path.stem}")
    store.register(types)
    return store


def _copy(connection: Connection, writer: Writer, store: Typestore) -> Connection:
    assert isinstance(connection.ext, ConnectionExtRosbag2)
    known = connection.msgtype in store.fielddefs
    return writer.add_connection(
        connection.topic,
        connection.msgtype,
        typestore=store if known else None,
        msgdef=None if known else connection.msgdef.data,
        rihs01=None if known else connection.digest,
        serialization_format=connection.ext.serialization_format,
        offered_qos_profiles=connection.ext.offered_qos_profiles,
    )
