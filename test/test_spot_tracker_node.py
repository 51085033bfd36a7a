"""The spot tracker node beside a driver node, each in a process of its own, and both in one."""

from __future__ import annotations

import array
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import Log, Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, SetParameters
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header

from edgetpu_msgs.msg import ServoError
from edgetpu_msgs.srv import SetColor, UnloadModel
from testdata import ModelFolder

PERCEPTION, DRIVER = "edgetpu_perception", "edgetpu_driver"


def spot(y: int = 20, x: int = 40) -> np.ndarray:
    """A bright block of 4x4 pixels in 64x64; its centre is 1.5 pixels further right and down."""
    image = np.zeros((64, 64), np.uint8)
    image[y : y + 4, x : x + 4] = 255
    return image


def header(second: int, nanosecond: int = 123456789) -> Header:
    return Header(stamp=Time(sec=second, nanosec=nanosecond), frame_id="camera_optical_frame")


def image_message(second: int, image: np.ndarray, encoding: str = "mono8") -> Image:
    height, width = image.shape[:2]
    data = array.array("B", image.tobytes())
    return Image(
        header=header(second),
        height=height,
        width=width,
        encoding=encoding,
        step=image.nbytes // height,
        data=data,
    )


def values(message: Any) -> str:
    """All fields, so that two messages with NaN in the same places compare equal."""
    return repr(message)


class Tracker:
    """A running tracker as its users see it: publishes images, collects what comes out."""

    def __init__(self, graph: Any, name: str, process: Any, image_type: Any = Image) -> None:
        self._graph, self.name, self.process = graph, name, process
        transport = "/compressed" if image_type is CompressedImage else ""
        self.results = graph.collect(ServoError, f"/{name}/servo_error")
        self._diagnostics = graph.collect(DiagnosticArray, "/diagnostics")
        self.images = graph.node.create_publisher(image_type, f"/{name}_camera/image{transport}", 10)
        self.camera_infos = graph.node.create_publisher(CameraInfo, f"/{name}_camera/camera_info", 10)
        graph.spin_until(lambda: self.images.get_subscription_count() == 1)

    def warm_up(self) -> None:
        """Show images until results come: the middleware joins publishers and subscribers at its leisure."""
        seconds = itertools.count(1)  # a rate limit must not take them for one image

        def answers() -> bool:
            self.images.publish(image_message(next(seconds), spot()))
            self._graph.spin_for(0.1)
            return bool(self.results)

        self._graph.spin_until(answers)
        self._graph.spin_for(0.3)
        self.results.clear()

    def show(self, message: Image) -> ServoError:
        """Publish one image and wait for its result."""
        count = len(self.results)
        self.images.publish(message)

        def answers() -> list[ServoError]:
            return [result for result in self.results[count:] if result.header.stamp == message.header.stamp]

        self._graph.spin_until(lambda: bool(answers()))
        return answers()[0]

    def diagnostic(self) -> Any:
        """The next report of this node."""
        self._diagnostics.clear()

        def ours() -> list[Any]:
            entries = [status for report in self._diagnostics for status in report.status]
            return [status for status in entries if status.name == f"{self.name}: images"]

        self._graph.spin_until(lambda: bool(ours()))
        return ours()[-1]

    def counters(self) -> dict[str, int]:
        return {pair.key: int(pair.value) for pair in self.diagnostic().values}


@pytest.fixture(scope="module")
def start_tracker(graph: Any, start_node: Callable[..., Any], models: Path) -> Callable[..., Tracker]:
    """Starts tracker nodes, each under a name and with a camera of its own; parameters by keyword."""

    def start(name: str, image_type: Any = Image, warm_up: bool = True, **parameters: Any) -> Tracker:
        camera = f"/{name}_camera"
        process = start_node(
            PERCEPTION,
            "spot_tracker",
            *("-r", f"__node:={name}", "-r", f"image:={camera}/image"),
            *("-r", f"camera_info:={camera}/camera_info"),
            **{"qos_reliability": "reliable", "model_dir": models} | parameters,
        )
        tracker = Tracker(graph, name, process, image_type)
        if warm_up:
            tracker.warm_up()
        return tracker

    return start


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spot_models")


@pytest.fixture(scope="module", autouse=True)
def driver(start_node: Callable[..., Any], models: Path, golden: ModelFolder) -> Any:
    return start_node(DRIVER, "edgetpu_node", backend="cpu", model_dirs=[str(models), str(golden.path)])


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
    info = CameraInfo(width=64, height=64, k=[100.0, 0, 31.5, 0, 50.0, 31.5, 0, 0, 1])
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
    info = CameraInfo(width=64, height=64, k=[100.0, 0, 31.5, 0, 50.0, 31.5, 0, 0, 1])

    def calibrated() -> bool:
        tracker.camera_infos.publish(info)
        bearing = tracker.show(image_message(11, spot())).bearing_x
        return bearing == pytest.approx(math.atan(10 / 100), abs=1e-6)

    graph.spin_until(calibrated)


def test_images_of_another_size_than_the_camera_are_reported_once(calibrated: Tracker) -> None:
    info = CameraInfo(width=64, height=64, k=[100.0, 0, 31.5, 0, 50.0, 31.5, 0, 0, 1])
    calibrated.camera_infos.publish(info)
    while math.isnan(calibrated.show(image_message(14, spot())).bearing_x):
        pass
    for second, size in enumerate((32, 48, 64, 32, 48), start=15):
        calibrated.show(image_message(second, np.zeros((size, size), np.uint8)))
    assert calibrated.process.output.count("camera_info is for images of 64x64 px") == 1


def test_a_camera_without_calibration_is_reported_as_that(calibrated: Tracker) -> None:
    calibrated.camera_infos.publish(CameraInfo(width=64, height=64))
    while "camera_info is uncalibrated: K is 0" not in calibrated.diagnostic().message:
        pass
    assert math.isnan(calibrated.show(image_message(19, spot())).bearing_x)


def malformed() -> list[Image]:
    good = image_message(12, spot())
    wrong_step = image_message(12, spot(), "rgb8")
    short = image_message(12, spot())
    short.data = short.data[:-1]
    unknown = image_message(12, spot(), "mono9")
    empty = Image(header=good.header, encoding="mono8")
    return [wrong_step, short, unknown, empty]


def test_malformed_images_are_counted_reported_once_and_skipped(
    start_tracker: Callable[..., Tracker], graph: Any
) -> None:
    reasons = (
        "wrong step: expected at least 192 bytes a row for rgb8; got 64",
        "wrong data length: expected 64 rows of 64 = 4096 bytes; got 4095",
        "unknown encoding: expected one of mono8",
        "empty: expected at least one pixel; got 0x0",
    )
    tracker = start_tracker("picky")
    before = tracker.counters()
    for message, reason in zip(malformed(), reasons, strict=True):
        tracker.images.publish(message)
        graph.spin_until(lambda reason=reason: reason in tracker.process.output)
    tracker.images.publish(malformed()[0])
    while tracker.counters()["malformed"] < before["malformed"] + 5:
        pass
    assert tracker.show(image_message(13, spot())).header == header(13)
    assert len(tracker.results) == 1
    after = tracker.counters()
    assert after["malformed"] - before["malformed"] == 5
    assert after["images"] - before["images"] == 6
    assert [tracker.process.output.count(reason) for reason in reasons] == [1] * 4


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


def test_nothing_is_drawn_without_subscribers(models: Path, graph: Any) -> None:
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    drawn = []

    class Watched(SpotTrackerNode):
        def draw(self, image: Any, result: Any) -> Any:
            drawn.append(result)
            return super().draw(image, result)

    node = Watched(
        namespace="unseen",
        cli_args=["--ros-args", "-p", f"model_dir:={models}", "-p", "driver:=/edgetpu"],
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


def test_a_compressed_image_is_tracked(start_tracker: Callable[..., Tracker], graph: Any) -> None:
    tracker = start_tracker("squeezed", CompressedImage, warm_up=False, image_transport="compressed")
    data = array.array("B", cv2.imencode(".png", spot())[1].tobytes())
    message = CompressedImage(header=header(50), format="png", data=data)

    def answers() -> bool:
        tracker.images.publish(message)
        graph.spin_for(0.1)
        return bool(tracker.results)

    graph.spin_until(answers)
    assert tracker.results[0].header == header(50)
    assert tracker.results[0].x == pytest.approx(41.5 / 31.5 - 1, abs=1e-6)


def test_a_color_can_be_chosen(start_tracker: Callable[..., Tracker]) -> None:
    tracker = start_tracker("colored", color="blue")
    picture = np.stack([spot(20, 40), np.zeros((64, 64), np.uint8), spot(40, 10)], axis=2)
    result = tracker.show(image_message(51, picture, "rgb8"))
    assert (result.x, result.y) == pytest.approx((11.5 / 31.5 - 1, 41.5 / 31.5 - 1), abs=1e-6)


def test_a_model_of_another_library_is_decoded(
    start_tracker: Callable[..., Tracker], golden: ModelFolder
) -> None:
    golden.model("bright_64x64.tflite")
    tracker = start_tracker("guest", model="bright_64x64")
    result = tracker.show(image_message(52, spot()))
    # One step of its int8 output is 0.0108.
    assert (result.x, result.y) == pytest.approx((41.5 / 31.5 - 1, 21.5 / 31.5 - 1), abs=0.0108)


def test_a_model_for_something_else_is_reported(
    start_tracker: Callable[..., Tracker], golden: ModelFolder
) -> None:
    golden.model("looming_64x64_3x3.tflite")
    tracker = start_tracker("misled", warm_up=False, model="looming_64x64_3x3")
    tracker.images.publish(image_message(53, spot()))
    while "expected an output [1, 64, 64, 1] or two coordinates" not in tracker.diagnostic().message:
        pass
    assert tracker.results == []


def test_a_region_can_be_chosen_while_the_node_runs(
    start_tracker: Callable[..., Tracker], graph: Any
) -> None:
    tracker = start_tracker("narrow", horizontal_fov=1.0)
    two = spot(20, 40) // 2 + spot(30, 8)
    whole = tracker.show(image_message(57, two))
    assert set_parameter(graph, "narrow", "roi", [32, 0, 0, 32]).successful
    part = tracker.show(image_message(58, two))
    assert (whole.x, whole.y) == pytest.approx((9.5 / 31.5 - 1, 31.5 / 31.5 - 1), abs=1e-3)
    assert (part.x, part.y) == pytest.approx((41.5 / 31.5 - 1, 21.5 / 31.5 - 1), abs=1e-2)
    focal_length = 32 / math.tan(0.5)
    assert part.bearing_x == pytest.approx(math.atan((41.5 - 31.5) / focal_length), abs=1e-2)
    assert part.bearing_y == pytest.approx(math.atan((21.5 - 31.5) / focal_length), abs=1e-2)


@pytest.mark.parametrize("roi", [[1, 2, 3], [-1, 0, 0, 0], [0, 0, 1 << 40, 5]])
def test_a_region_that_is_none_is_refused(tracker: Tracker, graph: Any, roi: list[int]) -> None:
    answer = set_parameter(graph, tracker.name, "roi", roi)
    assert not answer.successful
    assert f"roi: expected x offset, y offset, width and height, 0 px or more; got {roi}" in answer.reason


def test_an_image_that_the_region_sticks_out_of_gives_no_result(
    start_tracker: Callable[..., Tracker],
) -> None:
    tracker = start_tracker("wide", warm_up=False, roi="[0, 0, 65, 64]")
    while tracker.counters()["failed"] < 2:
        tracker.images.publish(image_message(59, spot()))
    assert tracker.results == []
    tracker.process.stop()
    line = "expected a part of the image of 64x64 px; got 65x64 px at (0, 0)"
    assert tracker.process.output.count(line) == 1


def test_rate_limit_leaves_images_out_by_their_stamps(start_tracker: Callable[..., Tracker]) -> None:
    tracker = start_tracker("slow", rate_limit=2.0)
    before = tracker.counters()
    for tenth in range(11):
        message = image_message(60 + tenth // 10, spot())
        message.header.stamp.nanosec = tenth % 10 * 100_000_000
        if tenth % 5:
            tracker.images.publish(message)
        else:
            assert tracker.show(message).header == message.header
    assert [result.header.stamp.sec >= 60 for result in tracker.results].count(True) == 3
    after = tracker.counters()
    # Those that waited in the queue behind a newer one count as dropped.
    assert sum(after[key] - before[key] for key in ("limited", "dropped")) == 8


def test_images_without_a_stamp_pass_the_rate_limit(
    start_tracker: Callable[..., Tracker], graph: Any
) -> None:
    tracker = start_tracker("unstamped", rate_limit=2.0)
    for count in range(1, 4):
        message = image_message(0, spot())
        message.header.stamp.nanosec = 0
        tracker.images.publish(message)

        def answers() -> list[ServoError]:
            return [result for result in tracker.results if result.header.stamp == Time()]

        graph.spin_until(lambda count=count: len(answers()) == count)


def test_an_image_waits_while_an_unloaded_model_is_loaded_again(tracker: Tracker, graph: Any) -> None:
    before = tracker.counters()
    assert graph.call(UnloadModel, "/edgetpu/unload_model", name="spot_bright_64x64").success
    assert tracker.show(image_message(65, spot())).valid
    after = tracker.counters()
    assert (after["failed"], after["dropped"]) == (before["failed"], before["dropped"])


def test_an_algorithm_that_fails_does_not_end_the_node(models: Path, graph: Any) -> None:
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

    options = ["--ros-args", "-p", f"model_dir:={models}", "-p", "driver:=/edgetpu"]
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
    lines = [log.msg for log in logs if "no result: ZeroDivisionError: no such spot" in log.msg]
    assert len(lines) == 1
    node.destroy_node()


def set_parameter(graph: Any, node: str, name: str, value: float | list[int]) -> Any:
    if isinstance(value, list):
        message = ParameterValue(type=ParameterType.PARAMETER_INTEGER_ARRAY, integer_array_value=value)
    else:
        message = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)
    parameters = [Parameter(name=name, value=message)]
    (result,) = graph.call(SetParameters, f"/{node}/set_parameters", parameters=parameters).results
    return result


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


def test_a_bad_parameter_at_start_ends_the_node_with_one_line(start_node: Callable[..., Any]) -> None:
    process = start_node(PERCEPTION, "spot_tracker", color="brown")
    assert process.wait() == 1
    assert process.output.strip().splitlines()[-1] == (
        "spot_tracker: parameter 'color': expected a colour of red, green, blue, yellow, cyan, "
        "magenta, white; got 'brown'"
    )


@pytest.mark.parametrize("name", ["bad name", "1st", "a//b", "{x}", "tail/"])
def test_a_driver_name_that_is_none_is_refused(name: str, models: Path, graph: Any) -> None:  # noqa: ARG001
    from edgetpu_driver.node_kit.fatal_error import FatalError
    from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode

    with pytest.raises(FatalError, match="parameter 'driver': expected a node's name"):
        SpotTrackerNode(cli_args=["--ros-args", "-p", f"driver:='{name}'", "-p", f"model_dir:={models}"])


def test_every_parameter_is_described(tracker: Tracker, graph: Any) -> None:
    names = [*("driver", "model", "model_dir", "image_transport", "qos_reliability", "qos_depth")]
    names += ["rectified", "horizontal_fov", "rate_limit", "roi", "min_confidence", "color"]
    service = f"/{tracker.name}/describe_parameters"
    descriptors = graph.call(DescribeParameters, service, names=names).descriptors
    assert all("efault" in descriptor.description for descriptor in descriptors)
    changeable = [descriptor.name for descriptor in descriptors if not descriptor.read_only]
    assert changeable == ["rate_limit", "roi", "min_confidence"]


def test_a_model_directory_that_cannot_be_written_ends_the_node_with_one_line(
    start_node: Callable[..., Any],
) -> None:
    process = start_node(PERCEPTION, "spot_tracker", model_dir="/proc/models")
    assert process.wait() == 1
    assert "cannot write the model spot_bright_64x64 to /proc/models" in process.output
    assert "Traceback" not in process.output


def test_one_process_gives_the_same_values(
    tracker: Tracker, start_node: Callable[..., Any], graph: Any, models: Path
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
        model_dirs=f"['{models}']",
        model_dir=models,
        qos_reliability="reliable",
    )
    alone = Tracker(graph, "alone/spot_tracker", process)
    alone.warm_up()
    assert values(alone.show(image_message(80, noisy))) == values(expected)
    process.stop()


def test_an_unknown_node_is_refused(start_node: Callable[..., Any]) -> None:
    process = start_node(PERCEPTION, "single_process", "--", "--nodes", "nose")
    assert process.wait() == 2
    assert "spot_tracker, visual_compass, " in process.output
    assert "; got 'nose'" in process.output


def test_results_resume_when_the_driver_is_back(
    start_node: Callable[..., Any], start_tracker: Callable[..., Tracker], graph: Any, models: Path
) -> None:
    def start_driver() -> Any:
        return start_node(
            DRIVER, "edgetpu_node", "-r", "__node:=mortal", backend="cpu", model_dirs=f"['{models}']"
        )

    driver = start_driver()
    tracker = start_tracker("survivor", driver="mortal")
    assert tracker.show(image_message(90, spot())).valid
    driver.kill()
    start_driver()

    def resumed() -> bool:
        tracker.images.publish(image_message(91, spot()))
        graph.spin_for(0.1)
        return len(tracker.results) > 1

    graph.spin_until(resumed, 40.0)
    assert tracker.results[-1].header == header(91)
    assert tracker.results[-1].valid


def test_it_stops_cleanly(tracker: Tracker) -> None:
    tracker.process.stop()


def test_weights_that_the_driver_was_too_late_for_are_set_with_the_next_image(
    graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgetpu_driver.errors import EdgeTpuError, ExpiredError
    from edgetpu_driver.host.model_host import ModelHost
    from edgetpu_driver.node_kit import model_client
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
    late += [ExpiredError("too late")] * 2
    (name,) = [model.name for model in driver.active_host().models()]
    driver.active_host().unload(name, "/spot_tracker")
    seen = sees(11.5)
    graph.spin_until(lambda: seen() and not late)  # results of before the unload may still come
    results.clear()
    graph.spin_until(seen)
    assert all((result.x + 1) * 31.5 == pytest.approx(11.5, abs=0.01) for result in results)
    tracker.destroy_node()
    driver.destroy_node()
