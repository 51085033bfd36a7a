"""Fixtures of the system tests: real nodes in processes of their own, on a ROS domain of this session."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demo.processes import reserve_domain
from fuzz.interleavings.host_on_fake_sticks import Stage
from fuzz.interleavings.scenario import write_files
from testdata import ModelFolder
from testdata.demo_process import DemoProcess
from testdata.running_nodes.node_forker import NodeForker
from testdata.running_nodes.node_with_driver import NodeWithDriver
from testdata.running_nodes.ros_graph import Graph, NodeProcess
from testdata.timeouts import PATIENCE


@pytest.fixture(scope="session")
def ros_domain() -> Iterator[int]:
    """A ROS domain that no other test session on this machine uses, on this machine only."""
    pytest.importorskip("rclpy", reason="needs ROS 2")
    pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
    for domain in range(1, 101):
        if reserve_domain(domain):
            os.environ["ROS_DOMAIN_ID"] = str(domain)
            os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
            yield domain
            return
    pytest.fail("all ROS domains are taken by other test sessions")


@pytest.fixture(scope="session")
def node_forker() -> Iterator[NodeForker]:
    """Makes the processes of nodes."""
    forker = NodeForker()
    yield forker
    forker.close()


@pytest.fixture(scope="session")
def dashboard_forker() -> Iterator[NodeForker]:
    """Makes the processes of dashboards."""
    modules = ("edgetpu_dashboard.nodes.dashboard_node", "edgetpu_dashboard.web.server")
    forker = NodeForker("testdata.running_nodes.live_tools", *modules)
    yield forker
    forker.close()


@pytest.fixture(scope="module")
def start_demo() -> Iterator[Callable[..., DemoProcess]]:
    """Start the demo with `start(*arguments)`."""
    forker = NodeForker("demo.run")
    yield functools.partial(DemoProcess, forker)
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


@pytest.fixture
def start_briefly(start_node: Callable[..., NodeProcess]) -> Iterator[Callable[..., NodeProcess]]:
    """Start node processes as `start_node` does; they stop when the test ends.

    Otherwise a test at the end of its module shares the processor with the nodes of all those before it.
    """
    processes: list[NodeProcess] = []

    def start(*arguments: str, **parameters: Any) -> NodeProcess:
        processes.append(start_node(*arguments, **parameters))
        return processes[-1]

    yield start
    for process in processes:
        process.end()


@pytest.fixture(scope="module")
def graph(start_node: Callable[..., NodeProcess]) -> Iterator[Graph]:  # noqa: ARG001 - to close before it
    """The test's own node, for the tests of one module.

    It leaves the graph before processes are killed: one that is killed while it sends to the test's shared
    memory leaves its lock held, and Fast DDS 2.14 crashes if it closes the memory before it has noticed.
    """
    graph = Graph()
    yield graph
    graph.close()


@pytest.fixture(scope="module")
def node_with_driver(
    graph: Graph, start_node: Callable[..., NodeProcess], golden: ModelFolder
) -> Callable[..., NodeWithDriver]:
    """Starts a perception node with its own driver; see NodeWithDriver for what it takes."""
    return functools.partial(NodeWithDriver, graph, start_node, golden)


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


@pytest.fixture
def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, requests of nodes in this process count as lost after PATIENCE only.

    While this process stands still, so does the driver in it: both would be late, and requests would fail.
    """
    from edgetpu_driver.node_kit.clients.model_client import ModelClient

    assert ModelClient.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(ModelClient.__init__.__kwdefaults__, "request_timeout", PATIENCE)


@pytest.fixture
def bench(ros_domain: int) -> Iterator[Any]:  # noqa: ARG001
    """A node in the executor that keeps its wait set; testdata.running_nodes.node_in_executor.Bench."""
    from testdata.running_nodes.node_in_executor import Bench

    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser for the pages of dashboards."""
    from testdata.running_nodes import dashboard_page

    with dashboard_page.empty_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def fake_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of models for fake sticks."""
    directory = tmp_path_factory.mktemp("models")
    write_files(directory)
    return directory


@pytest.fixture
def stage(fake_models: Path) -> Stage:
    """A host on fake sticks in a steady order of its threads."""
    return Stage(fake_models)


@pytest.fixture(scope="module")
def start_tracker(
    graph: Graph, start_node: Callable[..., NodeProcess], spot_models: Path
) -> Callable[..., Any]:
    """Starts spot tracker nodes; see `start_tracker` for what it takes."""
    from testdata.running_nodes.running_tracker import start_tracker

    return functools.partial(start_tracker, graph, start_node, spot_models)


@pytest.fixture(scope="module")
def spot_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory where trackers write their model and their driver finds it."""
    return tmp_path_factory.mktemp("spot_models")


@pytest.fixture(scope="module")
def spot_driver(
    start_node: Callable[..., NodeProcess], spot_models: Path, golden: ModelFolder
) -> NodeProcess:
    """A driver with the models of trackers, and the golden ones."""
    directories = [str(spot_models), str(golden.path)]
    return start_node("edgetpu_driver", "edgetpu_node", backend="cpu", model_dirs=directories)


@pytest.fixture(scope="module")
def matrix_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of matrix nodes and of their driver's models."""
    return tmp_path_factory.mktemp("matrix_home")
