"""The spot tracker node and a driver node, in separate processes and both in one."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from diagnostic_msgs.msg import DiagnosticStatus
from rcl_interfaces.msg import Log
from rcl_interfaces.srv import DescribeParameters
from sensor_msgs.msg import CameraInfo, Image

from edgetpu_msgs.msg import ServoError
from edgetpu_msgs.srv import UnloadModel
from testdata.running_nodes.running_tracker import (
    PERCEPTION,
    Tracker,
    header,
    image_message,
    set_parameter,
    spot,
    values,
)

pytestmark = pytest.mark.usefixtures("spot_driver")


@pytest.fixture(scope="module")
def tracker(start_tracker: Callable[..., Tracker]) -> Tracker:
    return start_tracker("tracker")


def test_a_result_carries_the_header_of_its_image_and_the_exact_position(tracker: Tracker) -> None:
    result = tracker.show(image_message(7, spot()))
    assert result.header == header(7)
    assert result.valid
    assert result.confidence == 1.0
    assert (result.x, result.y) == pytest.approx((41.5 / 31.5 - 1, 21.5 / 31.5 - 1), abs=1e-6)
    assert 0 < result.x_sigma < 0.01


def test_every_encoding_gives_the_same_position(tracker: Tracker) -> None:
    bgr = np.repeat(spot()[..., np.newaxis], 3, axis=2)
    expected = tracker.show(image_message(8, spot()))
    for encoding, image in (("bgr8", bgr), ("mono16", spot().astype("<u2") * 257)):
        result = tracker.show(image_message(8, image, encoding))
        assert values(result) == values(expected)


def test_a_reader_of_detections_gets_the_square_around_the_spot(tracker: Tracker, graph: Any) -> None:
    detections = pytest.importorskip("vision_msgs.msg", reason="needs vision_msgs").Detection2DArray
    found = graph.collect(detections, f"/{tracker.name}/detections")

    def told() -> bool:
        tracker.show(image_message(11, spot()))
        return bool(found)

    graph.spin_until(told)
    (detection,) = found[-1].detections
    assert found[-1].header == detection.header == header(11)
    assert (detection.bbox.center.position.x, detection.bbox.center.position.y) == pytest.approx((41.5, 21.5))
    area = 4 * 4  # px of the spot
    assert detection.bbox.size_x == detection.bbox.size_y == pytest.approx(math.sqrt(4 * area / math.pi))


def test_without_a_spot_the_numbers_are_nan(tracker: Tracker) -> None:
    result = tracker.show(image_message(9, np.zeros((64, 64), np.uint8)))
    assert result.header == header(9)
    assert not result.valid
    assert all(map(math.isnan, (result.x, result.y, result.x_sigma, result.bearing_x)))


def test_without_camera_info_there_is_no_bearing(tracker: Tracker) -> None:
    result = tracker.show(image_message(10, spot()))
    assert math.isnan(result.bearing_x)
    assert math.isnan(result.bearing_y_sigma)


@pytest.fixture(scope="module")
def calibrated(start_tracker: Callable[..., Tracker]) -> Tracker:
    return start_tracker("calibrated")


def test_camera_info_gives_bearings(calibrated: Tracker, graph: Any) -> None:
    tracker = calibrated
    info = CameraInfo(width=64, height=64, k=[100.0, 0.0, 31.5, 0.0, 50.0, 31.5, 0.0, 0.0, 1.0])
    results: list[ServoError] = []

    def with_bearing() -> bool:
        # Two topics: nothing says which message the node sees first.
        tracker.camera_infos.publish(info)
        results.append(tracker.show(image_message(11, spot())))
        return not math.isnan(results[-1].bearing_x)

    graph.spin_until(with_bearing)
    expected = math.atan(10 / 100), math.atan(-10 / 50)
    assert (results[-1].bearing_x, results[-1].bearing_y) == pytest.approx(expected, abs=1e-6)
    assert results[-1].bearing_x_sigma > 0


def test_a_field_of_view_replaces_camera_info(start_tracker: Callable[..., Tracker], graph: Any) -> None:
    tracker = start_tracker("assumed", horizontal_fov=math.pi / 2)
    result = tracker.show(image_message(11, spot()))
    # 90 degrees over 64 px: the focal length is 32 px.
    expected = math.atan(10 / 32), math.atan(-10 / 32)
    assert (result.bearing_x, result.bearing_y) == pytest.approx(expected, abs=1e-6)
    info = CameraInfo(width=64, height=64, k=[100.0, 0.0, 31.5, 0.0, 50.0, 31.5, 0.0, 0.0, 1.0])

    def calibrated() -> bool:
        tracker.camera_infos.publish(info)
        bearing = tracker.show(image_message(11, spot())).bearing_x
        return bearing == pytest.approx(math.atan(10 / 100), abs=1e-6)

    graph.spin_until(calibrated)


def test_images_of_another_size_than_the_camera_are_reported_once(calibrated: Tracker) -> None:
    info = CameraInfo(width=64, height=64, k=[100.0, 0.0, 31.5, 0.0, 50.0, 31.5, 0.0, 0.0, 1.0])
    calibrated.camera_infos.publish(info)
    while math.isnan(calibrated.show(image_message(14, spot())).bearing_x):
        pass
    for second, size in enumerate((32, 48, 64, 32, 48), start=15):
        calibrated.show(image_message(second, np.zeros((size, size), np.uint8)))
    assert calibrated.process.output.count("camera_info is for images of 64x64 px") == 1


def test_two_cameras_on_one_topic_do_not_flood_the_log(
    spot_models: Path,
    graph: Any,  # noqa: ARG001 - rclpy runs
    capfd: pytest.CaptureFixture[str],
) -> None:
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    arguments = ["--ros-args", "-p", f"model_dir:={spot_models}"]
    node = SpotTrackerNode(namespace="alternating", cli_args=arguments)
    matrix = [100.0, 0.0, 31.5, 0.0, 50.0, 31.5, 0.0, 0.0, 1.0]
    for _ in range(3):
        node._on_camera_info(CameraInfo(width=64, height=64))
        node._on_camera_info(CameraInfo(width=64, height=64, k=matrix))
        node.on_result(SimpleNamespace(stamp=1.0, image_width=32, image_height=32))
    node.destroy_node()
    log = capfd.readouterr().err
    assert log.count("camera_info is uncalibrated: K is 0") == 1
    assert log.count("camera_info is for images of 64x64 px; got 32x32") == 1


def test_a_camera_without_calibration_is_reported_as_that(calibrated: Tracker) -> None:
    calibrated.camera_infos.publish(CameraInfo(width=64, height=64))
    while "camera_info is uncalibrated: K is 0" not in calibrated.diagnostic().message:
        pass
    assert math.isnan(calibrated.show(image_message(19, spot())).bearing_x)


def test_a_calibration_for_images_of_another_size_is_a_warning(calibrated: Tracker) -> None:
    info = CameraInfo(width=64, height=64, k=[100.0, 0.0, 31.5, 0.0, 50.0, 31.5, 0.0, 0.0, 1.0])
    calibrated.camera_infos.publish(info)
    while math.isnan(calibrated.show(image_message(30, spot())).bearing_x):
        pass
    calibrated.show(image_message(31, np.zeros((32, 32), np.uint8)))
    status = calibrated.diagnostic()
    assert "camera_info is for images of 64x64 px; got 32x32, so there are no angles" in status.message
    assert status.level == DiagnosticStatus.WARN


def test_diagnostics_say_what_came_of_the_images(tracker: Tracker) -> None:
    before = tracker.counters()
    for second in range(20, 25):
        tracker.show(image_message(second, spot()))
    after = tracker.counters()
    assert {key: after[key] - before[key] for key in after} == {
        "images": 5,
        "results": 5,
        "valid": 5,
        "limited": 0,
        "dropped": 0,
        "malformed": 0,
        "failed": 0,
        "unreadable": 0,
        "errors": 0,
        "lost": 0,
    }


def test_diagnostics_warn_when_no_images_come(tracker: Tracker) -> None:
    tracker.diagnostic()
    status = tracker.diagnostic()
    assert (status.level, status.message) == (b"\x01", "no images")


def test_a_debug_image_is_there_for_who_wants_it(tracker: Tracker, graph: Any) -> None:
    debug_images = graph.collect(Image, "/tracker/debug_image", 1)
    graph.spin_until(lambda: graph.node.count_subscribers("/tracker/debug_image") == 1)

    def shown() -> bool:
        tracker.show(image_message(30, spot()))
        return bool(debug_images)

    graph.spin_until(shown)
    message = debug_images[0]
    assert message.header == header(30)
    assert (message.encoding, message.height, message.width, message.step) == ("rgb8", 64, 64, 192)
    picture = np.frombuffer(message.data, np.uint8).reshape(64, 64, 3)
    # The crosshair runs through the spot's row and column, rounded to even: (42, 22).
    assert picture[22, 2].tolist() == [80, 220, 80]
    assert picture[2, 42].tolist() == [80, 220, 80]


def test_nothing_is_drawn_without_subscribers(spot_models: Path, graph: Any) -> None:
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    drawn = []

    class Watched(SpotTrackerNode):
        def draw(self, image: Any, result: Any) -> Any:
            drawn.append(result)
            return super().draw(image, result)

    node = Watched(
        namespace="unseen",
        cli_args=["--ros-args", "-p", f"model_dir:={spot_models}", "-p", "driver:=/edgetpu"],
    )
    graph.add_node(node)
    publisher = graph.node.create_publisher(Image, "/unseen/image", 10)
    results = graph.collect(ServoError, "/unseen/spot_tracker/servo_error")
    graph.spin_until(lambda: publisher.get_subscription_count() == 1)

    def answered() -> bool:
        publisher.publish(image_message(40, spot()))
        graph.spin_for(0.05)
        return len(results) >= 3

    graph.spin_until(answered)
    assert drawn == []
    node.destroy_node()


@pytest.mark.parametrize("roi", [[1, 2, 3], [-1, 0, 0, 0], [0, 0, 1 << 40, 5]])
def test_an_invalid_region_is_refused(tracker: Tracker, graph: Any, roi: list[int]) -> None:
    answer = set_parameter(graph, tracker.name, "roi", roi)
    assert not answer.successful
    assert f"roi: expected x offset, y offset, width and height, 0 px or more; got {roi}" in answer.reason


def test_an_image_waits_while_an_unloaded_model_is_loaded_again(tracker: Tracker, graph: Any) -> None:
    before = tracker.counters()
    assert graph.call(UnloadModel, "/edgetpu/unload_model", name="spot_bright_64x64").success
    assert tracker.show(image_message(65, spot())).valid
    after = tracker.counters()
    assert (after["failed"], after["dropped"]) == (before["failed"], before["dropped"])


def test_an_algorithm_that_fails_does_not_end_the_node(spot_models: Path, graph: Any) -> None:
    from edgetpu_perception import SpotTracker
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    class FailingTracker(SpotTracker):
        def postprocess(self, frame: Any, outputs: Any) -> Any:
            if frame.stamp < 67:
                raise ZeroDivisionError("no such spot")
            return super().postprocess(frame, outputs)

    class Failing(SpotTrackerNode):
        def start(self, algorithm: Any) -> None:  # noqa: ARG002
            super().start(FailingTracker())

    options = ["--ros-args", "-p", f"model_dir:={spot_models}", "-p", "driver:=/edgetpu"]
    node = Failing(namespace="shaky", cli_args=[*options, "-p", "qos_reliability:=reliable"])
    graph.add_node(node)
    publisher = graph.node.create_publisher(Image, "/shaky/image", 10)
    results = graph.collect(ServoError, "/shaky/spot_tracker/servo_error")
    logs = graph.collect(Log, "/rosout", 100)

    def failed_twice() -> bool:
        publisher.publish(image_message(66, spot()))
        graph.spin_for(0.1)
        return node.counters.failed >= 2

    graph.spin_until(failed_twice)

    def answered() -> bool:
        publisher.publish(image_message(67, spot()))
        graph.spin_for(0.1)
        return bool(results)

    graph.spin_until(answered)
    assert all(result.header == header(67) for result in results)

    def lines() -> int:
        return sum("no result: ZeroDivisionError: no such spot" in log.msg for log in logs)

    graph.spin_until(lambda: lines() > 0)
    assert lines() == 1
    node.destroy_node()


def test_min_confidence_can_be_changed_while_the_node_runs(tracker: Tracker, graph: Any) -> None:
    two_spots = np.maximum(spot(20, 40), spot(40, 10))
    assert tracker.show(image_message(70, two_spots)).valid
    assert set_parameter(graph, "tracker", "min_confidence", 0.6).successful
    result = tracker.show(image_message(71, two_spots))
    assert not result.valid
    assert result.confidence == pytest.approx(0.495)
    assert set_parameter(graph, "tracker", "min_confidence", 0.2).successful


def test_a_bad_parameter_value_is_refused_with_a_reason(tracker: Tracker, graph: Any) -> None:
    refusal = set_parameter(graph, tracker.name, "min_confidence", 2.0)
    assert not refusal.successful
    assert "min_confidence" in refusal.reason


def test_every_parameter_is_described(tracker: Tracker, graph: Any) -> None:
    names = [*("driver", "model", "model_dir", "image_transport", "qos_reliability", "qos_depth")]
    names += ["rectified", "horizontal_fov", "rate_limit", "roi", "min_confidence", "color"]
    service = f"/{tracker.name}/describe_parameters"
    descriptors = graph.call(DescribeParameters, service, names=names).descriptors
    assert all("efault" in descriptor.description for descriptor in descriptors)
    changeable = [descriptor.name for descriptor in descriptors if not descriptor.read_only]
    assert changeable == ["rate_limit", "roi", "min_confidence"]


def test_one_process_gives_the_same_values(
    tracker: Tracker, start_node: Callable[..., Any], graph: Any, spot_models: Path
) -> None:
    noisy = np.clip(np.random.default_rng(6).normal(spot() * 0.6 + 40, 8), 0, 255).astype(np.uint8)
    tracker.show(image_message(79, spot()))  # what both have seen last
    expected = tracker.show(image_message(80, noisy))
    process = start_node(
        PERCEPTION,
        "single_process",
        *("-r", "__ns:=/alone", "-r", "image:=/alone/spot_tracker_camera/image"),
        *("--", "--nodes", "spot_tracker"),
        backend="cpu",
        model_dirs=f"['{spot_models}']",
        model_dir=spot_models,
        qos_reliability="reliable",
    )
    alone = Tracker(graph, "alone/spot_tracker", process)
    alone.warm_up()
    assert values(alone.show(image_message(80, noisy))) == values(expected)
    process.stop()


def test_it_stops_cleanly(tracker: Tracker) -> None:
    tracker.process.stop()
