"""The profile that Fast DDS reads names the services of the drivers in the graph."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edgetpu_driver.node_kit.middleware.middleware_profile import (
    profile_for,
    profile_settings,
    settings_in_launch,
)

PROFILE = Path(__file__).resolve().parents[1] / "config" / "fastdds.xml"
LARGE = {"rq/edgetpu/set_weightsRequest", "rq/edgetpu/matmulRequest"}


def policies(profile: Path) -> dict[tuple[str, str], str | None]:
    """The memory policy of each endpoint, by its kind and its profile's name."""
    root = ElementTree.parse(profile).getroot()
    return {
        (endpoint.tag.partition("}")[2], endpoint.get("profile_name", "")): policy.text
        for endpoint in root
        if (policy := endpoint.find("{*}historyMemoryPolicy")) is not None
    }


def test_requests_with_weights_and_vectors_for_the_default_driver_keep_their_memory() -> None:
    kept = {name for (_, name), policy in policies(PROFILE).items() if policy != "DYNAMIC"}
    assert {name for name in kept if "/" in name} == LARGE
    assert {policies(PROFILE)[kind, "service"] for kind in ("data_writer", "data_reader")} == {"DYNAMIC"}


def test_the_default_driver_needs_no_copy(tmp_path: Path) -> None:
    assert profile_for(PROFILE, ["/edgetpu"], tmp_path) == PROFILE
    assert list(tmp_path.iterdir()) == []


def test_other_drivers_are_treated_as_the_default_one(tmp_path: Path) -> None:
    copied = policies(profile_for(PROFILE, ["/arm/edgetpu", "/edgetpu", "/a/tpu"], tmp_path))
    shipped = policies(PROFILE)
    for driver in ("/arm/edgetpu", "/a/tpu"):
        for (kind, name), policy in shipped.items():
            assert copied[kind, name.replace("/edgetpu", driver)] == policy
    assert len(copied) == len(shipped) + 2 * 2 * len(LARGE)
    assert shipped.items() <= copied.items()


def test_a_copy_is_made_once(tmp_path: Path) -> None:
    first = profile_for(PROFILE, ["/arm/edgetpu"], tmp_path)
    assert profile_for(PROFILE, ["/arm/edgetpu"], tmp_path) == first
    assert list(tmp_path.iterdir()) == [first]


def test_the_shipped_profile_serves_where_no_copy_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "edgetpu").write_text("a file where a directory is expected")
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    settings = profile_settings(PROFILE, {}, ["/arm/edgetpu"])
    assert settings["FASTRTPS_DEFAULT_PROFILES_FILE"] == str(PROFILE)


def test_a_profile_of_the_user_is_left_alone() -> None:
    assert profile_settings(PROFILE, {"FASTDDS_DEFAULT_PROFILES_FILE": "mine.xml"}, ["/arm/edgetpu"]) == {}


@dataclass(frozen=True)
class Launch:
    """Stands for launch.LaunchContext."""

    environment: dict[str, str] = field(default_factory=dict)
    launch_configurations: dict[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("group", "namespace", "driver"),
    [
        ({}, "arm", "/arm/edgetpu"),
        ({"ros_namespace": "/robot"}, "", "/robot/edgetpu"),
        ({"ros_namespace": "/robot"}, "arm", "/robot/arm/edgetpu"),
        ({"ros_namespace": "/robot"}, "/arm/", "/arm/edgetpu"),
    ],
)
def test_a_launch_file_sets_the_profile_of_the_driver_in_its_namespace(
    group: dict[str, str], namespace: str, driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    settings = settings_in_launch(PROFILE, Launch(launch_configurations=group), namespace)
    assert settings == profile_settings(PROFILE, {}, [driver])
    assert settings != profile_settings(PROFILE, {})


def test_a_launch_file_sets_the_shipped_profile_for_the_default_driver() -> None:
    settings = settings_in_launch(PROFILE, Launch(), "")
    assert settings["FASTRTPS_DEFAULT_PROFILES_FILE"] == str(PROFILE)
    assert settings_in_launch(PROFILE, Launch({"FASTDDS_DEFAULT_PROFILES_FILE": "mine.xml"}), "") == {}
