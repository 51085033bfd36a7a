"""The launch file brings the suite up and takes it down."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

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

from edgetpu_driver.node_kit.middleware.fast_dds_memory.fast_dds_port import SHARED_MEMORY  # noqa: E402
from edgetpu_driver.node_kit.middleware.profile_variables import PROFILE_VARIABLES  # noqa: E402
from edgetpu_msgs.srv import ListModels  # noqa: E402
from testdata.running_nodes.port_files import DEAD, OK, PortFiles  # noqa: E402
from testdata.timeouts import PATIENCE  # noqa: E402

pytestmark = pytest.mark.timeout(600)  # a busy machine makes minutes of half a minute

ENDPOINTS_FROM_PROFILE = "RMW_FASTRTPS_USE_QOS_FROM_XML"
BRINGUP = Path(__file__).parents[1] / "launch" / "bringup.launch.py"


def bringup(**arguments: str) -> LaunchDescription:
    source = PythonLaunchDescriptionSource(str(BRINGUP))
    include = IncludeLaunchDescription(source, launch_arguments=list(arguments.items()))
    return LaunchDescription([include, ReadyToTest()])


@pytest.fixture(autouse=True)
def _own_environment(
    ros_domain: int,  # noqa: ARG001 - not the domain of whoever runs the tests
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Have a home for the test alone, and end the variables that the launch file sets in this process."""
    with mock.patch.dict(os.environ, ROS_HOME=str(tmp_path_factory.mktemp("ros_home"))):
        yield


@pytest.fixture
def node() -> Iterator[Node]:
    """A node of this process, whose Fast DDS may have been started before the launch file set the profile.

    It then has no settings for the memory of endpoints to take from it. Those of Fast DDS itself in Humble
    are for messages of one size: "Not enough memory in the buffer stream".
    """
    with mock.patch.dict(os.environ):
        os.environ.pop(ENDPOINTS_FROM_PROFILE, None)
        rclpy.init()
        node = rclpy.create_node("launch_test")
    yield node
    node.destroy_node()
    rclpy.shutdown()


def wait_for_node(node: Node, name: str, namespace: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while (name, namespace) not in node.get_node_names_and_namespaces():
        assert time.monotonic() < deadline, f"no {namespace}/{name}"
        time.sleep(0.1)


def loaded_models(node: Node, service: str) -> list[str]:
    """Names of the loaded models, as soon as there is one."""
    client = node.create_client(ListModels, service)
    assert client.wait_for_service(timeout_sec=PATIENCE), f"no {service}"
    deadline = time.monotonic() + PATIENCE
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


@launch_pytest.fixture
def places_from_pictures() -> LaunchDescription:
    return bringup(
        backend="cpu",
        nodes="embedder,place_recognition,object_detector",
        single_process="true",
        namespace="robot",
    )


@pytest.mark.launch(fixture=places_from_pictures)
def test_the_embedder_feeds_place_recognition(node: Node) -> None:
    for name in ("embedder", "place_recognition", "object_detector"):
        wait_for_node(node, name, "/robot")
    topic = "/robot/embedder/embedding"

    def is_fed() -> bool:
        found = node.get_publishers_info_by_topic(topic), node.get_subscriptions_info_by_topic(topic)
        senders, receivers = ({each.node_name for each in side} for side in found)
        return senders == {"embedder"} and "place_recognition" in receivers

    deadline = time.monotonic() + PATIENCE
    while not is_fed():  # discovery names them one by one
        assert time.monotonic() < deadline, f"place_recognition is not fed on {topic}"
        time.sleep(0.1)


@pytest.fixture
def ros2() -> str:
    """The command, which does not come with rclpy."""
    path = shutil.which("ros2")
    if path is None:
        pytest.skip("needs the command ros2")
    return path


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nodes:=spot_tracker,compass"], "nodes: expected each of "),
        (["nodes:=spot_tracker,spot_tracker"], "nodes: expected each of "),
        (["params_file:=nowhere.yaml"], "params_file: expected a file; there is no 'nowhere.yaml'"),
        (["backend:=gpu"], 'Argument "backend" provided value "gpu" is not valid'),
        (["camera:=radio"], "camera: expected one of webcam, file, scene, "),
        (["respawn_delay:=0"], "respawn_delay: expected seconds, 0.1 or more; got '0'"),
        (["dds_scope:=world"], 'Argument "dds_scope" provided value "world" is not valid'),
    ],
)
def test_a_bad_argument_is_refused_before_anything_starts(
    ros2: str, arguments: list[str], reason: str
) -> None:
    command = [ros2, "launch", str(BRINGUP), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert reason in done.stdout + done.stderr
    assert "process started" not in done.stdout + done.stderr


class Launch:
    """`ros2 launch` of the bring-up; its output is kept in a file."""

    def __init__(self, log: Path, ros2: str, *arguments: str) -> None:
        self._log = log
        with log.open("w") as file:
            command = [ros2, "launch", str(BRINGUP), *arguments]
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    @property
    def output(self) -> str:
        return self._log.read_text()

    def pids(self, executable: str) -> list[int]:
        """Of the processes of an executable, in the order of their starts."""
        return [
            int(pid)
            for pid in re.findall(rf"\[{executable}-\d+\]: process started with pid \[(\d+)\]", self.output)
        ]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.output
            time.sleep(0.1)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE) == 0, self.output


@pytest.fixture
def start_launch(tmp_path: Path, ros2: str) -> Iterator[Callable[..., Launch]]:
    started: list[Launch] = []

    def start(*arguments: str) -> Launch:
        started.append(Launch(tmp_path / f"launch_{len(started)}.log", ros2, *arguments))
        return started[-1]

    yield start
    for launch in started:
        launch.stop()


def test_a_killed_process_is_started_again_and_works(start_launch: Callable[..., Launch]) -> None:
    launch = start_launch("backend:=virtual", "nodes:=spot_tracker", "respawn_delay:=0.1")
    for executable, sign in (
        ("spot_tracker", "'spot_bright_64x64' is loaded"),
        ("edgetpu_node", "device ready"),
    ):
        launch.wait_until(lambda sign=sign: sign in launch.output)  # type: ignore[misc]
        before = launch.output.count(sign)
        os.kill(launch.pids(executable)[0], signal.SIGKILL)
        launch.wait_until(lambda sign=sign, before=before: launch.output.count(sign) > before)  # type: ignore[misc]
        assert len(launch.pids(executable)) == 2


def test_without_respawn_a_killed_process_stays_away(start_launch: Callable[..., Launch]) -> None:
    launch = start_launch("backend:=virtual", "nodes:=none", "respawn:=false")
    launch.wait_until(lambda: "device ready" in launch.output)
    os.kill(launch.pids("edgetpu_node")[0], signal.SIGKILL)
    launch.wait_until(lambda: launch._process.poll() is not None)
    assert len(launch.pids("edgetpu_node")) == 1


@pytest.fixture
def port() -> Iterator[PortFiles]:
    port = PortFiles(SHARED_MEMORY)
    yield port
    port.remove()


def test_the_ports_of_a_killed_process_are_invalid_before_it_is_started_again(
    start_launch: Callable[..., Launch], port: PortFiles
) -> None:
    with port.received():
        port.renew()  # any process that started before may have found it without a receiver
        launch = start_launch("backend:=cpu", "nodes:=none", "respawn_delay:=1000")
        launch.wait_until(lambda: "device ready" in launch.output)
        assert port.flags == OK
    os.kill(launch.pids("edgetpu_node")[0], signal.SIGKILL)
    launch.wait_until(lambda: port.flags == DEAD)


def test_a_process_that_cannot_start_is_not_restarted_for_ever(
    start_launch: Callable[..., Launch], tmp_path: Path
) -> None:
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("/**/edgetpu: {ros__parameters: {performance: warp}}")
    launch = start_launch("nodes:=none", f"params_file:={parameters}", "respawn_delay:=0.1")
    for count in range(1, 6):
        launch.wait_until(lambda count=count: len(launch.pids("edgetpu_node")) >= count)  # type: ignore[misc]
    launch.wait_until(lambda: "edgetpu is not restarted: it failed 5 times in a row" in launch.output)
    launch.wait_until(lambda: launch._process.poll() is not None)
    assert len(launch.pids("edgetpu_node")) == 5


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "DDS discovery: this computer only (ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST)"),
        (["dds_scope:=subnet"], "DDS discovery: the whole subnet (ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET)"),
    ],
)
def test_the_log_says_who_discovers_the_nodes(
    start_launch: Callable[..., Launch], monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE")
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    launch = start_launch("nodes:=none", "backend:=cpu", *arguments)
    launch.wait_until(lambda: line in launch.output)
    launch.wait_until(lambda: launch.pids("edgetpu_node") != [])
    environment = Path(f"/proc/{launch.pids('edgetpu_node')[0]}/environ").read_text().split("\0")
    assert f"ROS_AUTOMATIC_DISCOVERY_RANGE={line.rpartition('=')[2].rstrip(')')}" in environment


@pytest.fixture
def without_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no profile of Fast DDS chosen."""
    for name in (*PROFILE_VARIABLES, ENDPOINTS_FROM_PROFILE):
        monkeypatch.delenv(name, raising=False)


def environment_of_driver(launch: Launch) -> dict[str, str]:
    """Return the environment variables of the driver's process."""
    launch.wait_until(lambda: launch.pids("edgetpu_node") != [])
    lines = Path(f"/proc/{launch.pids('edgetpu_node')[0]}/environ").read_text().split("\0")
    return {name: value for name, _, value in (line.partition("=") for line in lines if line)}


@pytest.mark.usefixtures("without_profile")
def test_fast_dds_reads_the_profile(start_launch: Callable[..., Launch]) -> None:
    environment = environment_of_driver(start_launch("nodes:=none", "backend:=cpu"))
    assert environment["FASTRTPS_DEFAULT_PROFILES_FILE"].endswith("/config/fastdds.xml")
    assert environment[ENDPOINTS_FROM_PROFILE] == "1"


@pytest.mark.usefixtures("without_profile")
def test_fast_dds_reads_the_users_profile_if_there_is_one(
    start_launch: Callable[..., Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTRTPS_DEFAULT_PROFILES_FILE", "mine.xml")
    environment = environment_of_driver(start_launch("nodes:=none", "backend:=cpu"))
    assert environment["FASTRTPS_DEFAULT_PROFILES_FILE"] == "mine.xml"
    assert ENDPOINTS_FROM_PROFILE not in environment


@pytest.mark.usefixtures("without_profile")
def test_the_profile_names_the_driver_in_its_namespace(start_launch: Callable[..., Launch]) -> None:
    launch = start_launch("nodes:=none", "backend:=cpu", "namespace:=arm")
    profile = Path(environment_of_driver(launch)["FASTRTPS_DEFAULT_PROFILES_FILE"])
    assert 'profile_name="rq/arm/edgetpu/set_weightsRequest"' in profile.read_text()
