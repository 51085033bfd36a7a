"""What README.md, config/edgetpu.yaml and config/security say is what the running nodes offer and use."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

import yaml  # noqa: E402
from rcl_interfaces.srv import GetParameters, ListParameters  # noqa: E402

from edgetpu_driver.node_kit.installed_nodes.node_interfaces import interfaces_in_graph  # noqa: E402
from edgetpu_driver.node_kit.installed_nodes.security_policies import SINGLE_PROCESS, Profile  # noqa: E402
from edgetpu_driver.node_kit.middleware.enclaves import ENCLAVES  # noqa: E402
from edgetpu_driver.node_kit.node_table import all_nodes  # noqa: E402

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()

EXECUTABLES = {name: (entry.package, entry.executable) for name, entry in all_nodes().items()}

# The tables show the root namespace; here nodes of other tests may still be known by these names.
NAMESPACE = "/readme"

# Nodes that share no parameters with the others of their package.
ALONE = {"batch_mpc", "policy"}

# What rclpy gives every node.
ROS_TOPICS = re.compile(r"/(parameter_events|rosout|[a-z_]+/transition_event)")
ROS_SERVICES = re.compile(r"(rcl_interfaces|lifecycle_msgs|type_description_interfaces)/")
ROS_PARAMETERS = {"use_sim_time", "start_type_description_service"}


def table(section: str, title: str) -> dict[str, str]:
    """First and second cell of the rows of a section's table, without the code marks."""
    text = README.split(f"\n### {section}\n")[1].split("\n### ")[0].split("\n## ")[0]
    rows = text.split(f"\n| {title} |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {cell[0].strip("`"): cell[1].strip("`") for cell in cells}


def parameters(node: str) -> dict[str, str]:
    """Documented names and defaults: a node's own, after those shared by the nodes of its package."""
    shared = {
        "edgetpu_perception": "Every perception node",
        "edgetpu_matrix": "Every matrix node",
        "edgetpu_vision": "Every vision node",
        "edgetpu_control": "Every control node",
    }
    section = None if node in ALONE else shared.get(EXECUTABLES[node][0])
    return {**(table(section, "parameter") if section else {}), **table(node, "parameter")}


def services_of(section: str) -> str:
    """The section's table of services, if it has one."""
    text = README.split(f"\n### {section}\n")[1].split("\n### ")[0].split("\n## ")[0]
    return text.partition("\n| service |")[2]


@functools.cache
def config() -> dict[str, Any]:
    """The file of parameters; reading it takes a second."""
    return dict(yaml.safe_load((ROOT / "config" / "edgetpu.yaml").read_text()))


def parameters_of_config(node: str) -> dict[str, Any]:
    """What the file states for the parameters that the node has."""
    stated = config()["/**/*"]["ros__parameters"] | config()[f"/**/{node}"]["ros__parameters"]
    declared = {setting.name for setting in all_nodes()[node].load().settings}
    return {name: value for name, value in stated.items() if name in declared}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("ros_home")
        patch.setenv("ROS_HOME", str(directory))
        yield directory


@pytest.fixture(scope="module", params=sorted(EXECUTABLES))
def node(request: pytest.FixtureRequest, start_node: Any, graph: Any, home: Path) -> Iterator[str]:  # noqa: ARG001
    """Name of a node that runs with its defaults; for the driver without a stick to be found."""
    process = start_node(*EXECUTABLES[request.param], "-r", f"__ns:={NAMESPACE}")
    graph.spin_until(lambda: (request.param, NAMESPACE) in graph.node.get_node_names_and_namespaces())
    # The last of its interfaces to be made.
    graph.spin_until(
        lambda: ("/diagnostics", ["diagnostic_msgs/msg/DiagnosticArray"]) in topics(graph, request.param)
    )
    yield request.param
    process.stop()


def topics(graph: Any, node: str) -> list[tuple[str, list[str]]]:
    published = graph.node.get_publisher_names_and_types_by_node(node, NAMESPACE)
    subscribed = graph.node.get_subscriber_names_and_types_by_node(node, NAMESPACE)
    return [(name.removeprefix(NAMESPACE), types) for name, types in [*published, *subscribed]]


def test_a_node_has_the_topics_of_the_readme(node: str, graph: Any) -> None:
    documented = table(node, "topic")

    def offered() -> dict[str, str]:
        return {name: types[0] for name, types in topics(graph, node) if not ROS_TOPICS.fullmatch(name)}

    graph.spin_until(lambda: len(offered()) >= len(documented))  # discovery names them one by one
    assert offered() == documented


def test_a_node_has_the_services_of_the_readme(node: str, graph: Any) -> None:
    documented = table(node, "service") if f"`/{node}/" in services_of(node) else {}

    def offered() -> dict[str, str]:
        services = graph.node.get_service_names_and_types_by_node(node, NAMESPACE)
        own = [(name, types[0]) for name, types in services if not ROS_SERVICES.match(types[0])]
        return {name.removeprefix(NAMESPACE): kind for name, kind in own}

    graph.spin_until(lambda: len(offered()) >= len(documented))  # not discovered in the order of the topics
    assert offered() == documented


def test_a_node_has_the_parameters_of_the_readme_and_of_the_config(node: str, graph: Any) -> None:
    names = graph.call(ListParameters, f"{NAMESPACE}/{node}/list_parameters").result.names
    declared = {name for name in names if name not in ROS_PARAMETERS and not name.startswith("qos_overrides")}
    assert declared == parameters(node).keys()
    assert declared == parameters_of_config(node).keys()


def test_a_node_has_the_defaults_of_the_readme(node: str, graph: Any, home: Path) -> None:
    documented = parameters(node)
    models = str(home / "edgetpu" / "models")
    in_words = {"edgetpu/models` in `$ROS_HOME` or `~/.ros": f"[{models}]", "none": "[]"}
    names = list(documented)
    values = graph.call(GetParameters, f"{NAMESPACE}/{node}/get_parameters", names=names).values
    found = {name: shown(value) for name, value in zip(names, values, strict=True)}
    assert found == {name: in_words.get(text, text) for name, text in documented.items()}


def shown(value: Any) -> str:
    """A parameter's value as the README writes it."""
    parameter = rclpy.parameter.parameter_value_to_python(value)
    if isinstance(parameter, bool):
        return str(parameter).lower()
    if isinstance(parameter, list):
        return f"[{', '.join(str(item) for item in parameter if item != '')}]"
    return str(parameter)


def test_the_configuration_states_the_defaults(node: str) -> None:
    documented = parameters(node)
    stated = {name: value for name, value in parameters_of_config(node).items() if value not in ("", [""])}
    assert {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in stated.items()
    } == {name: text for name, text in documented.items() if name in stated}


# What the policies allow and a node opens with other parameters only.
OPTIONAL = {"/clock", "/image/compressed"}
OPTIONAL_OF = {
    "batch_mpc": {"/batch_mpc/cmd_vel"},
    "policy": {"/policy/cmd_vel"},
    "contact_guard": {"/odom", "/object_detector/detections", "/heading_hold/cmd_vel"},
    "heading_hold": {"/twist_mux/cmd_vel"},
    "visual_servo": {
        "/spot_tracker/detections",
        "/pattern_tracker/match",
        "/object_detector/detections",
        "/camera_info",
    },
}


def allowed(node: str) -> dict[str, set[str]]:
    """The rights of a node's enclave, by the attribute that names them; topics of the camera as relative.

    Those of the dashboard in the process of all nodes: its own enclave has what it opens on demand, too.
    """
    policies = ElementTree.parse(ROOT / "config" / "security" / "policies.xml")
    name = SINGLE_PROCESS if node == "dashboard" else node
    profile = policies.find(f"enclaves/enclave[@path='{ENCLAVES}/{name}']/profiles/profile[@node='{node}']")
    assert profile is not None
    return {
        right: {
            (name.text or "")
            .replace("/camera/image_raw", "/image")
            .replace("/camera/camera_info", "/camera_info")
            for name in group
        }
        for group in profile
        for right in group.attrib
    }


def test_the_security_policy_allows_what_the_node_opens_and_no_more(node: str, graph: Any) -> None:
    optional = OPTIONAL | OPTIONAL_OF.get(node, set())
    rights = {right: names - optional for right, names in allowed(node).items()}

    def opened() -> dict[str, set[str]]:
        profile = Profile.of(interfaces_in_graph(graph.node, node, NAMESPACE))
        names = {
            right: set(getattr(profile, right)) for right in ("publish", "subscribe", "reply", "request")
        }
        return {
            right: {name.removeprefix(NAMESPACE) for name in found} for right, found in names.items() if found
        }

    wanted = {right: names for right, names in rights.items() if names}
    with contextlib.suppress(AssertionError):  # clients are made when the node has looked for its driver
        graph.spin_until(lambda: opened() == wanted)
    assert opened() == wanted
