"""How far the launch file lets its nodes be discovered."""

from __future__ import annotations

import pytest

from edgetpu_driver.node_kit.middleware.discovery_range import DISCOVERY_VARIABLES, discovery_range

JAZZY, HUMBLE = {"ROS_DISTRO": "jazzy"}, {"ROS_DISTRO": "humble"}


def test_nodes_stay_on_this_computer_where_nothing_else_is_said() -> None:
    found = discovery_range("", JAZZY)
    assert found.environment == {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    assert found.text == (
        "DDS discovery: this computer only (ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST); "
        "dds_scope:=subnet opens it"
    )


@pytest.mark.parametrize("name", DISCOVERY_VARIABLES)
def test_a_discovery_variable_of_the_user_decides(name: str) -> None:
    found = discovery_range("", {**JAZZY, name: "x"})
    assert found.environment == {}
    assert found.text == f"DDS discovery: as the environment says, {name}=x"


def test_an_empty_variable_says_nothing() -> None:
    environment = {**JAZZY, "ROS_AUTOMATIC_DISCOVERY_RANGE": ""}
    assert discovery_range("", environment).environment == {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


@pytest.mark.parametrize(("scope", "value"), [("subnet", "SUBNET"), ("localhost", "LOCALHOST")])
def test_the_argument_overrides_the_environment(scope: str, value: str) -> None:
    found = discovery_range(scope, {**JAZZY, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"})
    assert found.environment == {"ROS_AUTOMATIC_DISCOVERY_RANGE": value}


def test_the_argument_overrides_the_old_variable_too() -> None:
    found = discovery_range("subnet", {**JAZZY, "ROS_LOCALHOST_ONLY": "1"})
    assert found.environment == {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", "ROS_LOCALHOST_ONLY": "0"}


def test_humble_has_no_range_and_is_left_as_it_is() -> None:
    found = discovery_range("", HUMBLE)
    assert found.environment == {}
    assert found.text == (
        "DDS discovery: the whole subnet, because ROS 2 humble has no ROS_AUTOMATIC_DISCOVERY_RANGE; "
        "set ROS_LOCALHOST_ONLY=1 for every process to stay on this computer"
    )


@pytest.mark.parametrize(("scope", "value"), [("subnet", "0"), ("localhost", "1")])
def test_on_humble_the_argument_sets_the_old_variable(scope: str, value: str) -> None:
    assert discovery_range(scope, HUMBLE).environment == {"ROS_LOCALHOST_ONLY": value}
