"""What the log says about images that do not arrive, and about parameters that a node does not have."""

from __future__ import annotations

import array
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from builtin_interfaces.msg import Time
from rcl_interfaces.msg import Log, Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from edgetpu_driver.node_kit import silent_topic
from edgetpu_driver.node_kit.images.missing_images import MissingImages
from edgetpu_driver.node_kit.images.sequence_gaps import SequenceGaps
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_msgs.msg import ServoError
from edgetpu_perception.graphs import families
from edgetpu_perception.nodes.looming_node import LoomingNode

PERCEPTION = "edgetpu_perception"


class FakeNode:
    """Collects log lines; has a given number of publishers, all with one reliability."""

    def __init__(self, reliability: str = "reliable", **publishers: int) -> None:
        self.lines: list[str] = []
        self.publishers = publishers
        self._profile = QoSProfile(depth=1, reliability=ReliabilityPolicy[reliability.upper()])

    def get_logger(self) -> FakeNode:
        return self

    def warning(self, line: str) -> None:
        self.lines.append(line)

    info = warning

    def count_publishers(self, topic: str) -> int:
        return self.publishers.get(topic.strip("/").replace("/", "_"), 0)

    def get_publishers_info_by_topic(self, topic: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(qos_profile=self._profile)] * self.count_publishers(topic)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its only item is the time that the watch sees, s."""
    now = [0.0]
    monkeypatch.setattr(silent_topic.time, "monotonic", lambda: now[0])
    return now


def watch(
    node: FakeNode, topic: str = "/image", compressed: bool = False, reliable: bool = False
) -> MissingImages:
    made: Any = MissingImages
    return made(node, topic, compressed=compressed, reliable=reliable)


def test_a_camera_that_dies_is_reported_and_so_is_its_return(clock: list[float]) -> None:
    node = FakeNode(image=1)
    images = watch(node)
    for second, received in ((1, 30), (2, 60), (11.9, 60), (12, 60), (20, 60), (21, 90)):
        clock[0] = second
        images.step(received, 0)
    assert node.lines == ["no images on /image for 10 s (60 before that)", "images arrive on /image again"]


def test_a_process_that_takes_long_to_start_reports_no_missing_images(clock: list[float]) -> None:
    node = FakeNode(image=1)
    images = watch(node)
    for second, received in ((30, 0), (39.9, 0), (40.1, 1)):
        clock[0] = second
        images.step(received, 0)
    assert node.lines == []


def test_a_camera_that_starts_late_gets_as_long_for_its_first_image(clock: list[float]) -> None:
    node = FakeNode()
    images = watch(node)
    for clock[0] in (0.0, 9.0):
        images.step(0, 0)
    node.publishers["image"] = 1
    for clock[0] in (9.5, 19.4):
        images.step(0, 0)
    assert node.lines == []
    clock[0] = 19.5
    images.step(0, 0)
    assert node.lines == ["no images on /image for 10 s (none before that)"]


def test_a_camera_that_is_restarted_again_and_again_is_reported(clock: list[float]) -> None:
    node = FakeNode(image=1)
    images = watch(node)
    for second in range(12):
        clock[0], node.publishers["image"] = second, second % 2
        images.step(0, 0)
    assert node.lines == ["no images on /image for 10 s (none before that)"]


@pytest.mark.parametrize(
    ("publishers", "topic", "compressed", "hint"),
    [
        (
            {"image_compressed": 1},
            "/image",
            False,
            "; there is /image/compressed: set image_transport to compressed",
        ),
        ({"image": 1}, "/image/compressed", True, "; there is /image: set image_transport to raw"),
        ({}, "/image", False, "; it has no publisher"),
        ({"image": 1, "image_compressed": 1}, "/image", False, ""),
    ],
)
def test_where_the_images_are_is_named(
    clock: list[float], publishers: dict[str, int], topic: str, compressed: bool, hint: str
) -> None:
    node = FakeNode(**publishers)
    images = watch(node, topic, compressed)
    for clock[0] in (0.0, 10.0):
        images.step(0, 0)
    assert node.lines == [f"no images on {topic} for 10 s (none before that){hint}"]


@pytest.mark.parametrize(
    ("offered", "asked", "hint"),
    [
        ("best_effort", True, "; they are published best effort: set qos_reliability to best_effort"),
        ("best_effort", False, ""),
        ("reliable", True, ""),
    ],
)
def test_a_camera_that_offers_less_than_is_asked_is_named(
    clock: list[float], offered: str, asked: bool, hint: str
) -> None:
    node = FakeNode(offered, image=1)
    images = watch(node, reliable=asked)
    for clock[0] in (0.0, 10.0):
        images.step(0, 0)
    assert node.lines == [f"no images on /image for 10 s (none before that){hint}"]


@pytest.mark.usefixtures("clock")
class TestLoss:
    def test_lost_images_are_reported_once_with_the_cure(self) -> None:
        node = FakeNode(image=1)
        images = watch(node)
        images.step(20, 0)
        images.step(35, 5)
        images.step(50, 10)
        assert len(node.lines) == 1
        assert node.lines[0].startswith("5 of 20 images on /image were lost between camera and node; ")
        assert "config/fastdds.xml" in node.lines[0]
        assert node.lines[0].endswith("or set qos_reliability to reliable")

    def test_a_node_that_asks_for_reliable_images_hears_of_the_publishers_queue(self) -> None:
        node = FakeNode(image=1)
        watch(node, reliable=True).step(15, 5)
        assert node.lines[0].endswith("increase the depth of its publisher")

    def test_a_single_lost_image_is_not_reported(self) -> None:
        node = FakeNode(image=1)
        watch(node).step(29, 1)
        assert node.lines == []

    def test_two_publishers_on_a_topic_are_no_loss(self) -> None:
        node = FakeNode(image=2)
        watch(node).step(15, 5)
        assert node.lines == []


def test_gaps_in_sequence_numbers_are_lost_messages() -> None:
    gaps = SequenceGaps()
    for number in (7, 8, 11, 12, 3, 4, 6):
        gaps.add({"publication_sequence_number": number})
    assert (gaps.take(), gaps.take()) == (3, 0)


def test_messages_of_several_publishers_are_no_gaps() -> None:
    gaps = SequenceGaps()
    for number in (1000, 5, 1001, 6, 7, 1003, 9):
        gaps.add({"publication_sequence_number": number})
    assert gaps.take() == 2  # 1002 and 8


def test_a_middleware_without_sequence_numbers_loses_nothing() -> None:
    gaps = SequenceGaps()
    for _ in range(3):
        gaps.add({"publication_sequence_number": None})
    assert gaps.take() == 0


def image_message(second: int) -> Image:
    data = array.array("B", np.full((64, 64), second % 255, np.uint8).tobytes())
    stamp = Time(sec=second)
    return Image(header=Header(stamp=stamp), height=64, width=64, encoding="mono8", step=64, data=data)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("watch_models")


def test_a_region_outside_the_image_is_refused_once_images_have_come(
    graph: Any, start_node: Callable[..., Any], models: Path
) -> None:
    start_node(
        "edgetpu_driver", "edgetpu_node", "-r", "__node:=watch", backend="cpu", model_dirs=f"['{models}']"
    )
    start_node(
        PERCEPTION,
        "spot_tracker",
        "-r",
        "image:=/watched",
        driver="watch",
        model_dir=models,
        qos_reliability="reliable",
    )
    images = graph.node.create_publisher(Image, "/watched", 10)
    results = graph.collect(ServoError, "/spot_tracker/servo_error")
    seconds = iter(range(1, 10_000))

    def answered() -> bool:
        images.publish(image_message(next(seconds)))
        graph.spin_for(0.1, lambda: bool(results))
        return bool(results)

    graph.spin_until(answered)
    value = ParameterValue(type=ParameterType.PARAMETER_INTEGER_ARRAY, integer_array_value=[32, 0, 33, 64])
    parameters = [Parameter(name="roi", value=value)]
    (answer,) = graph.call(SetParameters, "/spot_tracker/set_parameters", parameters=parameters).results
    assert not answer.successful
    assert (
        answer.reason
        == "roi: region outside the image: expected a part of the image of 64x64 px; got 33x64 px at (32, 0)"
    )


def test_a_camera_whose_driver_does_not_scale_12_bits_to_16_is_reported(
    graph: Any, start_node: Callable[..., Any], models: Path
) -> None:
    process = start_node(
        PERCEPTION,
        "single_process",
        *("-r", "__ns:=/dim", "--", "--nodes", "spot_tracker"),
        backend="cpu",
        model_dir=models,
        model_dirs=f"['{models}']",
    )
    images = graph.node.create_publisher(Image, "/dim/image", 10)
    dim = image_message(1)
    dim.encoding, dim.step, dim.data = "mono16", 128, np.full((64, 64), 4095, "<u2").tobytes()
    report = (
        "images on /dim/image have 16 bits, and the first one is almost black: "
        "if the camera has 10 or 12 bits, have its driver scale them to 16 or publish mono8"
    )

    def reported() -> bool:
        images.publish(dim)
        return report in process.output

    graph.spin_until(reported)


def test_a_parameter_that_the_node_does_not_have_is_reported(
    graph: Any, start_node: Callable[..., Any], models: Path, tmp_path: Path
) -> None:
    path = tmp_path / "parameters.yaml"
    path.write_text(
        "/**:\n  ros__parameters:\n    qos_depht: 3\n    passes: 2\n"
        "/**/looming:\n  ros__parameters:\n    min_confidense: 0.5\n    wheels: 4\n"
    )
    process = start_node(PERCEPTION, "looming", "--params-file", str(path), model_dir=models)
    graph.spin_until(lambda: "'wheels'" in process.output.rpartition("\n")[0])  # the whole line
    warnings = [line.partition("[looming]: ")[2] for line in process.output.splitlines() if "[WARN]" in line]
    assert [line for line in warnings if "there is no parameter" in line] == [
        "there is no parameter 'min_confidense'; did you mean 'min_confidence'?",
        "there is no parameter 'qos_depht'; did you mean 'qos_depth'?",
        "there is no parameter 'wheels'; there are deadline, debug_rate, driver, horizontal_fov, "
        "image_transport, min_confidence, min_expansion_rate, model, model_dir, qos_depth, qos_reliability, "
        "rate_limit, rectified, roi, size, width",
    ]


def test_a_parameter_for_all_nodes_is_not_reported_if_another_node_has_a_section_with_it(
    graph: Any, start_node: Callable[..., Any], models: Path, tmp_path: Path
) -> None:
    path = tmp_path / "parameters.yaml"
    path.write_text(
        "/**:\n  ros__parameters:\n    passes: 2\n"
        "/**/reservoir:\n  ros__parameters:\n    passes: 4\n"
        "/**/looming:\n  ros__parameters:\n    wheels: 4\n"
    )
    process = start_node(PERCEPTION, "looming", "--params-file", str(path), model_dir=models)
    graph.spin_until(lambda: "'wheels'" in process.output.rpartition("\n")[0])  # the last warning
    assert "'passes'" not in process.output


def test_a_camera_with_compressed_images_only_is_named(
    graph: Any, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silent_topic, "SILENCE", math.inf)
    latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    logs = graph.collect(Log, "/rosout", latched)
    graph.node.create_publisher(CompressedImage, "/squeezed/compressed", 1)
    options = ["--ros-args", "-r", "__ns:=/squeezed", "-r", "image:=/squeezed", "-p", f"model_dir:={models}"]
    node = LoomingNode(cli_args=options)
    graph.add_node(node)
    graph.spin_until(lambda: node.count_publishers("/squeezed/compressed") > 0)
    monkeypatch.setattr(silent_topic, "SILENCE", 0.0)
    silence = "no images on /squeezed for 0 s (none before that)"
    line = f"{silence}; there is /squeezed/compressed: set image_transport to compressed"
    graph.spin_until(lambda: line in [log.msg for log in logs])
    graph.remove_node(node)
    node.destroy_node()


def test_a_normal_start_warns_of_nothing(graph: Any, start_node: Callable[..., Any], models: Path) -> None:
    config = str(Path(__file__).parents[1] / "config" / "edgetpu.yaml")
    process = start_node(
        PERCEPTION,
        "single_process",
        *("--params-file", config, "-r", "__ns:=/usual", "-p", "backend:=virtual"),
        *("-p", f"model_dir:={models}", "-p", f"model_dirs:=['{models}']"),
        *("--", "--nodes", "looming,pattern_tracker,place_recognition,spot_tracker,spectrum"),
    )
    for model in ("looming_64x64", "pattern_64x64_16x16", "spot_bright_64x64", "dense_256"):
        graph.spin_until(lambda model=model: f"model '{model}' is loaded" in process.output, 60.0)
    warnings = [line for line in process.output.splitlines() if "[WARN]" in line]
    assert [line for line in warnings if "no images on" not in line] == []  # there is no camera here


def test_a_model_packed_for_the_virtual_stick_is_not_called_loaded_on_a_real_one(
    graph: Any, start_node: Callable[..., Any], tmp_path: Path
) -> None:
    name = "spot_bright_64x64"
    plain = families.write_model(name, tmp_path)
    (tmp_path / f"{name}_edgetpu.tflite").write_bytes(pack(plain.read_bytes(), name=name))
    process = start_node(
        PERCEPTION,
        "single_process",
        *("-r", "__ns:=/packed", "--", "--nodes", "spot_tracker"),
        backend="usb",
        model_dir=tmp_path,
        model_dirs=f"['{tmp_path}']",
    )
    graph.spin_until(lambda: "loaded, but it cannot run here" in process.output)
    assert "is loaded on" not in process.output
