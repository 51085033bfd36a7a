"""The example launch file for steering: its sources are nodes of the table, with the parameters it sets."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

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


class Setting:
    """Stands for LaunchConfiguration, whose context is here a dictionary of the arguments."""

    def __init__(self, name: str) -> None:
        self._name = name

    def perform(self, context: dict[str, str]) -> str:
        return context[self._name]


@pytest.fixture
def launch_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The names of the launch file; what only a ROS 2 has is replaced."""
    for name in ("launch", "launch.actions", "launch.substitutions", "launch_ros", "launch_ros.actions"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    monkeypatch.setattr(sys.modules["launch.substitutions"], "LaunchConfiguration", Setting)
    packages = "ament_index_python.packages.get_package_share_directory"
    monkeypatch.setattr(packages, lambda _: str(tmp_path))
    return runpy.run_path(str(ROOT / "launch" / "steering.launch.py"))


def test_a_parameter_file_that_is_not_there_is_refused(launch_file: dict[str, Any], tmp_path: Path) -> None:
    context = {"source": "visual_servo", "network": "", "params_file": f"{tmp_path}/none.yaml"}
    with pytest.raises(
        RuntimeError, match=f"params_file: expected a file; there is no '{tmp_path}/none.yaml'"
    ):
        launch_file["_source"](context)
