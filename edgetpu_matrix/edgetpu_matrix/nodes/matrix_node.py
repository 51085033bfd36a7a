"""The base of all matrix nodes: a matrix on the driver, numbers from messages of any type, diagnostics."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray
from rclpy.subscription import Subscription
from std_msgs.msg import Header

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.matrix.scaling import OUTPUT_HEADROOM
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.clients.matrix_client import MatrixClient
from edgetpu_driver.node_kit.dense_graph_files import provide_model
from edgetpu_driver.node_kit.messages.message_types import message_type
from edgetpu_driver.node_kit.middleware.qos_profiles import subscription_qos
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.state_paths import named_file
from edgetpu_matrix.nodes.matrix_parameters import matrix_settings
from edgetpu_matrix.nodes.signal_fields import SignalReader

_LIST = re.compile(r"\[[^\]]*\]")
_NUMBER = re.compile(r"[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|\bnan\b|\binf\b)")
_HAS_MESSAGE_INFO = hasattr(Subscription, "CallbackType")  # not in Humble


class MatrixNode(BaseNode):
    """One algorithm over a matrix on the driver, as a node; everything happens in the executor's thread.

    A subclass calls `super().__init__(name)`, makes its algorithm, its interfaces and its `client` from
    `values`, and then calls `start_diagnostics`. `on_ready` is called when the client has become ready.
    """

    settings: ClassVar[tuple[Setting, ...]] = matrix_settings()

    files = ""
    """What the node's files contain; by default they are in a directory of this name."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.client: MatrixClient | None = None
        self._ending = False
        self.published_at = 0
        """Time at which the message being handled was published, ns; 0 if the middleware does not tell."""

    @abstractmethod
    def on_ready(self) -> None:
        """Continue: the matrix is set on the driver, for the first time or again."""

    def problems(self) -> list[str]:
        """Return what keeps this node from its results."""
        problem = self.client.problem if self.client is not None else ""
        return [problem] if problem else []

    def destroy_node(self) -> None:
        """Cancel the request under way and leave the graph."""
        self._ending = True
        if self.client is not None:
            self.client.close()
        super().destroy_node()

    def make_client(self, headroom: float = OUTPUT_HEADROOM) -> MatrixClient:
        """Make the client of a matrix on the driver; it uses copies of the model under names of their own."""
        model = self.values["model"]
        provide_model(model, self.values["model_dir"])
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
        self,
        topic: str,
        values: Callable[[Header, NDArray[Any]], None],
        prefix: str = "input",
        skips: Callable[[Any], bool] = lambda _: False,
    ) -> SignalReader:
        """Subscribe to the numbers in messages of the type and with the fields that the parameters name.

        prefix: of the parameters <prefix>_type, _fields and _format. skips: whether a message is counted and
        otherwise ignored.
        """
        kind = message_type(self.values[f"{prefix}_type"])
        reader = SignalReader(kind, self.values[f"{prefix}_fields"], self.values.get(f"{prefix}_format", ""))
        counts = prefix == "input"

        def on_message(message: Any, published_at: int = 0) -> None:
            self.counters.received += counts
            self.published_at = published_at
            if skips(message):
                return
            try:
                values(reader.header(message, self.get_clock()), reader.values(message))
            except ValueError as error:  # InputError is one
                self.on_malformed(topic, str(error))

        qos = subscription_qos(self.values)

        def with_info(message: Any, info: Any) -> None:
            on_message(message, info["source_timestamp"])

        self.create_subscription(kind, topic, with_info if _HAS_MESSAGE_INFO else on_message, qos)
        return reader

    def on_malformed(self, topic: str, reason: str) -> None:
        """Count a message with unexpected content; log it once for every reason."""
        what = f"message on {self.resolve_topic_name(topic)}"
        self.skip_malformed((topic, without_numbers(reason)), reason, what)

    def on_failure(self, error: EdgeTpuError) -> None:
        """Count a request that the driver refused or did not answer; log it."""
        self.counters.failed += 1
        if not self._ending:
            self.get_logger().warning(f"no product: {error}", throttle_duration_sec=5.0)

    def file(self, name: str) -> Path:
        """Path of a file of that name in the directory of the parameter; InputError for a bad name."""
        return named_file(self.values["directory"], self.files, name)


def without_numbers(reason: str) -> str:
    """A reason with # in place of its lists and numbers, which differ from message to message."""
    return _NUMBER.sub("#", _LIST.sub("#", reason))
