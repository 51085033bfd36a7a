"""Bring the suite up: the driver and the perception nodes asked for.

One process each by default; `single_process:=true` puts all of them into one, where images are decoded and
models are called without crossing DDS.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

SHARE = Path(get_package_share_directory("edgetpu_ros"))

# Fast DDS 2 and 3 read its settings from different variables.
FAST_DDS_PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")

ARGUMENTS = (
    ("backend", "", "usb, virtual or cpu; empty: what the parameter file says"),
    ("image_topic", "/camera/image_raw", "camera images, sensor_msgs/Image"),
    ("camera_info_topic", "", "sensor_msgs/CameraInfo; empty: camera_info beside the image topic"),
    ("namespace", "", "namespace of all nodes"),
    ("nodes", "spot_tracker", "perception nodes to start, separated by commas; empty: the driver alone"),
    ("single_process", "false", "true: all nodes in one process"),
    ("use_sim_time", "false", "true: time comes from /clock"),
    ("params_file", str(SHARE / "config" / "edgetpu.yaml"), "parameters of all nodes"),
    ("log_level", "info", "debug, info, warn, error or fatal"),
)


def _camera_info_beside(image_topic: str) -> str:
    """Name of the calibration topic that belongs to an image topic (the image_transport convention)."""
    return str(PurePosixPath(image_topic).parent / "camera_info")


def _start(context: LaunchContext) -> list[Node]:
    def value(name: str) -> str:
        return str(LaunchConfiguration(name).perform(context))

    names = [name.strip() for name in value("nodes").split(",") if name.strip()]
    overrides: dict[str, object] = {"use_sim_time": value("use_sim_time").lower() == "true"}
    driver_overrides = {"backend": value("backend")} if value("backend") else {}
    image_topic = value("image_topic")
    common = {
        "namespace": value("namespace"),
        "output": "screen",
        "ros_arguments": ["--log-level", value("log_level")],
    }
    remappings = [
        ("image", image_topic),
        ("camera_info", value("camera_info_topic") or _camera_info_beside(image_topic)),
    ]
    params_file = value("params_file")

    if value("single_process").lower() == "true":
        return [
            Node(
                package="edgetpu_perception",
                executable="single_process",
                arguments=["--nodes", ",".join(names)],
                parameters=[params_file, overrides | driver_overrides],
                remappings=remappings,
                **common,
            )
        ]
    driver = Node(
        package="edgetpu_driver",
        executable="edgetpu_node",
        name="edgetpu",
        parameters=[params_file, overrides | driver_overrides],
        **common,
    )
    eyes = [
        Node(
            package="edgetpu_perception",
            executable=name,
            name=name,
            parameters=[params_file, overrides],
            remappings=remappings,
            **common,
        )
        for name in names
    ]
    return [driver, *eyes]


def generate_launch_description() -> LaunchDescription:
    profile = str(SHARE / "config" / "fastdds.xml")
    user_has_profile = any(variable in os.environ for variable in FAST_DDS_PROFILE_VARIABLES)
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(name, default_value=default, description=text)
                for name, default, text in ARGUMENTS
            ),
            *(
                []
                if user_has_profile
                else [SetEnvironmentVariable(name, profile) for name in FAST_DDS_PROFILE_VARIABLES]
            ),
            OpaqueFunction(function=_start),
        ]
    )
