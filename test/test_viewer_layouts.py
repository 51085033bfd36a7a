"""The layouts for RViz and Foxglove show topics and fields that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TOPICS = dict(re.findall(r"^\| `(/\S+)` \| `(\w+/msg/\w+)` \| published", README, re.MULTILINE))
NODES = ("spot_tracker", "looming", "optical_flow", "visual_compass", "pattern_tracker")


@pytest.fixture(scope="module")
def foxglove() -> dict[str, Any]:
    return dict(json.loads((ROOT / "config" / "edgetpu.foxglove.json").read_text()))


def panels(layout: str | dict[str, Any]) -> list[str]:
    """The panels a layout shows."""
    return [layout] if isinstance(layout, str) else panels(layout["first"]) + panels(layout["second"])


def test_rviz_shows_the_debug_image_of_every_eye() -> None:
    layout = yaml.safe_load((ROOT / "config" / "edgetpu.rviz").read_text())
    shown = [display["Topic"]["Value"] for display in layout["Visualization Manager"]["Displays"]]
    assert shown == [f"/{node}/debug_image" for node in NODES]
    assert {TOPICS[topic] for topic in shown} == {"sensor_msgs/msg/Image"}


def test_foxglove_lays_out_each_of_its_panels_once(foxglove: dict[str, Any]) -> None:
    assert sorted(panels(foxglove["layout"])) == sorted(foxglove["configById"])


def test_foxglove_shows_the_debug_image_of_every_eye(foxglove: dict[str, Any]) -> None:
    images = {
        panel["imageMode"]["imageTopic"] for panel in foxglove["configById"].values() if "imageMode" in panel
    }
    assert images == {f"/{node}/debug_image" for node in NODES}


def test_foxglove_plots_fields_of_published_messages(foxglove: dict[str, Any]) -> None:
    paths = [
        path["value"].rsplit(".", 1)
        for panel in foxglove["configById"].values()
        for path in panel.get("paths", ())
    ]
    assert len(paths) == 13
    for topic, field in paths:
        package, _, message = TOPICS[topic].split("/")
        definition = (ROOT / package / "msg" / f"{message}.msg").read_text()
        assert re.search(rf"^\S+ {field}\b", definition, re.MULTILINE), (topic, field)
