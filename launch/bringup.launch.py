"""Bring the suite up: the driver and the nodes asked for.

By default each node is a process; `single_process:=true` puts all of them into one, where images are decoded
once and models are called without DDS. A process that ends is started again unless `respawn:=false`. Nodes
are discovered on this computer only, unless `dds_scope:=subnet` or the environment says otherwise.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    LogInfo,
    OpaqueFunction,
    SetEnvironmentVariable,
)
from launch.launch_description_entity import LaunchDescriptionEntity
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from edgetpu_driver.node_kit.middleware.discovery_range import SCOPES, discovery_range
from edgetpu_driver.node_kit.middleware.enclaves import ENCLAVES, enclave_arguments
from edgetpu_driver.node_kit.middleware.middleware_profile import settings_in_launch
from edgetpu_driver.node_kit.node_table import DRIVER, all_nodes, node_table
from edgetpu_driver.node_kit.process.launch_handlers import (
    clean_up_after_each_process,
    give_up_on_failures,
    respawn_delay,
)

SHARE = Path(get_package_share_directory("edgetpu_ros"))

TRUTHS = ("true", "false", "True", "False")

# Name, default, meaning, and the values it may have if they are few.
ARGUMENTS = (
    (
        "backend",
        "",
        "usb, virtual or cpu; empty: what the parameter file says",
        ("", "usb", "virtual", "cpu"),
    ),
    ("image_topic", "/camera/image_raw", "camera images, sensor_msgs/Image", None),
    (
        "camera_info_topic",
        "",
        "calibration, sensor_msgs/CameraInfo; empty: camera_info next to the image topic",
        None,
    ),
    ("signal_topic", "signal", "input of reservoir and spectrum", None),
    ("target_topic", "target", "values that reservoir is trained to output", None),
    ("embedding_topic", "embedder/embedding", "input of place_recognition, edgetpu_msgs/Embedding", None),
    ("namespace", "", "namespace of all nodes", None),
    (
        "nodes",
        "spot_tracker",
        "nodes to start with the driver, separated by commas; none: only the driver",
        None,
    ),
    (
        "camera",
        "",
        "source of the suite's own camera: webcam, file, scene or a pattern; empty: not started",
        None,
    ),
    ("dashboard", "false", "true: also start the dashboard, a page at http://127.0.0.1:8080", TRUTHS),
    (
        "image_transport",
        "",
        "raw or compressed (image_topic/compressed); empty: what the parameter file says",
        ("", "raw", "compressed"),
    ),
    (
        "qos_reliability",
        "",
        "best_effort or reliable, of the subscriptions; empty: what the parameter file says",
        ("", "best_effort", "reliable"),
    ),
    ("single_process", "false", "true: all nodes in one process", TRUTHS),
    ("use_sim_time", "", "true or false; empty: what the parameter file says", ("", *TRUTHS)),
    ("params_file", str(SHARE / "config" / "edgetpu.yaml"), "parameters of all nodes", None),
    ("log_level", "info", "log level of all nodes", ("debug", "info", "warn", "error", "fatal")),
    (
        "respawn",
        "true",
        "true: restart a process that has ended, unless it failed at once five times in a row",
        TRUTHS,
    ),
    ("respawn_delay", "2.0", "seconds to wait before a restart, 0.1 or more", None),
    (
        "dds_scope",
        "",
        "who discovers the nodes: localhost or subnet; empty: what the environment says, otherwise localhost",
        SCOPES,
    ),
    (
        "enclave",
        ENCLAVES,
        "where ROS_SECURITY_ENABLE is true: path of the nodes' enclaves",
        None,
    ),
)


def _camera_info_beside(image_topic: str) -> str:
    """Name of the calibration topic that belongs to an image topic (the image_transport convention)."""
    return str(PurePosixPath(image_topic).parent / "camera_info")


def _nodes(text: str) -> list[str]:
    """The nodes asked for; RuntimeError for an unknown or repeated name, before anything has started."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["none"]:
        return []
    table = node_table()
    unknown = [name for name in names if name not in table]
    if unknown or len(set(names)) < len(names):
        raise RuntimeError(f"nodes: expected each of {', '.join(table)} once, or none; got '{text}'")
    return names


def _parameters_by_name(parameters: dict[str, dict[str, bool | str]]) -> str:
    """Path of a new parameter file with a section for each node.

    launch_ros would write one section for all nodes of the process, and a section of params_file with the
    name of a node would take precedence over it.
    """
    sections = {f"/**/{name}": {"ros__parameters": values} for name, values in parameters.items() if values}
    with tempfile.NamedTemporaryFile("w", prefix="edgetpu_", suffix=".yaml", delete=False) as file:
        json.dump(sections, file)  # JSON is YAML
    return file.name


def _overrides_of(name: str, overrides: dict[str, bool | str]) -> dict[str, bool | str]:
    """The values from the command line that this node has a parameter for."""
    if set(overrides) <= {"use_sim_time"}:
        return overrides  # without importing the node
    declared = {setting.name for setting in all_nodes()[name].load().settings}
    return {key: value for key, value in overrides.items() if key in {"use_sim_time", *declared}}


def _value(context: LaunchContext, argument: str) -> str:
    return str(LaunchConfiguration(argument).perform(context))


def _is_true(context: LaunchContext, argument: str) -> bool:
    return _value(context, argument).lower() == "true"


def _params_file(context: LaunchContext) -> str:
    """Path of the parameter file; RuntimeError if it is not there."""
    path = _value(context, "params_file")
    if not Path(path).is_file():
        raise RuntimeError(f"params_file: expected a file; there is no '{path}'")
    return path


def _with_camera(names: list[str], source: str) -> list[str]:
    """The nodes asked for, and the camera if it has a source; RuntimeError for an unknown source."""
    if not source:
        return names
    (setting,) = (each for each in node_table()["camera"].load().settings if each.name == "source")
    if source not in setting.choices:
        raise RuntimeError(
            f"camera: expected one of {', '.join(setting.choices)}, or nothing; got '{source}'"
        )
    return [*names, *(["camera"] if "camera" not in names else [])]


def _parameters(context: LaunchContext, names: list[str]) -> dict[str, dict[str, bool | str]]:
    """Parameters of the driver and of these nodes that the command line sets, by node."""
    texts = {name: _value(context, name) for name in ("image_transport", "qos_reliability")}
    overrides: dict[str, bool | str] = {name: text for name, text in texts.items() if text}
    if _value(context, "use_sim_time"):
        overrides["use_sim_time"] = _is_true(context, "use_sim_time")
    parameters = {name: _overrides_of(name, overrides) for name in (DRIVER, *names)}
    if backend := _value(context, "backend"):
        parameters[DRIVER] = {**parameters[DRIVER], "backend": backend}
    if source := _value(context, "camera"):
        parameters["camera"] = {**parameters["camera"], "source": source}
    return parameters


def _remappings(context: LaunchContext) -> list[tuple[str, str]]:
    """Names of topics in the nodes, and the topics that they stand for."""
    image_topic = _value(context, "image_topic")
    return [
        ("image", image_topic),
        ("camera_info", _value(context, "camera_info_topic") or _camera_info_beside(image_topic)),
        ("signal", _value(context, "signal_topic")),
        ("target", _value(context, "target_topic")),
        ("embedding", _value(context, "embedding_topic")),
    ]


def _process(context: LaunchContext, enclave: str, environment: Mapping[str, str], **options: object) -> Node:
    """One process; `options` are those that differ between processes."""
    secured = enclave_arguments(_value(context, "enclave"), enclave, context.environment)
    return Node(
        namespace=_value(context, "namespace"),
        output="screen",
        ros_arguments=["--log-level", _value(context, "log_level"), *secured],
        remappings=_remappings(context),
        additional_env=dict(environment),
        respawn=_is_true(context, "respawn"),
        respawn_delay=respawn_delay(_value(context, "respawn_delay")),
        **options,
    )


def _options_of_one_process(
    params_file: str, parameters: dict[str, dict[str, bool | str]], names: list[str]
) -> dict[str, dict[str, object]]:
    """Options of the single process, by its name."""
    merged = [_parameters_by_name(parameters)] if any(parameters.values()) else []
    options: dict[str, object] = {
        "package": "edgetpu_perception",
        "executable": "single_process",
        "arguments": ["--nodes", ",".join(names)],
        "parameters": [params_file, *merged],
    }
    return {"single_process": options}


def _options_of_each_node(
    params_file: str, parameters: dict[str, dict[str, bool | str]]
) -> dict[str, dict[str, object]]:
    """Options of the process of each node, by the node's name."""
    return {
        name: {
            "package": all_nodes()[name].package,
            "executable": all_nodes()[name].executable,
            "name": name,
            "parameters": [params_file, values],
        }
        for name, values in parameters.items()
    }


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    names = _with_camera(_nodes(_value(context, "nodes")), _value(context, "camera"))
    if _is_true(context, "dashboard") and "dashboard" not in names:
        names = [*names, "dashboard"]
    params_file = _params_file(context)
    respawn_delay(_value(context, "respawn_delay"))  # refused before a node is imported
    parameters = _parameters(context, names)
    discovery = discovery_range(_value(context, "dds_scope"), context.environment)
    if _is_true(context, "single_process"):
        options = _options_of_one_process(params_file, parameters, names)
    else:
        options = _options_of_each_node(params_file, parameters)
    processes = {name: _process(context, name, discovery.environment, **its) for name, its in options.items()}
    guards = give_up_on_failures(processes) if _is_true(context, "respawn") else []
    profile = settings_in_launch(SHARE / "config" / "fastdds.xml", context, _value(context, "namespace"))
    return [
        LogInfo(msg=discovery.text),
        *(SetEnvironmentVariable(*each) for each in profile.items()),
        clean_up_after_each_process(),
        *guards,
        *processes.values(),
    ]


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(name, default_value=default, description=text, choices=choices)
                for name, default, text, choices in ARGUMENTS
            ),
            OpaqueFunction(function=_start),
        ]
    )
