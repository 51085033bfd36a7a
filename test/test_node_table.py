"""The node table: what starts, configures or shows nodes finds them through one entry-point group."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

import yaml

from edgetpu_driver.node_kit.installed_nodes.parameter_file import main as print_parameter_file
from edgetpu_driver.node_kit.installed_nodes.parameter_file import parameter_file
from edgetpu_driver.node_kit.node_table import NodeEntry, all_nodes, node_table, nodes_of
from edgetpu_driver.node_kit.parameters import Setting

ROOT = Path(__file__).parents[1]

WHEEL_NODE = """
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_msgs.msg import Flow
from edgetpu_perception.nodes.perception_node import PerceptionNode
from edgetpu_perception.nodes.perception_parameters import perception_settings


class WheelNode(PerceptionNode):
    settings = perception_settings(Setting("spokes", 32, "Number of spokes of the wheel.", 3, 64))
    results = ResultTopic("turn", Flow, (ResultValue("dx", "turning of the wheel", "px"),))
"""


@pytest.fixture
def robot_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package of a third party that offers one perception node, `wheel`."""
    package = tmp_path / "robot_wheels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "wheel_node.py").write_text(WHEEL_NODE)
    information = tmp_path / "robot_wheels-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: robot-wheels\nVersion: 1.0\n")
    entry_points = "[edgetpu.nodes]\nwheel = robot_wheels.wheel_node:WheelNode\n"
    (information / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("robot_wheels")]:
        del sys.modules[name]


def test_the_suite_offers_twenty_one_nodes_besides_the_driver() -> None:
    assert {name: entry.package for name, entry in node_table().items()} == {
        "batch_mpc": "edgetpu_control",
        "contact_guard": "edgetpu_control",
        "heading_hold": "edgetpu_control",
        "policy": "edgetpu_control",
        "visual_servo": "edgetpu_control",
        "camera": "edgetpu_dashboard",
        "dashboard": "edgetpu_dashboard",
        "place_recognition": "edgetpu_matrix",
        "reservoir": "edgetpu_matrix",
        "spectrum": "edgetpu_matrix",
        "looming": "edgetpu_perception",
        "optical_flow": "edgetpu_perception",
        "pattern_tracker": "edgetpu_perception",
        "spot_tracker": "edgetpu_perception",
        "visual_compass": "edgetpu_perception",
        "classifier": "edgetpu_vision",
        "embedder": "edgetpu_vision",
        "learner": "edgetpu_vision",
        "object_detector": "edgetpu_vision",
        "pose_estimator": "edgetpu_vision",
        "segmenter": "edgetpu_vision",
    }
    assert all_nodes()["edgetpu"].package == "edgetpu_driver"


@pytest.mark.usefixtures("robot_wheels")
class TestANodeOfAnotherPackage:
    def test_is_in_the_table(self) -> None:
        assert node_table()["wheel"] == NodeEntry("wheel", "robot_wheels.wheel_node", "WheelNode")
        assert nodes_of("robot_wheels") == ("wheel",)

    def test_has_its_parameters_in_the_parameter_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_parameter_file()
        assert yaml.safe_load(capsys.readouterr().out)["/**/wheel"]["ros__parameters"] == {
            "model": "",
            "qos_depth": 5,
            "min_confidence": 0.2,
            "spokes": 32,
        }

    def test_can_be_asked_for_in_a_single_process(self) -> None:
        from edgetpu_perception.nodes.single_process import _arguments

        assert _arguments(["--nodes", "looming,wheel"]).nodes == ["looming", "wheel"]

    def test_can_be_shown_by_the_demo(self) -> None:
        from demo.nodes import described

        node = described(node_table()["wheel"])
        assert node is not None
        assert (node.package, node.topic) == ("robot_wheels", "/wheel/turn")
        assert node.results.message_type.__name__ == "Flow"
        assert node.results.fields == ("valid", "confidence", "dx")


@pytest.mark.parametrize(("name", "executable"), [("edgetpu", "edgetpu_node"), ("looming", "looming")])
def test_an_executable_is_called_as_its_node_but_for_the_driver(name: str, executable: str) -> None:
    assert all_nodes()[name].executable == executable


def test_the_parameter_file_of_the_repository_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    print_parameter_file()
    assert (ROOT / "config" / "edgetpu.yaml").read_text() == capsys.readouterr().out, "run `make parameters`"


def test_a_parameter_is_shared_where_all_nodes_that_have_it_agree() -> None:
    driver = Setting("driver", "edgetpu", "Name of the driver.")
    text = parameter_file(
        {
            "one": [driver, Setting("size", 64, "Width, px.", 1, 128)],
            "two": [driver, Setting("size", 3, "Neurons.", read_only=False), Setting("files", [], "Paths.")],
        }
    )
    assert text.partition("\n\n")[2].splitlines() == [
        "/**/*:",
        "  ros__parameters:",
        "    # Name of the driver. Read-only.",
        "    driver: edgetpu",
        "",
        "/**/one:",
        "  ros__parameters:",
        "    # Width, px. Range: 1 to 128. Read-only.",
        "    size: 64",
        "",
        "/**/two:",
        "  ros__parameters:",
        "    # Neurons.",
        "    size: 3",
        "    # Paths. Read-only.",
        '    files: [""]',
    ]
