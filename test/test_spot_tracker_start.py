"""Spot tracker nodes that cannot start say why; one in this process receives its weights later."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from sensor_msgs.msg import Image

from edgetpu_driver.errors import DeviceLostError, EdgeTpuError, ExpiredError
from edgetpu_msgs.msg import ErrorCode, ServoError
from edgetpu_msgs.srv import SetColor
from edgetpu_perception.graphs import families
from testdata.running_nodes.running_tracker import PERCEPTION, image_message


def test_a_bad_parameter_at_start_ends_the_node_with_one_line(start_node: Callable[..., Any]) -> None:
    process = start_node(PERCEPTION, "spot_tracker", color="brown")
    assert process.wait() == 1
    assert process.output.strip().splitlines()[-1] == (
        "spot_tracker: parameter 'color': expected a colour of red, green, blue, yellow, cyan, "
        "magenta, white; got 'brown'"
    )


@pytest.mark.parametrize("name", ["bad name", "1st", "a//b", "{x}", "tail/"])
def test_an_invalid_driver_name_is_refused(name: str, spot_models: Path, graph: Any) -> None:  # noqa: ARG001
    from edgetpu_driver.node_kit.fatal_error import FatalError
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    with pytest.raises(FatalError, match="parameter 'driver': expected a node's name"):
        SpotTrackerNode(cli_args=["--ros-args", "-p", f"driver:='{name}'", "-p", f"model_dir:={spot_models}"])


def test_a_model_directory_that_cannot_be_written_ends_the_node_with_one_line(
    start_node: Callable[..., Any],
) -> None:
    process = start_node(PERCEPTION, "spot_tracker", model_dir="/proc/models")
    assert process.wait() == 1
    assert "cannot write the model spot_bright_64x64 to /proc/models" in process.output
    assert "Traceback" not in process.output


def test_an_unknown_node_is_refused(start_node: Callable[..., Any]) -> None:
    process = start_node(PERCEPTION, "single_process", "--", "--nodes", "nose")
    assert process.wait() == 2
    assert "spot_tracker, visual_compass, " in process.output
    assert "; got 'nose'" in process.output


@pytest.mark.usefixtures("patient_clients")
@pytest.mark.parametrize("error", [ExpiredError("too late"), DeviceLostError("unplugged")], ids=repr)
def test_weights_that_the_driver_could_not_set_are_set_with_the_next_image(
    graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: EdgeTpuError
) -> None:
    from edgetpu_driver.host.model_host import ModelHost
    from edgetpu_driver.node_kit.clients import model_client
    from edgetpu_driver.nodes.driver_node import DriverNode
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    monkeypatch.setenv("ROS_HOME", str(tmp_path / "ros_home"))  # the colour that the node keeps
    monkeypatch.setattr(model_client, "DEADLINE_SHARE", 1.0)  # no time to ask again within one request
    set_weights = ModelHost.submit_set_weights
    late: list[EdgeTpuError] = []

    def submit(host: ModelHost, name: str, request: Any, done: Any, *terms: Any, part: int) -> None:
        if late:
            done(late.pop())
        else:
            set_weights(host, name, request, done, *terms, part=part)

    monkeypatch.setattr(ModelHost, "submit_set_weights", submit)
    arguments = ["--ros-args", "-r", "image:=/late_camera/image", "-p", "color:=red", "-p", "rectified:=true"]
    driver = DriverNode(cli_args=["--ros-args", "-p", "backend:=cpu", "-p", f"model_dirs:=['{tmp_path}']"])
    tracker = SpotTrackerNode(cli_args=[*arguments, "-p", f"model_dir:={tmp_path}"])
    graph.add_node(driver)
    graph.add_node(tracker)
    results = graph.collect(ServoError, "/spot_tracker/servo_error")
    images = graph.node.create_publisher(Image, "/late_camera/image", 10)
    colors = np.zeros((64, 64, 3), np.uint8)
    colors[20:24, 40:44, 0] = colors[50:54, 10:14, 2] = 255  # red and blue
    seconds = itertools.count(1)

    def sees(x: float) -> Callable[[], bool]:
        def is_there() -> bool:
            images.publish(image_message(next(seconds), colors, "rgb8"))
            graph.spin_for(0.05)
            return any(result.valid and abs((result.x + 1) * 31.5 - x) < 0.01 for result in results)

        return is_there

    graph.spin_until(sees(41.5))
    assert graph.call(SetColor, "/spot_tracker/set_color", preset="blue").success
    graph.spin_until(sees(11.5))
    late += [error] * 2
    (name,) = [model.name for model in driver.active_host().models()]
    driver.active_host().unload(name, "/spot_tracker")
    seen = sees(11.5)
    graph.spin_until(lambda: seen() and not late)  # results of before the unload may still come
    results.clear()
    graph.spin_until(seen)
    assert all((result.x + 1) * 31.5 == pytest.approx(11.5, abs=0.01) for result in results)
    tracker.destroy_node()
    driver.destroy_node()


@pytest.mark.usefixtures("patient_clients")
def test_a_color_asked_for_while_the_node_sets_its_own_needs_no_image_if_that_fails(
    graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgetpu_driver.host.model_host import ModelHost
    from edgetpu_driver.node_kit.clients import model_client
    from edgetpu_driver.nodes.driver_node import DriverNode
    from edgetpu_perception.graphs.color_weights import color_filter
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    (tmp_path / "own.tflite").write_bytes(families.build("spot_color_7ec1c1_64x64"))  # red
    monkeypatch.setenv("ROS_HOME", str(tmp_path / "ros_home"))
    monkeypatch.setattr(model_client, "DEADLINE_SHARE", 1.0)
    set_weights = ModelHost.submit_set_weights
    waiting: list[Callable[[Any], None]] = []

    def submit(host: ModelHost, name: str, request: Any, done: Any, *terms: Any, part: int) -> None:
        if waiting:
            set_weights(host, name, request, done, *terms, part=part)
        else:
            waiting.append(done)

    monkeypatch.setattr(ModelHost, "submit_set_weights", submit)
    driver = DriverNode(cli_args=["--ros-args", "-p", "backend:=cpu", "-p", f"model_dirs:=['{tmp_path}']"])
    tracker = SpotTrackerNode(cli_args=["--ros-args", "-p", "color:=green", "-p", "model:=own"])
    graph.add_node(driver)
    graph.add_node(tracker)
    graph.spin_until(lambda: bool(waiting))
    answers: list[Any] = []
    tracker.change_weights(color_filter("blue"), answers.append)
    waiting[0](ExpiredError("too late"))
    graph.spin_until(lambda: bool(answers))
    assert answers[0].version == 1
    tracker.destroy_node()
    driver.destroy_node()


@pytest.mark.usefixtures("patient_clients")
def test_the_answer_says_if_a_restart_would_forget_the_color(
    graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgetpu_driver.nodes.driver_node import DriverNode
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    home = tmp_path / "a file"
    home.touch()
    monkeypatch.setenv("ROS_HOME", str(home))
    arguments = ["--ros-args", "-p", "color:=red", "-p", f"model_dir:={tmp_path}"]
    driver = DriverNode(cli_args=["--ros-args", "-p", "backend:=cpu", "-p", f"model_dirs:=['{tmp_path}']"])
    tracker = SpotTrackerNode(cli_args=arguments)
    graph.add_node(driver)
    graph.add_node(tracker)
    graph.spin_until(lambda: tracker._client is not None and tracker._client.ready)
    answer = graph.call(SetColor, "/spot_tracker/set_color", preset="blue")
    assert answer.success
    assert answer.message.startswith(f"not saved, a restart will undo this: cannot write {home}/edgetpu")
    tracker.destroy_node()
    driver.destroy_node()


@pytest.mark.usefixtures("patient_clients")
def test_a_color_asked_for_while_a_graph_is_loaded_that_never_will_be_is_answered(
    graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgetpu_driver.nodes.driver_node import DriverNode
    from edgetpu_perception.nodes import weight_updating_node
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    families.write_model("spot_bright_64x64", tmp_path / "of_driver")
    monkeypatch.setenv("ROS_HOME", str(tmp_path / "ros_home"))
    directories = f"model_dirs:=['{tmp_path}/of_driver']"
    driver = DriverNode(cli_args=["--ros-args", "-p", "backend:=cpu", "-p", directories])
    tracker = SpotTrackerNode(cli_args=["--ros-args", "-p", f"model_dir:={tmp_path}/of_tracker"])
    graph.add_node(driver)
    graph.add_node(tracker)
    graph.spin_until(lambda: tracker._client is not None and tracker._client.ready)
    minutes = itertools.count()

    def monotonic() -> float:
        """The time stands still until the driver has refused to load the graph; then it flies."""
        is_refused = tracker._client is not None and tracker._client.problem.startswith("no spot_color_")
        return 60.0 * next(minutes) if is_refused else 0.0

    monkeypatch.setattr(weight_updating_node, "time", SimpleNamespace(monotonic=monotonic))
    colors = [{"preset": "blue"}, {"preset": "green"}]
    first, second = graph.call_at_once(SetColor, "/spot_tracker/set_color", colors)
    assert (first.success, second.success) == (True, False)
    assert second.error.value == ErrorCode.UNAVAILABLE
    assert second.message.startswith("no spot_color_")
    tracker.destroy_node()
    driver.destroy_node()
