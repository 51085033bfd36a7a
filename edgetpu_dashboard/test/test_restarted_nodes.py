"""Nodes that the dashboard starts in place of others."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_dashboard.live.launcher import LaunchError
from edgetpu_dashboard.nodes.dashboard_node import DashboardNode


class Started:
    """A launcher that tells what it was asked for."""

    def __init__(self, *names: str) -> None:
        self.names, self.told = {*names}, list[str]()

    def started(self, name: str) -> bool:
        return name in self.names

    def stop(self, name: str) -> None:
        if name not in self.names:
            raise LaunchError(f"{name} was not started from here: stop it where it was started")
        self.told.append(f"stop {name}")


def restart(launcher: Started, *, running: bool | None) -> None:
    """Restart the detector with a model. running: None if its package was removed."""

    def start(name: str, **parameters: str) -> None:
        launcher.told.append(f"start {name} {parameters}")

    nodes = {} if running is None else {"detector": SimpleNamespace(running=running)}
    view: Any = SimpleNamespace(lock=threading.Lock(), nodes=nodes)
    node: Any = SimpleNamespace(launcher=launcher, view=view, start_node=start)
    DashboardNode.restart_node(node, "detector", model="'a.tflite'")


@pytest.mark.parametrize(
    ("launcher", "running", "told"),
    [
        (Started(), False, ["start"]),
        (Started("detector"), True, ["stop", "start"]),
        (Started("detector"), False, ["stop", "start"]),  # it does not show in the graph yet
        (Started("detector"), None, ["stop", "start"]),
    ],
    ids=["of nothing", "of ours", "of one that starts", "of one that colcon builds"],
)
def test_a_node_takes_the_place_of_ours(launcher: Started, running: bool | None, told: list[str]) -> None:
    restart(launcher, running=running)
    assert [each.split()[0] for each in launcher.told] == told
    assert launcher.told[-1] == "start detector {'model': \"'a.tflite'\"}"


def test_there_are_never_two_of_a_name() -> None:
    launcher = Started()
    with pytest.raises(LaunchError, match="detector was not started from here: stop it where it was started"):
        restart(launcher, running=True)
    assert launcher.told == []
