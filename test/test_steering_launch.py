"""The example launch file for steering: its sources are nodes of the table, with the parameters it sets."""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from xml.etree import ElementTree

import pytest
import yaml

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from ament_index_python.packages import PackageNotFoundError

from edgetpu_driver.node_kit.node_table import all_nodes

ROOT = Path(__file__).parents[1]
LEARNED = ("policy", "batch_mpc")
HANDLERS = "edgetpu_driver.node_kit.process.launch_handlers"
LAUNCH_MODULES = (
    "launch",
    "launch.actions",
    "launch.event_handlers",
    "launch.events",
    "launch.events.process",
    "launch.launch_description_entity",
    "launch.substitutions",
    "launch_ros",
    "launch_ros.actions",
)


def node_class(name: str) -> Any:
    entry = all_nodes()[name]
    assert (entry.package, entry.executable) == ("edgetpu_control", name)
    return entry.load()


def network_parameters() -> dict[str, str]:
    """NETWORK_PARAMETERS of the launch file, which imports what only a ROS 2 has."""
    tree = ast.parse((ROOT / "launch" / "steering.launch.py").read_text())
    (found,) = (
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "NETWORK_PARAMETERS"
    )
    return dict(found)


def test_network_sets_the_file_of_each_learned_controller() -> None:
    assert network_parameters() == {name: node_class(name).file_parameter for name in LEARNED}


@pytest.mark.parametrize("name", LEARNED)
def test_a_learned_controller_has_the_parameters_that_the_launch_file_sets(name: str) -> None:
    declared = {setting.name: setting.default for setting in node_class(name).settings}
    assert (declared["twist"], declared["stamped"]) == (False, False)
    assert declared[network_parameters()[name]] == ""


@pytest.mark.parametrize("name", ["visual_servo", "heading_hold", "contact_guard"])
def test_a_controller_has_the_parameter_for_stamped_velocities(name: str) -> None:
    assert {setting.name: setting.default for setting in node_class(name).settings}["stamped"] is False


class Setting:
    """Stands for LaunchConfiguration, whose context is here a dictionary of the arguments."""

    def __init__(self, name: str) -> None:
        self._name = name

    def perform(self, context: dict[str, str]) -> str:
        return context[self._name]


@dataclass(frozen=True)
class Message:
    """Stands for LogInfo."""

    msg: str


@dataclass(frozen=True)
class Variable:
    """Stands for SetEnvironmentVariable."""

    name: str
    value: str


class Context(dict[str, str]):
    """Stands for LaunchContext: the values of the arguments, and the environment."""

    def __init__(self, launch_file: dict[str, Any], environment: dict[str, str], **values: str) -> None:
        super().__init__({name: default for name, default, *_ in launch_file["ARGUMENTS"]} | values)
        self.environment = environment
        self.launch_configurations: dict[str, str] = {}


@pytest.fixture
def launch_file(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names of the launch file, with dictionaries for nodes; what only a ROS 2 has is replaced."""
    monkeypatch.delitem(sys.modules, HANDLERS, raising=False)
    for name in LAUNCH_MODULES:
        monkeypatch.setitem(sys.modules, name, MagicMock())
    monkeypatch.setattr(sys.modules["launch.substitutions"], "LaunchConfiguration", Setting)
    monkeypatch.setattr(sys.modules["launch_ros.actions"], "Node", dict)
    monkeypatch.setattr(sys.modules["launch.actions"], "LogInfo", Message)
    monkeypatch.setattr(sys.modules["launch.actions"], "SetEnvironmentVariable", Variable)
    packages = "ament_index_python.packages.get_package_share_directory"
    monkeypatch.setattr(packages, lambda _: str(ROOT))
    yield runpy.run_path(str(ROOT / "launch" / "steering.launch.py"))
    del sys.modules[HANDLERS]  # made of what stands for launch


def nodes_of(launch_file: dict[str, Any], context: Context) -> list[dict[str, Any]]:
    return [each for each in launch_file["_start"](context) if isinstance(each, dict)]


def test_a_parameter_file_that_is_not_there_is_refused(launch_file: dict[str, Any], tmp_path: Path) -> None:
    context = Context(launch_file, {}, params_file=f"{tmp_path}/none.yaml")
    with pytest.raises(
        RuntimeError, match=f"params_file: expected a file; there is no '{tmp_path}/none.yaml'"
    ):
        launch_file["_start"](context)


PARAMETERS = """
/**/*: {ros__parameters: {stamped: true}}
/robot/visual_servo: {ros__parameters: {use_sim_time: true}}
/robot/heading_hold: {ros__parameters: {use_sim_time: true}}
"""


@pytest.mark.parametrize(
    ("arguments", "of_controllers", "of_multiplexer"),
    [
        ({}, {}, {"use_stamped": True, "use_sim_time": True}),
        ({"stamped": "false"}, {"stamped": False}, {"use_stamped": False, "use_sim_time": True}),
        ({"use_sim_time": "false"}, {"use_sim_time": False}, {"use_stamped": True, "use_sim_time": False}),
        ({"namespace": "other"}, {}, {"use_stamped": True}),
    ],
)
def test_the_parameter_file_counts_unless_an_argument_is_given(
    launch_file: dict[str, Any],
    tmp_path: Path,
    arguments: dict[str, str],
    of_controllers: dict[str, bool],
    of_multiplexer: dict[str, bool],
) -> None:
    file = tmp_path / "robot.yaml"
    file.write_text(PARAMETERS)
    context = Context(launch_file, {}, **{"params_file": str(file), "namespace": "/robot", **arguments})
    given = {each["name"]: each["parameters"] for each in nodes_of(launch_file, context)}
    multiplexer = given.pop("twist_mux")
    assert multiplexer == [str(ROOT / "config" / "twist_mux.yaml"), of_multiplexer]
    assert set(given) == {"visual_servo", "heading_hold", "contact_guard"}
    assert list(given.values()) == [[str(file), of_controllers]] * 3


def test_a_parameter_file_that_is_no_yaml_is_refused(launch_file: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "robot.yaml"
    file.write_text("{")
    with pytest.raises(RuntimeError, match=r"params_file: .*robot\.yaml: expected YAML of plain values"):
        launch_file["_start"](Context(launch_file, {}, params_file=str(file)))


def test_without_twist_mux_nothing_is_started(
    launch_file: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setitem(launch_file["_start"].__globals__, "get_package_share_directory", missing)
    with pytest.raises(
        RuntimeError, match="twist_mux is not installed: sudo apt install ros-jazzy-twist-mux"
    ):
        launch_file["_start"](Context(launch_file, {"ROS_DISTRO": "jazzy"}))


@pytest.mark.parametrize(
    ("arguments", "topic"),
    [({}, "/camera/camera_info"), ({"camera_info_topic": "/front/camera_info"}, "/front/camera_info")],
)
def test_the_servo_takes_the_calibration_of_the_camera(
    launch_file: dict[str, Any], arguments: dict[str, str], topic: str
) -> None:
    servo = nodes_of(launch_file, Context(launch_file, {}, **arguments))[0]
    assert (servo["name"], servo["remappings"]) == ("visual_servo", [("camera_info", topic)])


@pytest.mark.parametrize("respawn", [True, False])
def test_every_process_is_restarted_unless_respawn_is_false(
    launch_file: dict[str, Any], respawn: bool
) -> None:
    nodes = nodes_of(launch_file, Context(launch_file, {}, respawn=str(respawn).lower(), respawn_delay="0.5"))
    assert [(node["respawn"], node["respawn_delay"]) for node in nodes] == [(respawn, 0.5)] * 4


def test_a_respawn_delay_that_is_none_is_refused(launch_file: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match=r"respawn_delay: expected seconds, 0\.1 or more; got 'soon'"):
        launch_file["_start"](Context(launch_file, {}, respawn_delay="soon"))


@pytest.mark.parametrize("source", ["visual_servo", *LEARNED])
def test_every_node_gets_its_enclave_where_the_graph_is_secured(
    launch_file: dict[str, Any], source: str
) -> None:
    context = Context(launch_file, {"ROS_SECURITY_ENABLE": "true"}, source=source, enclave="/robot/")
    assert {node["executable"]: node["ros_arguments"] for node in nodes_of(launch_file, context)} == {
        name: ["--enclave", f"/robot/{name}"]
        for name in (source, "twist_mux", "heading_hold", "contact_guard")
    }


def test_no_node_gets_an_enclave_where_the_graph_is_not_secured(launch_file: dict[str, Any]) -> None:
    nodes = nodes_of(launch_file, Context(launch_file, {"ROS_SECURITY_ENABLE": "false"}))
    assert [node["ros_arguments"] for node in nodes] == [[]] * 4


def test_the_nodes_are_discovered_on_this_computer_only_and_the_log_says_so(
    launch_file: dict[str, Any],
) -> None:
    context = Context(launch_file, {"ROS_DISTRO": "jazzy"})
    (message,) = (each for each in launch_file["_start"](context) if isinstance(each, Message))
    assert message.msg.startswith("DDS discovery: this computer only")
    local = {"ROS_LOCALHOST_ONLY": "1", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    for node in nodes_of(launch_file, context):
        assert node["additional_env"].items() <= local.items()
        assert node["additional_env"]


def test_dds_scope_opens_the_nodes_to_the_subnet(launch_file: dict[str, Any]) -> None:
    context = Context(launch_file, {"ROS_DISTRO": "jazzy"}, dds_scope="subnet")
    environments = [node["additional_env"] for node in nodes_of(launch_file, context)]
    assert environments == [{"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}] * 4


def test_fast_dds_reads_the_profile_of_the_suite_unless_another_is_chosen(
    launch_file: dict[str, Any],
) -> None:
    def variables(environment: dict[str, str]) -> dict[str, str]:
        actions = launch_file["_start"](Context(launch_file, environment))
        return {each.name: each.value for each in actions if isinstance(each, Variable)}

    profile = str(ROOT / "config" / "fastdds.xml")
    assert variables({})["FASTRTPS_DEFAULT_PROFILES_FILE"] == profile
    assert variables({"FASTRTPS_DEFAULT_PROFILES_FILE": "/mine.xml"}) == {}


def allowed(policies: str, node: str, right: str) -> set[str | None]:
    tree = ElementTree.parse(ROOT / "config" / "security" / policies)
    enclave = f"enclaves/enclave[@path='/edgetpu_ros/{node}']"
    return {each.text for each in tree.iterfind(f"{enclave}/profiles/profile/topics[@{right}]/topic")}


def test_the_policies_allow_the_velocities_of_every_node_that_it_starts(launch_file: dict[str, Any]) -> None:
    for source in ("visual_servo", *LEARNED):
        assert f"/{source}/cmd_vel" in allowed("policies.xml", source, "publish")
    nodes = {node["name"]: node for node in nodes_of(launch_file, Context(launch_file, {}))}
    for name, policies in (
        ("heading_hold", "policies.xml"),
        ("contact_guard", "policies.xml"),
        ("twist_mux", "twist_mux.xml"),
    ):
        for topic, renamed in nodes[name]["remappings"]:
            right = "subscribe" if topic == "cmd_vel_in" else "publish"
            assert f"/{renamed}" in allowed(policies, name, right), (name, topic)


def test_twist_mux_may_subscribe_to_each_source_of_its_parameter_file() -> None:
    parameters = yaml.safe_load((ROOT / "config" / "twist_mux.yaml").read_text())
    sources = parameters["/**/twist_mux"]["ros__parameters"]["topics"].values()
    topics = {
        name
        for name in allowed("twist_mux.xml", "twist_mux", "subscribe")
        if (name or "").endswith("cmd_vel")
    }
    assert topics == {f"/{source['topic']}" for source in sources}
