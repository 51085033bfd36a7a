"""Example: steer a robot by what its camera measures.

visual_servo, or the learned controller that `source` names, says where to drive. twist_mux chooses among
sources of velocities, heading_hold keeps the robot straight, and contact_guard comes last. Start the suite as
well, in another terminal: bringup.launch.py nodes:=spot_tracker,looming,visual_compass. As there, a process
that ends is started again unless `respawn:=false`, and nodes are discovered on this computer only, unless
`dds_scope:=subnet` or the environment says otherwise.
"""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    LogInfo,
    OpaqueFunction,
    SetEnvironmentVariable,
)
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.middleware.discovery_range import SCOPES, DiscoveryRange, discovery_range
from edgetpu_driver.node_kit.middleware.enclaves import ENCLAVES, enclave_arguments
from edgetpu_driver.node_kit.middleware.middleware_profile import settings_in_launch
from edgetpu_driver.node_kit.parameter_sections import values_in_file
from edgetpu_driver.node_kit.process.launch_handlers import (
    clean_up_after_each_process,
    give_up_on_failures,
    respawn_delay,
)

CONFIG = Path(get_package_share_directory("edgetpu_ros")) / "config"

NETWORK_PARAMETERS = {"policy": "policy", "batch_mpc": "dynamics"}
"""For each learned controller, the parameter that names the file of its network."""
SOURCES = ("visual_servo", *NETWORK_PARAMETERS)

CHOSEN = "twist_mux/cmd_vel"
"""Topic of the velocities that twist_mux has chosen."""

ARGUMENTS = (
    ("namespace", "", "namespace of all nodes, the same as in bringup.launch.py", None),
    ("source", "visual_servo", "node that says where to drive", SOURCES),
    (
        "network",
        "",
        "with policy or batch_mpc: file of its network, .npz; empty: what params_file says",
        None,
    ),
    ("params_file", str(CONFIG / "edgetpu.yaml"), "parameters of the control nodes", None),
    ("cmd_vel_topic", "cmd_vel", "velocities for the robot's base", None),
    (
        "camera_info_topic",
        "/camera/camera_info",
        "calibration for a visual_servo whose parameter source is not servo_error",
        None,
    ),
    (
        "stamped",
        "",
        "true: all velocities are TwistStamped; empty: what params_file says",
        ("", "true", "false"),
    ),
    ("use_sim_time", "", "true: time is that of /clock; empty: what params_file says", ("", "true", "false")),
    (
        "respawn",
        "true",
        "true: restart a process that has ended, unless it failed at once five times in a row",
        ("true", "false"),
    ),
    ("respawn_delay", "2.0", "seconds to wait before a restart, 0.1 or more", None),
    (
        "dds_scope",
        "",
        "who discovers the nodes: localhost or subnet; empty: what the environment says, otherwise localhost",
        SCOPES,
    ),
    ("enclave", ENCLAVES, "where ROS_SECURITY_ENABLE is true: path of the nodes' enclaves", None),
)


def _value(context: LaunchContext, argument: str) -> str:
    return str(LaunchConfiguration(argument).perform(context))


def _is_true(context: LaunchContext, argument: str) -> bool:
    return _value(context, argument) == "true"


def _discovery(context: LaunchContext) -> DiscoveryRange:
    return discovery_range(_value(context, "dds_scope"), context.environment)


def _node(context: LaunchContext, package: str, name: str, **options: object) -> Node:
    """One process, in its enclave; `options` are those that differ between processes."""
    return Node(
        package=package,
        executable=name,
        name=name,
        namespace=_value(context, "namespace"),
        output="screen",
        ros_arguments=enclave_arguments(_value(context, "enclave"), name, context.environment),
        additional_env=dict(_discovery(context).environment),
        respawn=_is_true(context, "respawn"),
        respawn_delay=respawn_delay(_value(context, "respawn_delay")),
        **options,
    )


def _params_file(context: LaunchContext) -> str:
    """Path of the parameter file; RuntimeError if it is missing, for which launch_ros would only warn."""
    path = _value(context, "params_file")
    if not Path(path).is_file():
        raise RuntimeError(f"params_file: expected a file; there is no '{path}'")
    return path


def _controller(
    context: LaunchContext, name: str, own: dict[str, bool | str], remappings: list[tuple[str, str]]
) -> Node:
    """A control node. own: parameters that only this node has."""
    common = {name: _is_true(context, name) for name in ("use_sim_time", "stamped") if _value(context, name)}
    parameters = [_params_file(context), {**common, **own}]
    return _node(context, "edgetpu_control", name, parameters=parameters, remappings=remappings)


def _source(context: LaunchContext) -> Node:
    """The node that says where to drive; RuntimeError for a network if the node has none."""
    name, network = _value(context, "source"), _value(context, "network")
    own: dict[str, bool | str] = {}
    if name in NETWORK_PARAMETERS:
        own = {"twist": True, **({NETWORK_PARAMETERS[name]: network} if network else {})}
    elif network:
        raise RuntimeError(f"network: expected source {' or '.join(NETWORK_PARAMETERS)}; got '{name}'")
    return _controller(context, name, own, [("camera_info", _value(context, "camera_info_topic"))])


def _multiplexer(context: LaunchContext) -> Node:
    """The multiplexer of velocities; RuntimeError if it is not installed.

    launch would notice that only after the start of the first node, and leave that running.
    """
    try:
        get_package_share_directory("twist_mux")
    except PackageNotFoundError:
        distribution = context.environment.get("ROS_DISTRO", "$ROS_DISTRO")
        raise RuntimeError(
            f"twist_mux is not installed: sudo apt install ros-{distribution}-twist-mux"
        ) from None
    parameters = [str(CONFIG / "twist_mux.yaml"), _values_of_multiplexer(context)]
    return _node(
        context, "twist_mux", "twist_mux", parameters=parameters, remappings=[("cmd_vel_out", CHOSEN)]
    )


def _values_of_multiplexer(context: LaunchContext) -> dict[str, bool]:
    """The clock and the kind of velocities of heading_hold, which takes those that twist_mux has chosen.

    RuntimeError if the parameter file cannot be read.
    """
    namespace = _value(context, "namespace").strip("/")
    name = f"/{namespace}/heading_hold" if namespace else "/heading_hold"
    try:
        in_file = values_in_file(Path(_params_file(context)), name)
    except InputError as error:
        raise RuntimeError(f"params_file: {error}") from None
    values = {}
    for parameter, of_hold in (("use_sim_time", "use_sim_time"), ("use_stamped", "stamped")):
        if _value(context, of_hold):
            values[parameter] = _is_true(context, of_hold)
        elif isinstance(in_file.get(of_hold), bool):
            values[parameter] = in_file[of_hold]
    return values


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    to_base = ("cmd_vel", _value(context, "cmd_vel_topic"))
    profile = settings_in_launch(CONFIG / "fastdds.xml", context, _value(context, "namespace"))
    processes = {
        _value(context, "source"): _source(context),
        "twist_mux": _multiplexer(context),
        "heading_hold": _controller(context, "heading_hold", {}, [("cmd_vel_in", CHOSEN)]),
        "contact_guard": _controller(
            context, "contact_guard", {}, [("cmd_vel_in", "heading_hold/cmd_vel"), to_base]
        ),
    }
    guards = give_up_on_failures(processes) if _is_true(context, "respawn") else []
    return [
        LogInfo(msg=_discovery(context).text),
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
