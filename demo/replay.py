"""Plays the images of a bag into the running graph and collects the results of the nodes."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.srv import GetParameters
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CameraInfo, Image

from demo.bag.frames import PICTURES, evenly_spaced
from demo.bag.image_bag import ImageTopic, Record
from demo.errors import GraphError
from demo.nodes import DemoNode
from demo.report.debug_frames import DebugFrames
from demo.report.results import Collector, NodeResults
from edgetpu_driver.node_kit.executor.executor import make_executor
from edgetpu_driver.node_kit.executor.held_interrupts import held_interrupts
from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of
from edgetpu_driver.node_kit.messages.message_types import message_type
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_LATCHED
from edgetpu_driver.node_kit.node_table import DRIVER
from edgetpu_msgs.msg import DeviceStatus

DEBUG_TOPIC = "debug_image"
"""Topic of a node's debug images, below its name."""
RELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
TICK = 0.05
"""Seconds between two checks of the processes while no message arrives. Uncritical."""
SETTLE = 10.0
"""Longest time, s, that the first camera_info may take to every node before its image is published.
Uncritical: it is published sooner if all nodes are connected."""
MOST_LOST = 3
"""Number of images in a row without a result after which the replay gives up. Uncritical."""
# In the diagnostics of a perception node: messages when only images are missing, and counters of images
# without a result.
IDLE = {"ok", "no images"}
WITHOUT_RESULT = {"malformed", "failed", "dropped"}


@dataclass
class _Node:
    """The results and the diagnostics of a perception node."""

    collector: Collector
    parameters: Any = None
    """Client of the node's parameters."""
    answer: Any = None
    """Future of the request to that client."""
    diagnosis: str = "no sign of it yet"
    needs_user: bool = False
    """Whether the node reports an error, which remains until the user changes something."""
    malformed: int = 0
    fault: str = ""
    """What the node said when it last counted malformed images."""
    without_result: int = 0

    @property
    def ready(self) -> bool:
        """Whether the node waits for images only."""
        return set(self.diagnosis.split("; ")) <= IDLE

    def has_matched(self) -> bool:
        """Whether the node will receive messages that are published from now on.

        A subscription may be discovered here before the node has discovered the publisher, and messages in
        between are lost. The middleware announces the entities of a participant in order, and the client of
        this request was created after the publisher: a node that answers knows both.
        """
        if self.answer is None and self.parameters.service_is_ready():
            self.answer = self.parameters.call_async(GetParameters.Request())
        return self.answer is not None and bool(self.answer.done())

    def hear(self, status: DiagnosticStatus) -> None:
        """Store a diagnostics message of the node."""
        self.diagnosis = status.message
        self.needs_user = status.level == DiagnosticStatus.ERROR
        counters = {item.key: int(item.value) for item in status.values if item.key in WITHOUT_RESULT}
        before, self.malformed = self.malformed, counters.get("malformed", 0)
        if self.malformed > before:
            self.fault = status.message
        self.without_result = sum(counters.values())


class Replay:
    """A ROS node that publishes the images and subscribes to the results; a context manager.

    `check` is called several times a second; an exception from it ends the replay.
    """

    def __init__(self, nodes: Sequence[DemoNode], topic: ImageTopic, check: Callable[[], None]) -> None:
        self._specs = nodes
        self._topic = topic
        self._check = check
        self._nodes = {node.name: _Node(Collector(node.name, node.topic)) for node in nodes}
        self._driver = DeviceStatus(message="no sign of it yet")
        self._unreadable = 0
        """Number of images of the bag that could not be published."""
        self._lost = 0
        """Number of images in a row without an answer."""
        self.debug_frames = DebugFrames(evenly_spaced(topic.count, PICTURES))
        self._calibrated = False

    def __enter__(self) -> Replay:
        try:
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
            self._ros = rclpy.create_node("edgetpu_demo")
        except RuntimeError as error:  # rcl reports an impossible ROS_DOMAIN_ID or missing middleware so
            raise GraphError(f"ROS does not start: {' '.join(str(error).split())}") from error
        self._executor = make_executor()
        self._executor.add_node(self._ros)
        for spec in self._specs:
            self._listen(spec)
        self._ros.create_subscription(DeviceStatus, f"/{DRIVER}/status", self._on_driver, QOS_LATCHED)
        image_type = message_type(self._topic.type)
        self._images = self._ros.create_publisher(image_type, self._topic.published, RELIABLE)
        self._infos = (
            self._ros.create_publisher(CameraInfo, self._topic.camera_info, RELIABLE)
            if self._topic.camera_info
            else None
        )
        # Created after the publishers, see has_matched.
        for name, node in self._nodes.items():
            node.parameters = self._ros.create_client(GetParameters, f"/{name}/get_parameters")
        # Last, since discovery is in order: a node whose message arrives knows the subscriptions above.
        self._ros.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, RELIABLE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown()
        self._ros.destroy_node()
        rclpy.try_shutdown()

    def wait_until_ready(self, timeout: float, say: Callable[[str], None]) -> None:
        """Wait for the driver and the nodes, and pass to `say` what is still missing.

        Raises:
            GraphError: something is still missing after `timeout` s, or a node reports an error.
        """
        deadline = time.monotonic() + timeout
        told = ""
        while missing := self._missing():
            if time.monotonic() > deadline:
                raise GraphError(f"not ready after {timeout:g} s: {missing}")
            for name, node in self._nodes.items():
                if node.needs_user:
                    raise GraphError(f"{name} cannot start: {node.diagnosis}")
            if missing != told:
                told = missing
                say(missing)
            self._spin_until(time.monotonic() + TICK)

    def play(
        self,
        records: Iterable[Record],
        *,
        rate: float | None,
        timeout: float,
        progress: Callable[[], None],
    ) -> dict[str, NodeResults]:
        """Publish every image with its own stamp; return the results by node.

        Args:
            records: images and camera infos of the bag.
            rate: factor on the recorded speed; None: the next image as soon as every node has answered.
            timeout: time after which an image without a result counts as lost, s.
            progress: called after each image.
        """
        began, first_ns = 0.0, None
        for record in records:
            if rate is not None and first_ns is not None:
                self._spin_until(began + (record.time_ns - first_ns) * 1e-9 / rate)
            if record.topic == self._topic.name:
                if first_ns is None:
                    began, first_ns = time.monotonic(), record.time_ns
                self._show(record, timeout if rate is None else 0.0)
                progress()
            else:
                self._calibrate(record)
        if rate is not None:
            self._spin_until(time.monotonic() + timeout, self._settled)
        return {
            name: node.collector.results(self._unreadable + node.malformed, node.fault)
            for name, node in self._nodes.items()
        }

    def _show(self, record: Record, timeout: float) -> None:
        """Publish an image and wait until every node has processed it."""
        image = _message(record)
        nodes = self._nodes.values()
        before = [node.without_result for node in nodes]
        number = 0
        for node in nodes:
            number = node.collector.sent(record.stamp_ns, time.perf_counter())
        if image is None:
            self._unreadable += 1
            return
        debug_wanted = self.debug_frames.shown(number, record.stamp_ns)

        def silent() -> list[_Node]:
            return [
                node
                for node, count in zip(nodes, before, strict=True)
                if not node.collector.answered(number) and node.without_result == count
            ]

        self._images.publish(image)
        self._spin_until(time.monotonic() + timeout, lambda: not silent())
        if timeout:
            self._note_lost(silent())
            if debug_wanted:
                answering = [node for node in nodes if node not in silent()]
                self._wait_for_debug_images(number, answering, timeout)

    def _wait_for_debug_images(self, number: int, nodes: Sequence[_Node], timeout: float) -> None:
        """Wait for the debug images of an image from the nodes that publish debug images."""
        names = [node.collector.name for node in nodes]
        publishing = [name for name in names if self._ros.count_publishers(f"/{name}/{DEBUG_TOPIC}")]
        self._spin_until(
            time.monotonic() + timeout,
            lambda: all(self.debug_frames.has(name, number) for name in publishing),
        )

    def _note_lost(self, silent: Sequence[_Node]) -> None:
        self._lost = self._lost + 1 if silent else 0
        if self._lost == MOST_LOST:
            node = silent[0]
            raise GraphError(
                f"{node.collector.name} did not answer {MOST_LOST} images in a row; it says: {node.diagnosis}"
            )

    def _calibrate(self, record: Record) -> None:
        """Publish a camera_info; wait after the first one, so that it arrives before the next image."""
        info = _message(record)
        if info is None or self._infos is None:
            return
        self._infos.publish(info)
        if not self._calibrated:
            self._calibrated = True
            nodes = self._nodes.values()
            for node in nodes:
                node.answer = None  # who answers a request after a message has most probably received that
            self._spin_until(time.monotonic() + SETTLE, lambda: all(node.has_matched() for node in nodes))

    def _settled(self) -> bool:
        return all(
            node.collector.missing <= self._unreadable + node.without_result for node in self._nodes.values()
        )

    def _spin_until(self, deadline: float, done: Callable[[], bool] = lambda: False) -> None:
        """Process messages until `done()` is true or until the deadline, a time of time.monotonic()."""
        left = math.inf
        while left > 0 and not done():
            left = deadline - time.monotonic()
            with held_interrupts():
                self._executor.spin_once(timeout_sec=max(0.0, min(left, TICK)))
            self._check()

    def _missing(self) -> str:
        """A text that says what is missing in the graph; empty if it is complete."""
        if self._driver.state != DeviceStatus.READY:
            return f"waiting for {DRIVER}: {self._driver.message or 'it is starting'}"
        if self._images.get_subscription_count() < len(self._nodes):
            return f"waiting for a subscriber of {self._topic.published}"
        for name, node in self._nodes.items():
            if not node.ready:
                return f"waiting for {name}: {node.diagnosis}"
            if not node.has_matched():
                return f"waiting for {name} to answer a request"
        return ""

    def _listen(self, spec: DemoNode) -> None:
        collector = self._nodes[spec.name].collector

        def received(message: Any) -> None:
            now = time.perf_counter()
            values = spec.results.numbers(message)
            collector.received(nanoseconds_of(message.header.stamp), values, now)

        self._ros.create_subscription(spec.results.message_type, spec.topic, received, RELIABLE)
        self._ros.create_subscription(
            Image,
            f"/{spec.name}/{DEBUG_TOPIC}",
            functools.partial(self.debug_frames.received, spec.name),
            RELIABLE,
        )

    def _on_driver(self, message: DeviceStatus) -> None:
        self._driver = message

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            node = self._nodes.get(status.name.partition(":")[0])
            if node:
                node.hear(status)


def _message(record: Record) -> Any:
    """Deserialise a record; None if its bytes are not a message of its type."""
    try:
        return deserialize_message(record.cdr, message_type(record.type))
    except RuntimeError:  # an RMWError
        return None
