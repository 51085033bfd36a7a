"""What the dashboard knows of the graph and does in it, without its page."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("rosbags", reason="needs rosbags")

import rclpy
from geometry_msgs.msg import Twist
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.executors import SingleThreadedExecutor
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from std_srvs.srv import Trigger

from demo.bag.image_bag import ImageBag
from edgetpu_dashboard.live.bag_writer import MISSING, BagError, BagProgress
from edgetpu_dashboard.live.picture_encoding import CAMERA_VIEW
from edgetpu_dashboard.nodes.bag_recorder import BagRecorder
from edgetpu_dashboard.nodes.dashboard_node import ros_arguments
from edgetpu_dashboard.nodes.graph_calls import GraphCalls, RefusedError, ShownParameter
from edgetpu_dashboard.nodes.graph_view import MOST_DIAGNOSTICS, Diagnostic, GraphView, ViewedNode
from edgetpu_driver.cli.main import main as edgetpu
from edgetpu_driver.errors import InputError, UnavailableError
from edgetpu_driver.node_kit.middleware.enclaves import sibling_enclave
from edgetpu_driver.node_kit.node_table import DRIVER, all_nodes
from edgetpu_msgs.srv import ListModels, LoadModel, SetColor, SetWeights, UnloadModel

GUARD = "contact_guard: measurements"
PARAMETER_SERVICES = {
    "list_parameters": ListParameters,
    "describe_parameters": DescribeParameters,
    "get_parameters": GetParameters,
    "set_parameters": SetParameters,
}


@pytest.fixture(scope="module")
def nodes(start_node: Any, graph: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A camera with a wandering dot, the tracker that follows it, and the driver with a matrix to load."""
    models = tmp_path_factory.mktemp("models")
    assert edgetpu(["models", "build", "dense_256", "--output", str(models)]) == 0
    start_node("edgetpu_driver", "edgetpu_node", backend="cpu", model_dirs=f"['{models}']")
    start_node("edgetpu_dashboard", "camera", width=160, height=120)
    start_node("edgetpu_perception", "spot_tracker", keep_state="false", model_dir=str(models))
    graph.await_device()


@pytest.fixture(scope="module")
def view(nodes: None, graph: Any) -> GraphView:  # noqa: ARG001
    return GraphView(graph.node)


@pytest.fixture(scope="module")
def calls(view: GraphView, graph: Any) -> GraphCalls:
    made = GraphCalls(graph.node, view.full_name)
    meet(graph, made, "camera")
    meet(graph, made, "spot_tracker", set_color=SetColor)
    driver = {"load_model": LoadModel, "list_models": ListModels, "set_weights": SetWeights}
    meet(graph, made, DRIVER, unload_model=UnloadModel, **driver)
    return made


def meet(graph: Any, calls: GraphCalls, node: str, **services: Any) -> None:
    """Let a node know the clients of its services: answers before that are lost (rmw_fastrtps issue 842)."""
    for service, kind in {**PARAMETER_SERVICES, **services}.items():
        calls._client(kind, f"{calls._full_name(node)}/{service}")
    graph.meet(calls._full_name(node))


def result_of(graph: Any, work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns or raises that runs in a thread of its own, as the page's do."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(work))
        except Exception as error:
            outcome.append(error)

    threading.Thread(target=run, daemon=True).start()
    graph.spin_until(lambda: bool(outcome))
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def parameter(graph: Any, calls: GraphCalls, node: str, name: str) -> ShownParameter:
    found = result_of(graph, calls.parameters(node))
    return next(each for each in found if each.name == name)


def refresh_until(graph: Any, view: GraphView, condition: Callable[[], bool]) -> None:
    """What a node offers may be discovered later than the node."""

    def holds() -> bool:
        view.refresh()
        return condition()

    graph.spin_until(holds)


def await_nodes(graph: Any, view: GraphView) -> None:
    names = ("edgetpu", "camera", "spot_tracker")
    refresh_until(graph, view, lambda: all(view.nodes[name].running for name in names))


def test_every_node_of_the_table_is_known_and_whether_it_runs(graph: Any, view: GraphView) -> None:
    await_nodes(graph, view)
    assert {"looming", "classifier", "reservoir", "visual_servo", "dashboard"} < view.nodes.keys()
    assert not view.nodes["looming"].running
    refresh_until(graph, view, lambda: view.nodes["camera"].triggers == ("step",))
    refresh_until(graph, view, lambda: view.nodes["spot_tracker"].has_picture)


def test_results_become_numbers_and_curves(graph: Any, view: GraphView) -> None:
    await_nodes(graph, view)
    view.refresh()
    curves = view.nodes["spot_tracker"].curves
    assert curves is not None
    graph.spin_until(lambda: curves.count > 20 and curves.last["valid"])
    assert curves.last.keys() >= {"confidence", "x", "x_sigma", "bearing_y_sigma"}

    def keeps_pace() -> bool:  # it does not for some seconds after a process has stood still
        pace = curves.pace(time.monotonic())
        return 1.0 < pace.rate < 60.0 and 0.0 < pace.latency < 2.0

    graph.spin_until(keeps_pace)
    assert any(each.value is not None for each in curves.by_field["x"].points(time.monotonic()))


def test_numbers_that_a_node_takes_and_gives_are_found(graph: Any, view: GraphView, start_node: Any) -> None:
    guard = start_node("edgetpu_control", "contact_guard", use_odometry="true")
    servo = start_node("edgetpu_control", "visual_servo")
    asked = graph.node.create_publisher(Twist, "cmd_vel_in", 1)
    refresh_until(graph, view, lambda: len(view.nodes["contact_guard"].signals) == 3)
    refresh_until(graph, view, lambda: view.nodes["visual_servo"].takes == ("spot_tracker",))
    signals = {each.topic: each for each in view.nodes["contact_guard"].signals}
    assert {topic: each.published for topic, each in signals.items()} == {
        "cmd_vel": True,
        "cmd_vel_in": False,
        "odom": False,
    }
    twist = Twist()
    twist.linear.x = 0.125
    graph.spin_until(lambda: bool(asked.publish(twist) or signals["cmd_vel_in"].curves.count))
    assert signals["cmd_vel_in"].curves.last == {"linear.x": 0.125, "angular.z": 0.0}
    graph.spin_until(lambda: "limited by" in view.nodes["contact_guard"].readings.get(GUARD, {}))
    assert view.nodes["contact_guard"].readings[GUARD]["limited by"].words
    graph.node.destroy_publisher(asked)
    guard.stop()
    servo.stop()


def test_diagnostics_and_the_state_of_the_driver_arrive(graph: Any, view: GraphView) -> None:
    await_nodes(graph, view)
    graph.spin_until(lambda: "camera: pictures" in view.nodes["camera"].diagnostics)
    assert view.nodes["camera"].diagnostics["camera: pictures"].values["source"] == "wandering_dot"
    graph.spin_until(lambda: view.status is not None and view.status.backend == "cpu")


@pytest.mark.parametrize("name", [CAMERA_VIEW, "spot_tracker"])
def test_pictures_come_only_while_they_are_shown(graph: Any, view: GraphView, name: str) -> None:
    await_nodes(graph, view)
    view.refresh()
    others = graph.node.count_subscribers("/image")
    first, second = view.look(name), view.look(name)
    assert first is second
    graph.spin_until(lambda: first.number > 0)
    assert first.picture().image.shape == (120, 160, 3)
    # The results are drawn here: the node draws nothing.
    assert graph.node.count_subscribers("/spot_tracker/debug_image") == 0
    view.look_away(name)
    assert view.pictures.tap(name) is first
    view.look_away(name)
    assert view.pictures.tap(name) is None
    graph.spin_until(lambda: graph.node.count_subscribers("/image") == others)


def test_a_parameter_is_shown_with_description_limits_and_value(graph: Any, calls: GraphCalls) -> None:
    rate = parameter(graph, calls, "camera", "frame_rate")
    assert (rate.value, rate.limits, rate.read_only) == (30.0, "0.1 to 240", False)
    assert rate.description.startswith("Pictures per second, Hz.")
    source = parameter(graph, calls, "camera", "source")
    assert source.choices[:3] == ("webcam", "file", "scene")
    assert parameter(graph, calls, "camera", "camera_frame_id").read_only
    assert parameter(graph, calls, "spot_tracker", "roi").value == [0, 0, 0, 0]


def test_a_parameter_is_set_as_it_was_typed(graph: Any, calls: GraphCalls) -> None:
    assert result_of(graph, calls.set_parameter("camera", "frame_rate", "20", 30.0)) == 20.0
    assert parameter(graph, calls, "camera", "frame_rate").value == 20.0
    assert result_of(graph, calls.set_parameter("camera", "frame_rate", "30", 20.0)) == 30.0


def test_a_list_of_another_type_is_set_where_the_node_takes_it(
    graph: Any, calls: GraphCalls, start_node: Any
) -> None:
    pytest.importorskip("vision_msgs", reason="needs vision_msgs")
    embedder = start_node("edgetpu_vision", "embedder")
    meet(graph, calls, "embedder")
    for text, kept in (("[-1, 1.5]", [-1.0, 1.5]), ("[]", [""])):
        shown = parameter(graph, calls, "embedder", "input_range")
        wanted = calls.set_parameter("embedder", "input_range", text, shown.value, any_type=shown.any_type)
        result_of(graph, wanted)
        assert parameter(graph, calls, "embedder", "input_range").value == kept
    embedder.stop()


def test_what_a_node_refuses_is_told_in_its_words(graph: Any, calls: GraphCalls) -> None:
    with pytest.raises(RefusedError, match="path: there is no /nowhere"):
        result_of(graph, calls.set_parameter("camera", "path", "/nowhere", ""))
    with pytest.raises(InputError, match="expected a number; got 'fast'"):
        result_of(graph, calls.set_parameter("camera", "frame_rate", "fast", 30.0))


def test_a_view_that_does_not_exist_is_refused(view: GraphView) -> None:
    with pytest.raises(InputError, match="expected a node or camera image; got '/bad name'"):
        view.look("/bad name")


def test_of_too_many_diagnostics_the_oldest_are_forgotten() -> None:
    viewed = ViewedNode(all_nodes()[DRIVER])
    for number in [*range(MOST_DIAGNOSTICS), 0, MOST_DIAGNOSTICS]:
        viewed.store(Diagnostic(f"edgetpu: {number}", "ok", "", {}))
    assert len(viewed.diagnostics) == MOST_DIAGNOSTICS
    assert "edgetpu: 1" not in viewed.diagnostics
    assert list(viewed.diagnostics)[-2:] == ["edgetpu: 0", f"edgetpu: {MOST_DIAGNOSTICS}"]


def test_a_request_without_an_answer_is_given_up(graph: Any, calls: GraphCalls) -> None:
    name = f"{calls._full_name('mute')}/reset"
    mute = rclpy.create_node("mute")  # which no executor spins
    mute.create_service(Trigger, name, print)
    try:
        with pytest.raises(UnavailableError, match=f"{name} did not answer within 0.1 s"):
            result_of(graph, calls.ask(Trigger, "mute", "reset", 0.1))
        assert calls._callers[name]._pending_requests == {}
    finally:
        mute.destroy_node()


def test_a_node_that_does_not_run_is_named(graph: Any, calls: GraphCalls) -> None:
    with pytest.raises(UnavailableError, match="looming is not running"):
        result_of(graph, calls.parameters("looming"))


def test_a_dashboard_that_stops_says_so(graph: Any) -> None:  # noqa: ARG001 - rclpy runs
    stopped = SingleThreadedExecutor()
    stopped.shutdown()
    for executor in (stopped, None):
        with pytest.raises(UnavailableError, match="the dashboard is stopping"):
            asyncio.run(GraphCalls(SimpleNamespace(executor=executor), str).in_executor(list))


def test_a_colour_is_set(graph: Any, view: GraphView, calls: GraphCalls) -> None:
    await_nodes(graph, view)
    # A tracker refuses colours until its model is loaded, which its first result shows.
    refresh_until(graph, view, lambda: bool(view.nodes["spot_tracker"].curves.count))
    assert result_of(graph, calls.set_color("spot_tracker", (200, 20, 20))) == (
        "tracks the colour (200, 20, 20)"
    )
    assert result_of(graph, calls.set_color("spot_tracker", (255, 255, 255))) == (
        "tracks brightness, as (255, 255, 255) is grey"
    )


def test_a_model_is_loaded_gets_weights_and_is_unloaded(graph: Any, calls: GraphCalls) -> None:
    assert result_of(graph, calls.load_model("dense_256", "mine")) == "mine is loaded"
    assert "mine" in {model.name for model in result_of(graph, calls.models()).models}
    weights = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    text, picture = result_of(graph, calls.set_weights("mine", "", weights / np.abs(weights).max()))
    assert text.startswith("version 1 of mine: largest error ")
    assert text.endswith(", 0 clipped")
    assert picture.shape == (6, 4, 3)
    with pytest.raises(
        InputError, match=r"expected a matrix of finite numbers; got an array of shape \(3,\)"
    ):
        result_of(graph, calls.set_weights("mine", "", np.zeros(3, np.float32)))
    assert result_of(graph, calls.unload_model("mine")) == "mine is unloaded"
    with pytest.raises(RefusedError, match="mine"):
        result_of(graph, calls.unload_model("mine"))


def topics_of(recorder: BagRecorder) -> int:
    """Number of topics of which something has been recorded so far."""
    assert recorder._recording is not None
    return len(recorder._recording._connections)


def recorded(recorder: BagRecorder) -> BagProgress:
    progress = recorder.progress()
    assert progress is not None
    assert progress.problem == ""
    return progress


def test_a_bag_of_images_and_results_is_read_by_the_demo(graph: Any, view: GraphView, tmp_path: Path) -> None:
    await_nodes(graph, view)
    refresh_until(graph, view, lambda: view.nodes["spot_tracker"].result is not None)
    recorder = BagRecorder(graph.node, view)
    path = recorder.start(tmp_path)
    with pytest.raises(BagError, match="a bag is being recorded already"):
        recorder.start(tmp_path)
    graph.spin_until(lambda: recorded(recorder).messages >= 60 and topics_of(recorder) == 3)
    recorder.close()
    graph.spin_until(lambda: recorded(recorder).ended)
    with Reader(path) as reader:
        counts = {each.topic: each.msgcount for each in reader.connections}
        assert counts.keys() == {"/image", "/camera_info", "/spot_tracker/servo_error"}
        assert sum(counts.values()) == recorded(recorder).messages
        (spots,) = (each for each in reader.connections if each.topic == "/spot_tracker/servo_error")
        # Read by the definition in the bag alone, as on a computer without this suite.
        store = get_typestore(Stores.ROS2_JAZZY)
        store.register(get_types_from_msg(spots.msgdef.data, spots.msgtype))
        _, _, data = next(reader.messages([spots]))
        assert store.deserialize_cdr(data, spots.msgtype).header.frame_id == "camera_optical_frame"
    with ImageBag(path) as bag:
        assert (bag.topic.name, bag.topic.camera_info) == ("/image", "/camera_info")
        assert bag.topic.count == counts["/image"]


def test_a_bag_ends_after_the_seconds_that_were_asked_for(
    graph: Any, view: GraphView, tmp_path: Path
) -> None:
    recorder = BagRecorder(graph.node, view)
    recorder.start(tmp_path, seconds=0.3)
    graph.spin_until(lambda: recorded(recorder).ended)
    assert not recorder.records


def test_without_rosbags_it_is_told_how_to_get_it(
    graph: Any, view: GraphView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rosbags.rosbag2", None)
    recorder = BagRecorder(graph.node, view)
    with pytest.raises(BagError, match=re.escape(MISSING)):
        recorder.start(tmp_path)
    assert not recorder.records


def test_what_holds_for_the_whole_graph_is_handed_on() -> None:
    line = ["dashboard", "--ros-args", "-r", "__node:=dashboard", "-r", "image:=/front/image_raw"]
    line += ["-p", "port:=9000", "--params-file", "robot.yaml", "-r", "__ns:=/robot"]
    assert ros_arguments(line) == [
        *("-r", "image:=/front/image_raw"),
        *("--params-file", "robot.yaml"),
        *("-r", "__ns:=/robot"),
    ]
    assert ros_arguments(["dashboard"]) == []


def test_a_started_node_gets_an_enclave_next_to_the_dashboards() -> None:
    line = ["dashboard", "--ros-args", "--enclave", "/robot/dashboard", "-r", "__ns:=/robot"]
    assert ros_arguments(line) == ["-r", "__ns:=/robot"]
    assert sibling_enclave(line, "looming") == ["--enclave", "/robot/looming"]
    assert sibling_enclave(["dashboard"], "looming") == []
