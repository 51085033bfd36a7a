"""The example launch file for steering: its sources are nodes of the table, with the parameters it sets."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.node_kit.node_table import all_nodes

ROOT = Path(__file__).parents[1]
LEARNED = ("policy", "batch_mpc")


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
