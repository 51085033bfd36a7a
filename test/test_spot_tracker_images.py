"""Which images the spot tracker node takes, and with which models: each with a node of its own."""

from __future__ import annotations

import array
import functools
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
from sensor_msgs.msg import CompressedImage, Image

from edgetpu_msgs.msg import ServoError
from testdata import ModelFolder
from testdata.running_nodes import running_tracker
from testdata.running_nodes.running_tracker import DRIVER, Tracker, header, image_message, set_parameter, spot

pytestmark = pytest.mark.usefixtures("spot_driver")


@pytest.fixture
def start_tracker(start_briefly: Callable[..., Any], graph: Any, spot_models: Path) -> Callable[..., Tracker]:
    """Starts trackers that stop when the test ends; see running_tracker.start_tracker for what it takes."""
    return functools.partial(running_tracker.start_tracker, graph, start_briefly, spot_models)


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


def test_results_resume_when_the_driver_is_back(
    start_node: Callable[..., Any], start_tracker: Callable[..., Tracker], graph: Any, spot_models: Path
) -> None:
    def start_driver() -> Any:
        return start_node(
            DRIVER, "edgetpu_node", "-r", "__node:=mortal", backend="cpu", model_dirs=f"['{spot_models}']"
        )

    driver = start_driver()
    tracker = start_tracker("survivor", driver="mortal")
    assert tracker.show(image_message(90, spot())).valid
    driver.kill()
    start_driver()

    def resumed() -> bool:
        tracker.images.publish(image_message(91, spot()))
        graph.spin_for(0.1)
        return tracker.results[-1].header == header(91)

    graph.spin_until(resumed)
    assert tracker.results[-1].valid
