"""Example: steer a robot by what its camera measures.

visual_servo, or a learned controller with `source`, says where to drive. twist_mux chooses among sources of
velocities, heading_hold keeps the robot straight, and contact_guard comes last. Start the suite as well, in
another terminal: bringup.launch.py nodes:=spot_tracker,looming,visual_compass.
"""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

CONFIG = Path(get_package_share_directory("edgetpu_ros")) / "config"

NETWORK_PARAMETERS = {"policy": "policy", "batch_mpc": "dynamics"}
"""Of learned controllers, the parameter that names the file of the network."""
SOURCES = ("visual_servo", *NETWORK_PARAMETERS)

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
    ("stamped", "false", "true: all velocities are TwistStamped", ("true", "false")),
    ("use_sim_time", "false", "true: time is that of /clock", ("true", "false")),
)


def _source(context: LaunchContext) -> list[Node]:
    """The node that says where to drive.

    RuntimeError for a network that it has no use for, and without the parameter file, which launch_ros would
    leave out with a warning.
    """
    name, network, params_file = (
        LaunchConfiguration(each).perform(context) for each in ("source", "network", "params_file")
    )
    if not Path(params_file).is_file():
        raise RuntimeError(f"params_file: expected a file; there is no '{params_file}'")
    own: dict[str, bool | str] = {}
    if name in NETWORK_PARAMETERS:
        own = {"twist": True, **({NETWORK_PARAMETERS[name]: network} if network else {})}
    elif network:
        raise RuntimeError(f"network: expected source {' or '.join(NETWORK_PARAMETERS)}; got '{name}'")
    return [
        Node(
            package="edgetpu_control",
            executable=name,
            name=name,
            namespace=LaunchConfiguration("namespace"),
            output="screen",
            parameters=[
                LaunchConfiguration("params_file"),
                {
                    "use_sim_time": LaunchConfiguration("use_sim_time"),
                    "stamped": LaunchConfiguration("stamped"),
                    **own,
                },
            ],
        )
    ]


def generate_launch_description() -> LaunchDescription:
    simulated = {"use_sim_time": LaunchConfiguration("use_sim_time")}
    stamped = LaunchConfiguration("stamped")
    common = {"namespace": LaunchConfiguration("namespace"), "output": "screen"}
    control = {
        **common,
        "package": "edgetpu_control",
        "parameters": [LaunchConfiguration("params_file"), {**simulated, "stamped": stamped}],
    }
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(name, default_value=default, description=text, choices=choices)
                for name, default, text, choices in ARGUMENTS
            ),
            OpaqueFunction(function=_source),
            Node(
                package="twist_mux",
                executable="twist_mux",
                parameters=[str(CONFIG / "twist_mux.yaml"), {**simulated, "use_stamped": stamped}],
                remappings=[("cmd_vel_out", "twist_mux/cmd_vel")],
                **common,
            ),
            Node(executable="heading_hold", remappings=[("cmd_vel_in", "twist_mux/cmd_vel")], **control),
            Node(
                executable="contact_guard",
                remappings=[
                    ("cmd_vel_in", "heading_hold/cmd_vel"),
                    ("cmd_vel", LaunchConfiguration("cmd_vel_topic")),
                ],
                **control,
            ),
        ]
    )
