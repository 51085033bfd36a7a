"""Fixtures of the system tests: real nodes in processes of their own, on a ROS domain of this session."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demo.processes import domain_in_use
from testdata import ModelFolder
from testdata.node_forker import NodeForker

STOP_SECONDS = 5.0
"""Seconds after SIGINT until `ros2 launch` sends SIGTERM."""
PATIENCE = 60.0
"""Seconds until a condition that does not come true is an error, on a busy machine."""
RESEND_SECONDS = 0.25


class NodeProcess:
    """A node started as `ros2 run` would, but forked; everything it prints is kept."""

    def __init__(self, forker: NodeForker, package: str, executable: str, arguments: list[str]) -> None:
        from ament_index_python.packages import get_package_prefix

        path = Path(get_package_prefix(package)) / "lib" / package / executable
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long-lived as the process
        assert path.is_file()
        self._process = forker.start([str(path), *arguments], self._log)

    @property
    def output(self) -> str:
        # The node writes at the same offset: a seek would let it write over what it has printed.
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def wait(self) -> int:
        """Wait for the process to end by itself; its exit status."""
        try:
            return self._process.wait(PATIENCE)
        except TimeoutError:
            self._process.print_stacks()
            time.sleep(1.0)
            pytest.fail(f"the node did not end within {PATIENCE:g} s:\n{self.output}")

    def stop(self, number: int = signal.SIGINT) -> None:
        """Ask it to stop and assert that it does, in time, with status 0 and no complaint."""
        start = time.monotonic()
        self._process.send_signal(number)
        status = self.wait()
        seconds = time.monotonic() - start
        assert status == 0, self.output
        assert "Traceback" not in self.output
        assert "Exception" not in self.output
        assert seconds < STOP_SECONDS

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait(PATIENCE)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None


class Graph:
    """The test's own node in the ROS graph."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        rclpy.init()
        self.node = rclpy.create_node("tester")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}

    def close(self) -> None:
        import rclpy

        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown()

    def add_node(self, node: Any) -> None:
        self._executor.add_node(node)

    def remove_node(self, node: Any) -> None:
        self._executor.remove_node(node)

    def spin_until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Run callbacks until the condition holds; fails when it does not in time."""
        from testdata.spinning_node import spin_until

        spin_until(condition, lambda: self._executor.spin_once(timeout_sec=0.05), seconds)

    def spin_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._executor.spin_once(timeout_sec=0.01)

    def call(self, kind: Any, service: str, **fields: Any) -> Any:
        """Call a service ~/x of a node once it is there; the response."""
        (response,) = self.call_at_once(kind, service, [fields])
        return response

    def call_at_once(self, kind: Any, service: str, requests: list[dict[str, Any]]) -> list[Any]:
        """Send requests, at most 10 (the depth of the queue), without waiting in between; the responses."""
        client = self._clients.get(service)
        if client is None:
            client = self._clients[service] = self.node.create_client(kind, service)
        self.meet(service.rpartition("/")[0])
        self.spin_until(client.service_is_ready)
        futures = [client.call_async(kind.Request(**fields)) for fields in requests]
        self.spin_until(lambda: all(future.done() for future in futures))
        return [future.result() for future in futures]

    def meet(self, node: str) -> None:
        """Wait until a node knows all subscriptions and clients that were made here so far.

        What it publishes and answers before is lost (ros2/rmw_fastrtps issue 842). It gets to know them in
        the order in which they were made, and so the newest of them last: the client that is made here.
        """
        from rcl_interfaces.srv import GetParameters

        client = self.node.create_client(GetParameters, f"{node}/get_parameters")
        futures: list[Any] = []
        resend_at = 0.0

        def answered() -> bool:
            nonlocal resend_at
            if client.service_is_ready() and time.monotonic() > resend_at:
                futures.append(client.call_async(GetParameters.Request()))
                resend_at = time.monotonic() + RESEND_SECONDS
            return any(future.done() for future in futures)

        self.spin_until(answered)
        self.node.destroy_client(client)

    def await_device(self, driver: str = "/edgetpu") -> None:
        """Wait until a driver says that its device is ready. Before, models load but requests fail."""
        from rclpy.qos import DurabilityPolicy, QoSProfile

        from edgetpu_msgs.msg import DeviceStatus

        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        states: list[int] = []
        subscription = self.node.create_subscription(
            DeviceStatus, f"{driver}/status", lambda status: states.append(status.state), latched
        )
        self.spin_until(lambda: DeviceStatus.READY in states)
        self.node.destroy_subscription(subscription)

    def collect(self, kind: Any, topic: str, qos: Any = 10) -> list[Any]:
        """Subscribe; the list fills while the graph spins."""
        messages: list[Any] = []
        self.node.create_subscription(kind, topic, messages.append, qos)
        return messages


class EyeBesideDriver:
    """A perception node beside a driver of its own, shown one image after the other.

    golden: models that the driver has, too. executable: the node's; it publishes messages of the type `kind`
    on ~/`topic`. models: where it and the driver have their models. parameters: of the node.
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
        self.start_eye()
        graph.spin_until(lambda: self._images.get_subscription_count() == 1)

    def start_eye(self, **parameters: Any) -> None:
        """Start the perception node, or start it anew after it was killed, with these changes."""
        self.eye = self._start_node(
            "edgetpu_perception",
            self._executable,
            *("-r", f"__node:={self._name}", "-r", f"image:=/{self._name}_camera"),
            **self._parameters | parameters,
        )

    def start_driver(self) -> None:
        """Start the driver, or start it anew after it was killed."""
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

    def call_at_once(self, kind: Any, service: str, requests: list[dict[str, Any]]) -> list[Any]:
        """Send several requests to a service of the node before it answers the first."""
        return self._graph.call_at_once(kind, f"/{self._name}/{service}", requests)

    def look(self, image_of: Callable[[int], Any]) -> Any:
        """What comes of the next image that the node works on; `image_of` makes it for a stamp, s."""
        first = self._second = self._second + 1

        def answered() -> bool:
            self._second += 1
            self._images.publish(image_of(self._second))
            self._graph.spin_for(0.05)
            return any(result.header.stamp.sec >= first for result in self.results)

        self._graph.spin_until(answered)
        return next(result for result in self.results if result.header.stamp.sec >= first)

    @contextlib.contextmanager
    def watching(self, image_of: Callable[[int], Any]) -> Iterator[None]:
        """Show it images from another thread; `results` are theirs only."""
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
        """While it is watching: the first result of an image that is shown after this call."""
        shown = self._second

        def answers() -> list[Any]:
            return [result for result in self.results if result.header.stamp.sec > shown]

        self._graph.spin_until(lambda: bool(answers()))
        return answers()[0]


@pytest.fixture(scope="session")
def ros_domain() -> Iterator[int]:
    """A ROS domain that no other test session on this machine uses, on this machine only."""
    pytest.importorskip("rclpy", reason="needs ROS 2")
    pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
    for domain in range(1, 101):
        try:
            lock = open(Path(tempfile.gettempdir()) / f"edgetpu_test_domain_{domain}", "w")  # noqa: SIM115
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # somebody else's
        if domain_in_use(domain):
            lock.close()
            continue
        os.environ["ROS_DOMAIN_ID"] = str(domain)
        os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
        yield domain
        lock.close()
        return
    pytest.fail("all ROS domains are taken by other test sessions")


@pytest.fixture(scope="session")
def node_forker() -> Iterator[NodeForker]:
    """Makes the processes of nodes."""
    forker = NodeForker()
    yield forker
    forker.close()


@pytest.fixture(scope="module")
def start_node(
    ros_domain: int,  # noqa: ARG001
    node_forker: NodeForker,
) -> Iterator[Callable[..., NodeProcess]]:
    """Start node processes with `start(package, executable, *arguments, parameter=value)`.

    None outlives the module.
    """
    processes: list[NodeProcess] = []

    def start(package: str, executable: str, *arguments: str, **parameters: Any) -> NodeProcess:
        ros = [part for name, value in parameters.items() for part in ("-p", f"{name}:={value}")]
        process = NodeProcess(node_forker, package, executable, ["--ros-args", *ros, *arguments])
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.running:
            process.kill()


@pytest.fixture(scope="module")
def graph(ros_domain: int) -> Iterator[Graph]:  # noqa: ARG001
    """The test's own node, for the tests of one module."""
    graph = Graph()
    yield graph
    graph.close()


@pytest.fixture(scope="module")
def eye_beside_driver(
    graph: Graph, start_node: Callable[..., NodeProcess], golden: ModelFolder
) -> Callable[..., EyeBesideDriver]:
    """Starts a perception node beside a driver of its own; see EyeBesideDriver for what it takes."""
    return functools.partial(EyeBesideDriver, graph, start_node, golden)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one small model, sums.tflite: int8[1, 4] in, its first element and its sum out."""
    from edgetpu_driver.tflite.graph_builder import GraphBuilder

    builder = GraphBuilder("first element and sum")
    numbers = builder.input("numbers", (1, 4), np.int8, scale=0.5, zero_point=0)
    weights = np.array([[1, 0, 0, 0], [1, 1, 1, 1]], np.int8)
    builder.output(
        builder.fully_connected(numbers, weights, weight_scale=1.0, scale=0.5, zero_point=3, name="sums")
    )
    directory = tmp_path_factory.mktemp("models")
    (directory / "sums.tflite").write_bytes(builder.build())
    return directory
