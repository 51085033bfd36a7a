"""What the nodes of this package share: a matrix on the driver, messages of any type in, diagnostics out."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from numpy.typing import NDArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from std_msgs.msg import Header

from edgetpu_driver.errors import EdgeTpuError, InputError
from edgetpu_driver.matrix.scaling import OUTPUT_HEADROOM
from edgetpu_driver.node_kit.error_codes import code_of
from edgetpu_driver.node_kit.parameters import Setting, declare
from edgetpu_matrix.nodes import matrix_parameters as matrix_settings
from edgetpu_matrix.nodes.matrix_client import MatrixClient
from edgetpu_matrix.nodes.signal_messages import SignalReader, message_type

DIAGNOSTICS_PERIOD = 1.0
"""Seconds; REP-107 asks for 1 Hz."""

QOS_RESULTS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)

_HAS_MESSAGE_INFO = hasattr(Subscription, "CallbackType")  # not in Humble

_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass
class Counters:
    """What became of the messages since the node started."""

    messages: int = 0
    """Came in."""
    results: int = 0
    """Were published."""
    dropped: int = 0
    """Gave way to newer ones while the node was busy or the driver was not there."""
    malformed: int = 0
    """Held something else than what was expected."""
    failed: int = 0
    """Got no answer from the driver, or an error."""


class MatrixNode(Node):
    """One algorithm over a matrix on the driver, as a node; everything happens in the executor's thread.

    A subclass makes its algorithm and its interfaces (`make`), and works on when `client` has become ready
    (`on_ready`).
    """

    files = ""
    """What the files are of that the node keeps; they are in a directory of this name by default."""

    def __init__(self, name: str, settings: Sequence[Setting] = (), **options: Any) -> None:
        super().__init__(name, **options)
        self.client: MatrixClient | None = None
        self.counters, self._reported = Counters(), Counters()
        self._kinds_reported: set[str] = set()
        self._ending = False
        self.published_at = 0
        """Time at which the message being handled was published, ns; 0 if the middleware does not tell."""
        try:
            own = {setting.name for setting in settings}
            common = (setting for setting in matrix_settings.SETTINGS if setting.name not in own)
            self.values = declare(self, (*common, *settings), self.on_parameter)
            self.make()
            self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 1)
            # Whether messages come is a matter of real time, also when the graph runs on simulated time.
            steady = Clock(clock_type=ClockType.STEADY_TIME)
            self.create_timer(DIAGNOSTICS_PERIOD, self._publish_diagnostics, clock=steady)
        except BaseException:
            self.destroy_node()
            raise

    @abstractmethod
    def make(self) -> None:
        """Make the algorithm, the publishers, services and subscriptions, and the client."""

    @abstractmethod
    def on_ready(self) -> None:
        """Work on: the matrix is in force on the driver, for the first time or again."""

    def on_parameter(self, name: str, value: Any) -> None:
        """Take the new value of a parameter that is not read-only."""
        self.values[name] = value

    def destroy_node(self) -> None:
        """End the request under way and leave the graph."""
        self._ending = True
        if self.client is not None:
            self.client.close()
        super().destroy_node()

    def make_client(self, headroom: float = OUTPUT_HEADROOM) -> MatrixClient:
        """Give the matrix a place on the driver; the model's own weights stay as they are."""
        model = self.values["model"]
        matrix_settings.provide_model(model, self.values["model_dir"])
        return MatrixClient(
            self,
            model,
            name=f"{self.get_fully_qualified_name().lstrip('/')}/{Path(model).stem}",
            driver=self.values["driver"],
            headroom=headroom,
            rescale_rows=self.values["rescale_rows"],
            passes=self.values["passes"],
            on_ready=self.on_ready,
        )

    def subscribe(
        self, topic: str, values: Callable[[Header, NDArray[Any]], None], prefix: str = "input"
    ) -> SignalReader:
        """Subscribe to the numbers in messages of the type and with the fields that the parameters name."""
        kind = message_type(self.values[f"{prefix}_type"])
        reader = SignalReader(kind, self.values[f"{prefix}_fields"], self.values.get(f"{prefix}_format", ""))
        counts = prefix == "input"

        def on_message(message: Any, published_at: int = 0) -> None:
            self.counters.messages += counts
            self.published_at = published_at
            try:
                values(reader.header(message, self.get_clock()), reader.values(message))
            except ValueError as error:  # InputError is one
                self.on_malformed(topic, str(error))

        reliability = ReliabilityPolicy[self.values["qos_reliability"].upper()]
        qos = QoSProfile(depth=self.values["qos_depth"], reliability=reliability)

        def with_info(message: Any, info: Any) -> None:
            on_message(message, info["source_timestamp"])

        self.create_subscription(kind, topic, with_info if _HAS_MESSAGE_INFO else on_message, qos)
        return reader

    def on_malformed(self, topic: str, reason: str) -> None:
        """Count a message that holds something else than expected; say so once for every reason."""
        self.counters.malformed += 1
        # Numbers in the reason are those of one message.
        kind = re.sub(r"[\d.]+", "#", reason)
        if kind not in self._kinds_reported:
            self._kinds_reported.add(kind)
            self.get_logger().warning(
                f"message on {self.resolve_topic_name(topic)} skipped: {reason}. "
                "Further ones of this kind are only counted, in /diagnostics."
            )

    def on_failure(self, error: EdgeTpuError) -> None:
        """Count a request that the driver refused or did not answer."""
        self.counters.failed += 1
        if not self._ending:
            self.get_logger().warning(f"no product: {error}", throttle_duration_sec=5.0)

    def file(self, name: str) -> Path:
        """Where a file of that name is kept, in the directory of the parameter; InputError for a bad name."""
        if not _FILE_NAME.fullmatch(name):
            raise InputError(
                f"expected the name of a file, 1 to 100 letters, digits, _ and -; got {name[:100]!r}"
            )
        return matrix_settings.directory(self.values["directory"], self.files) / f"{name}.npz"

    def problems(self) -> list[str]:
        """Say what else keeps this node from its results, a line each, for its diagnostics."""
        return []

    def _publish_diagnostics(self) -> None:
        now, before = self.counters, self._reported
        lines = [self.client.problem] if self.client is not None and self.client.problem else []
        lines += self.problems()
        if now.messages == before.messages:
            lines.append("no messages")
        for name in ("malformed", "failed", "dropped"):
            count = getattr(now, name) - getattr(before, name)
            if count:
                lines.append(f"{count} {name}")
        self._reported = replace(now)
        status = DiagnosticStatus(
            level=DiagnosticStatus.WARN if lines else DiagnosticStatus.OK,
            name=f"{self.get_fully_qualified_name().lstrip('/')}: messages",
            message="; ".join(lines) or "ok",
            values=[KeyValue(key=key, value=str(value)) for key, value in vars(now).items()],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)


def answer(response: Any, error: Exception | None, message: str = "") -> Any:
    """Fill in how a service call ended."""
    response.success, response.message = error is None, str(error or message)
    if error is not None:
        response.error = code_of(error if isinstance(error, EdgeTpuError) else InputError(str(error)))
    return response
