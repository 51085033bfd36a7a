"""Records the camera and the results of the running nodes into a rosbag2."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from ament_index_python.packages import PackageNotFoundError, get_package_share_path
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.timer import Timer
from sensor_msgs.msg import CameraInfo, Image

from edgetpu_dashboard.live.bag_writer import BagError, BagProgress, BagRecording
from edgetpu_dashboard.nodes.graph_view import GraphView

LARGEST = 4 * 2**30
"""Largest size of a bag, bytes: two and a half minutes of 640x480 RGB at 30 Hz, so that a forgotten recording
does not fill the disk."""
_LAST_WRITES = 0.5
"""Seconds for waiting messages when the dashboard ends; a process has 2.5 s to stop."""
_CLOSING = 1.0
"""Seconds to complete the bag after that."""
_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
_STEADY = Clock(clock_type=ClockType.STEADY_TIME)


class BagRecorder:
    """Records at most one bag at a time. Its methods are for the executor's thread; `progress` is for any."""

    def __init__(self, node: Node, view: GraphView) -> None:
        self._node, self._view = node, view
        self._recording: BagRecording | None = None
        self._subscriptions: list[Any] = []
        self._timer: Timer | None = None

    @property
    def records(self) -> bool:
        """Whether a bag is being recorded."""
        return bool(self._subscriptions)

    def progress(self) -> BagProgress | None:
        """Return the progress of the last bag; None if there was none."""
        recording = self._recording
        return recording.progress() if recording is not None else None

    def start(self, folder: Path, seconds: float = 0.0) -> Path:
        """Start a bag in a folder, for some seconds or until stopped; return its path. Raises BagError."""
        if self.records:
            raise BagError("a bag is being recorded already")
        path = folder / datetime.now().strftime("edgetpu_%Y-%m-%d_%H-%M-%S_%f")
        recording = self._recording = BagRecording(path, MessageDefinitions(), LARGEST)
        for topic, kind in self._topics():
            self._subscribe(recording, topic, kind)
        if seconds > 0.0:
            self._timer = self._node.create_timer(seconds, self.stop, clock=_STEADY)
        return path

    def stop(self) -> None:
        """End the bag, which is then completed; do nothing if none is being recorded."""
        if not self.records or self._recording is None:
            return
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()
        self._recording.end()

    def _end(self, recording: BagRecording) -> None:
        """End a bag, unless another one is being recorded by now."""
        if recording is self._recording:
            self.stop()

    def hurry(self) -> None:
        """End the bag, and complete it soon, even if messages that wait for the disk are lost."""
        self.stop()
        if self._recording is not None:
            self._recording.end(_LAST_WRITES)

    def close(self) -> None:
        """End the bag and wait until it is complete."""
        self.hurry()
        if self._recording is not None:
            self._recording.join(_CLOSING)

    def _topics(self) -> list[tuple[str, Any]]:
        with self._view.lock:
            results = [
                (f"{name}/{viewed.result.topic}", viewed.result.message_type)
                for name, viewed in self._view.nodes.items()
                if viewed.running and viewed.result is not None
            ]
        return [("image", Image), ("camera_info", CameraInfo), *results]

    def _subscribe(self, recording: BagRecording, topic: str, kind: Any) -> None:
        name = self._node.resolve_topic_name(topic)
        type_name = f"{kind.__module__.partition('.')[0]}/msg/{kind.__name__}"

        def keep(message: bytes) -> None:
            recording.put(name, type_name, self._node.get_clock().now().nanoseconds, message)
            if recording.progress().problem:  # the bag is full, or the disk: what is written is kept
                self._node.executor.create_task(lambda: self._end(recording))

        self._subscriptions.append(self._node.create_subscription(kind, topic, keep, _QOS, raw=True))


class MessageDefinitions:
    """Definitions of message types for a bag: those of ROS, and those of the packages that are installed."""

    def __init__(self) -> None:
        self._store: Any = None

    def __call__(self, kind: str) -> tuple[str, str]:
        """Return the text of a type with all types it refers to, and its hash. Raises BagError."""
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore

        if self._store is None:
            self._store = get_typestore(Stores.ROS2_JAZZY)
        store = self._store
        package = kind.partition("/")[0]
        if kind not in store.fielddefs:
            try:
                folder = get_package_share_path(package) / "msg"
            except PackageNotFoundError:
                raise BagError(f"there is no definition of {kind}") from None
            types: dict[str, Any] = {}
            for path in folder.glob("*.msg"):
                types |= get_types_from_msg(path.read_text(), f"{package}/msg/{path.stem}")
            store.register({name: fields for name, fields in types.items() if name not in store.fielddefs})
        return str(store.generate_msgdef(kind, ros_version=2)[0]), str(store.hash_rihs01(kind))
