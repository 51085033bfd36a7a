"""Example: steer a robot by what its camera measures.

twist_mux chooses among sources of velocities, heading_hold keeps the robot straight, and
contact_guard comes last.
Also start the suite: bringup.launch.py nodes:=spot_tracker,looming,visual_compass.
"""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

CONFIG = Path(get_package_share_directory("edgetpu_ros")) / "config"

ARGUMENTS = (
    ("namespace", "", "namespace of all nodes, that of bringup.launch.py"),
    ("params_file", str(CONFIG / "edgetpu.yaml"), "parameters of the control nodes"),
    ("cmd_vel_topic", "cmd_vel", "what the robot's base listens to"),
    ("use_sim_time", "false", "true: time is that of /clock"),
)


def generate_launch_description() -> LaunchDescription:
    simulated = {"use_sim_time": LaunchConfiguration("use_sim_time")}
    common = {"namespace": LaunchConfiguration("namespace"), "output": "screen"}
    control = {
        **common,
        "package": "edgetpu_control",
        "parameters": [LaunchConfiguration("params_file"), simulated],
    }
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(name, default_value=default, description=text)
                for name, default, text in ARGUMENTS
            ),
            Node(executable="visual_servo", **control),
            Node(
                package="twist_mux",
                executable="twist_mux",
                parameters=[str(CONFIG / "twist_mux.yaml"), simulated],
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
