"""The launch file brings the suite up and takes it down."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

launch_pytest = pytest.importorskip(
    "launch_pytest", reason="launch_pytest is not installed: it comes with a ROS 2"
)

import rclpy  # noqa: E402
from launch import LaunchDescription  # noqa: E402
from launch.actions import IncludeLaunchDescription  # noqa: E402
from launch.launch_description_sources import PythonLaunchDescriptionSource  # noqa: E402
from launch_pytest.actions import ReadyToTest  # noqa: E402
from rclpy.node import Node  # noqa: E402

from edgetpu_msgs.srv import ListModels  # noqa: E402

BRINGUP = Path(__file__).parents[1] / "launch" / "bringup.launch.py"


def bringup(**arguments: str) -> LaunchDescription:
    source = PythonLaunchDescriptionSource(str(BRINGUP))
    include = IncludeLaunchDescription(source, launch_arguments=list(arguments.items()))
    return LaunchDescription([include, ReadyToTest()])


@pytest.fixture(autouse=True)
def _own_home(
    ros_domain: int,  # noqa: ARG001 - not the domain of whoever runs the tests
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROS_HOME", str(tmp_path_factory.mktemp("ros_home")))


@pytest.fixture
def node() -> Iterator[Node]:
    rclpy.init()
    node = rclpy.create_node("launch_test")
    yield node
    node.destroy_node()
    rclpy.shutdown()


def wait_for_node(node: Node, name: str, namespace: str) -> None:
    deadline = time.monotonic() + 20.0
    while (name, namespace) not in node.get_node_names_and_namespaces():
        assert time.monotonic() < deadline, f"no {namespace}/{name}"
        time.sleep(0.1)


def loaded_models(node: Node, service: str) -> list[str]:
    """Names of the loaded models, as soon as there is one."""
    client = node.create_client(ListModels, service)
    assert client.wait_for_service(timeout_sec=20.0), f"no {service}"
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        future = client.call_async(ListModels.Request())
        rclpy.spin_until_future_complete(node, future, timeout_sec=5.0)
        models = [model.name for model in future.result().models] if future.done() else []
        if models:
            return models
        time.sleep(0.1)
    return []


@launch_pytest.fixture
def one_process_each() -> LaunchDescription:
    return bringup(backend="virtual", nodes="spot_tracker")


@pytest.mark.launch(fixture=one_process_each)
def test_driver_and_spot_tracker_come_up(node: Node) -> None:
    assert loaded_models(node, "/edgetpu/list_models") == ["spot_bright_64x64"]
    wait_for_node(node, "spot_tracker", "/")


@launch_pytest.fixture
def single_process() -> LaunchDescription:
    return bringup(backend="cpu", nodes="spot_tracker", single_process="true", namespace="robot")


@pytest.mark.launch(fixture=single_process)
def test_single_process_in_a_namespace(node: Node) -> None:
    assert loaded_models(node, "/robot/edgetpu/list_models") == ["spot_bright_64x64"]
    wait_for_node(node, "spot_tracker", "/robot")


@launch_pytest.fixture
def matrix_nodes() -> LaunchDescription:
    return bringup(backend="virtual", nodes="reservoir,place_recognition,spectrum")


@pytest.mark.launch(fixture=matrix_nodes)
def test_matrix_nodes_come_up(node: Node) -> None:
    for name in ("reservoir", "place_recognition", "spectrum"):
        wait_for_node(node, name, "/")
    models = loaded_models(node, "/edgetpu/list_models")
    assert {name.partition("/")[2] for name in models} == {"dense_256/0"}


@launch_pytest.fixture
def matrix_nodes_in_a_single_process() -> LaunchDescription:
    return bringup(backend="cpu", nodes="reservoir,spectrum", single_process="true")


@pytest.mark.launch(fixture=matrix_nodes_in_a_single_process)
def test_matrix_nodes_in_a_single_process(node: Node) -> None:
    for name in ("reservoir", "spectrum"):
        wait_for_node(node, name, "/")
    assert loaded_models(node, "/edgetpu/list_models")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nodes:=spot_tracker,compass"], "nodes: expected each of "),
        (["nodes:=spot_tracker,spot_tracker"], "nodes: expected each of "),
        (["params_file:=nowhere.yaml"], "params_file: expected a file; there is no 'nowhere.yaml'"),
        (["backend:=gpu"], 'Argument "backend" provided value "gpu" is not valid'),
    ],
)
def test_a_bad_argument_is_refused_before_anything_starts(arguments: list[str], reason: str) -> None:
    command = ["ros2", "launch", str(BRINGUP), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert reason in done.stdout + done.stderr
    assert "process started" not in done.stdout + done.stderr
