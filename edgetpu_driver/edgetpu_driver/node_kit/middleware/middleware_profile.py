"""The profile that Fast DDS reads, and the environment variables that select it."""

from __future__ import annotations

import copy
import hashlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from edgetpu_driver.files.default_paths import edgetpu_home
from edgetpu_driver.files.file_access import write_file
from edgetpu_driver.node_kit.middleware.profile_variables import PROFILE_VARIABLES
from edgetpu_driver.node_kit.node_table import DRIVER

DEFAULT_DRIVER = f"/{DRIVER}"
"""Full name of the driver whose services config/fastdds.xml names."""

_ENDPOINTS_FROM_PROFILE = {"RMW_FASTRTPS_USE_QOS_FROM_XML": "1"}
"""Without it rmw_fastrtps overrides the settings of the profile for the memory of endpoints."""

_NAMESPACE = "http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles"
_REQUESTS = f"rq{DEFAULT_DRIVER}/"
"""How the DDS topics of requests to the driver begin."""


class Launch(Protocol):
    """The part of launch.LaunchContext that is used here."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of the processes to start."""

    @property
    def launch_configurations(self) -> Mapping[str, str]:
        """The launch configurations by name; a group sets `ros_namespace`."""


def settings_in_launch(profile: Path, launch: Launch, namespace: str) -> dict[str, str]:
    """Return the variables that a launch file sets for the shipped profile: see `profile_settings`.

    namespace: of the driver; a relative one is below the namespace of the launch file's group.
    """
    if not namespace.startswith("/"):
        namespace = f"{launch.launch_configurations.get('ros_namespace', '')}/{namespace}"
    driver = "/".join(["", *filter(None, namespace.split("/")), DRIVER])
    return profile_settings(profile, launch.environment, [driver])


def profile_settings(
    profile: Path, environment: Mapping[str, str], drivers: Collection[str] = (DEFAULT_DRIVER,)
) -> dict[str, str]:
    """Return the variables to set for the shipped profile; none if the user has chosen another.

    `drivers`: full names of the drivers whose large requests are to be fast. For other names than
    /edgetpu a copy of the profile is made (`profile_for`); the shipped one is used if that fails.
    """
    if any(variable in environment for variable in PROFILE_VARIABLES):
        return {}
    try:
        path = profile_for(profile, drivers, edgetpu_home())
    except OSError:
        path = profile
    return {**dict.fromkeys(PROFILE_VARIABLES, str(path)), **_ENDPOINTS_FROM_PROFILE}


def profile_for(profile: Path, drivers: Collection[str], directory: Path) -> Path:
    """The path of the profile for drivers of these full names: `profile`, or a copy of it in `directory`.

    Fast DDS finds the profile of an endpoint by the whole name of its topic. Raises OSError if the copy
    cannot be written.
    """
    others = sorted(set(drivers) - {DEFAULT_DRIVER})
    if not others:
        return profile
    ElementTree.register_namespace("", _NAMESPACE)
    tree = ElementTree.fromstring(profile.read_bytes())
    for endpoint in list(tree):
        name = endpoint.get("profile_name", "")
        if name.startswith(_REQUESTS):
            for driver in others:
                other = copy.deepcopy(endpoint)
                other.set("profile_name", name.replace(DEFAULT_DRIVER, driver, 1))
                tree.append(other)
    content = ElementTree.tostring(tree, encoding="utf-8", xml_declaration=True)
    path = directory / f"fastdds_{hashlib.sha256(content).hexdigest()[:12]}.xml"
    write_file(path, content)
    return path
