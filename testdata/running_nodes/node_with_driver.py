"""A perception node with its own driver."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from testdata import ModelFolder
from testdata.running_nodes.ros_graph import Graph, NodeProcess


class NodeWithDriver:
    """A perception node with its own driver, shown one image after the other.

    golden: further models of the driver. executable: of the node, which publishes messages of the type `kind`
    on ~/`topic`. models: folder of the models of node and driver. parameters: of the node.
    """

    def __init__(
        self,
        graph: Graph,
        start_node: Callable[..., NodeProcess],
        golden: ModelFolder,
        executable: str,
        kind: Any,
        topic: str,
        *,
        name: str,
        backend: str,
        models: Path,
        **parameters: Any,
    ) -> None:
        from sensor_msgs.msg import Image

        self._graph, self._start_node, self._name = graph, start_node, name
        self._backend, self._model_dirs = backend, [str(models), str(golden.path)]
        self._second = 100_000
        self.start_driver()
        self.results: list[Any] = graph.collect(kind, f"/{name}/{topic}")
        self._images = graph.node.create_publisher(Image, f"/{name}_camera", 10)
        self._executable = executable
        self._parameters = {"driver": f"{name}_driver", "model_dir": models} | parameters
        self.start_node_process()
        graph.spin_until(lambda: self._images.get_subscription_count() == 1)

    def start_node_process(self, **parameters: Any) -> None:
        """Start the perception node, or restart it after a kill, with these changes of its parameters."""
        self.process = self._start_node(
            "edgetpu_perception",
            self._executable,
            *("-r", f"__node:={self._name}", "-r", f"image:=/{self._name}_camera"),
            **self._parameters | parameters,
        )

    def start_driver(self) -> None:
        """Start the driver, or restart it after it was killed."""
        self.driver = self._start_node(
            "edgetpu_driver",
            "edgetpu_node",
            *("-r", f"__node:={self._name}_driver"),
            backend=self._backend,
            model_dirs=self._model_dirs,
        )

    def call(self, kind: Any, service: str, **request: Any) -> Any:
        """Call a service of the node."""
        return self._graph.call(kind, f"/{self._name}/{service}", **request)

    def change(self, image_of: Callable[[int], Any], kind: Any, service: str, **request: Any) -> Any:
        """Call a service that changes the node's model on the driver; repeat it while the driver is too slow.

        On a busy computer the driver may not answer for 2 s. Then the service is refused until the node has
        loaded the model again and works on images again.
        """
        answer = self.call(kind, service, **request)
        while self.is_late(answer):
            self.look(image_of)
            answer = self.call(kind, service, **request)
        return answer

    @staticmethod
    def is_late(answer: Any) -> bool:
        """Whether a change was not made because the driver did not begin or answer in time."""
        return answer.error.value in (answer.error.UNAVAILABLE, answer.error.EXPIRED)

    def call_at_once(self, kind: Any, service: str, requests: list[dict[str, Any]]) -> list[Any]:
        """Send several requests to a service of the node before it answers the first."""
        return self._graph.call_at_once(kind, f"/{self._name}/{service}", requests)

    def look(self, image_of: Callable[[int], Any]) -> Any:
        """The result for the next image that the node processes; `image_of` makes images for a stamp, s."""
        first = self._second = self._second + 1

        def answers() -> list[Any]:
            return [result for result in self.results if result.header.stamp.sec >= first]

        def answered() -> bool:
            self._second += 1
            self._images.publish(image_of(self._second))
            self._graph.spin_for(0.05, lambda: bool(answers()))
            return bool(answers())

        self._graph.spin_until(answered)
        return answers()[0]

    @contextlib.contextmanager
    def watching(self, image_of: Callable[[int], Any]) -> Iterator[None]:
        """Show images to the node from another thread; `results` has only the results of these images."""
        stop = threading.Event()

        def publish() -> None:
            while not stop.wait(0.005):
                self._second += 1
                self._images.publish(image_of(self._second))

        self.results.clear()
        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            yield
        finally:
            stop.set()
            publisher.join()

    def next_result(self) -> Any:
        """The first result of an image that is shown after this call; only within watching()."""
        shown = self._second

        def answers() -> list[Any]:
            return [result for result in self.results if result.header.stamp.sec > shown]

        self._graph.spin_until(lambda: bool(answers()))
        return answers()[0]
