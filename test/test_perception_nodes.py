"""The perception nodes and a driver, in separate processes and all in one, on known scenes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistWithCovarianceStamped
from sensor_msgs.msg import Image
from std_srvs.srv import Trigger

from edgetpu_msgs.msg import ErrorCode, ServoError
from edgetpu_msgs.srv import ListModels, SetTemplate
from testdata.running_nodes.node_with_driver import NodeWithDriver
from testdata.running_nodes.shown_images import RESULTS, Camera, header, image_message

PERCEPTION = "edgetpu_perception"
SIZE = 256
FIELD_OF_VIEW = 1.0
FOCAL_LENGTH = SIZE / 2 / math.tan(FIELD_OF_VIEW / 2)
MIDDLE = (SIZE - 1) / 2


def texture(seed: int = 5) -> np.ndarray:
    """Smooth random structure of several sizes, 1024 x 1024 px."""
    random = np.random.default_rng(seed)
    layers = [
        cv2.resize(random.normal(size=(n, n)), (1024, 1024), interpolation=cv2.INTER_CUBIC) * 24
        for n in (16, 32, 64, 128)
    ]
    return np.clip(128 + sum(layers), 0, 255).astype(np.uint8)


TEXTURE = texture()


def window(x: int, y: int) -> np.ndarray:
    return np.ascontiguousarray(TEXTURE[y : y + SIZE, x : x + SIZE])


VIEW = window(300, 400)
PATCH, OTHER_PATCH = VIEW[100:164, 60:124], VIEW[30:94, 120:184]


def magnified(scale: float) -> np.ndarray:
    """The texture seen straight on, larger by `scale`."""
    matrix = np.array([[scale, 0, MIDDLE - scale * 512], [0, scale, MIDDLE - scale * 512]])
    return cv2.warpAffine(TEXTURE, matrix, (SIZE, SIZE), flags=cv2.INTER_LINEAR)


def turned(yaw: float) -> np.ndarray:
    """A wall far away, seen by a camera that has turned left by `yaw`, rad."""
    camera = np.array([[FOCAL_LENGTH, 0, MIDDLE], [0, FOCAL_LENGTH, MIDDLE], [0, 0, 1]])
    wall = np.array([[FOCAL_LENGTH, 0, 512], [0, FOCAL_LENGTH, 512], [0, 0, 1]])
    cosine, sine = math.cos(yaw), math.sin(yaw)
    rotation = np.array([[cosine, 0, -sine], [0, 1, 0], [sine, 0, cosine]])  # optical frame: y is down
    to_wall = wall @ rotation @ np.linalg.inv(camera)
    return cv2.warpPerspective(TEXTURE, to_wall, (SIZE, SIZE), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("perception_models")


@pytest.fixture(scope="module")
def parameters(models: Path) -> dict[str, Any]:
    return {"qos_reliability": "reliable", "model_dir": models, "horizontal_fov": FIELD_OF_VIEW}


@pytest.fixture(scope="module")
def processes(
    start_node: Callable[..., Any], models: Path, parameters: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """A driver, the nodes each with a camera of its own, and all nodes in one process.

    In the end each is asked to stop, which it does in time and without complaints.
    """
    driver = {"backend": "cpu", "model_dirs": f"['{models}']"}
    started = {"edgetpu": start_node("edgetpu_driver", "edgetpu_node", **driver)}
    for name in RESULTS:
        started[name] = start_node(PERCEPTION, name, "-r", f"image:=/{name}_camera", **parameters)
    started["alone"] = start_node(
        PERCEPTION,
        "single_process",
        *("-r", "__ns:=/alone"),
        *("--", "--nodes", ",".join(RESULTS)),
        **driver | parameters,
    )
    with ExitStack() as stops:  # which stops the others if one fails
        for process in started.values():
            stops.callback(process.stop)
        yield started


@pytest.fixture(scope="module")
def cameras(graph: Any, processes: dict[str, Any]) -> dict[str, Camera]:  # noqa: ARG001
    found = {name: Camera(graph, f"/{name}_camera", {name: f"/{name}"}) for name in RESULTS}
    found["alone"] = Camera(graph, "/alone/image", {name: f"/alone/{name}" for name in RESULTS})
    return {name: camera.warm_up() for name, camera in found.items()}


@pytest.fixture
def show(cameras: dict[str, Camera]) -> Callable[[str, float, np.ndarray], Any]:
    """Shows an image to a node, and to all nodes in one process, which must give the same result."""
    for camera in cameras.values():
        camera.show(90.0, np.zeros((32, 32), np.uint8))  # an image of another size ends what was before

    def show(name: str, seconds: float, image: np.ndarray) -> Any:
        result = cameras[name].show(seconds, image)[name]
        # NaN in the same places compares equal in text.
        assert repr(cameras["alone"].show(seconds, image)[name]) == repr(result)
        return result

    return show


def test_flow_is_the_shift_since_the_image_before(show: Callable[..., Any]) -> None:
    first = show("optical_flow", 100.123456789, window(300, 400))
    assert (first.valid, first.previous_stamp) == (False, Time())
    assert all(map(math.isnan, (first.dx, first.dy, first.dx_sigma, first.dy_sigma)))
    second = show("optical_flow", 100.223456789, window(306, 397))
    assert second.valid
    assert second.header == header(100.223456789)
    assert second.previous_stamp == first.header.stamp
    assert (second.dx, second.dy) == pytest.approx((-6, 3), abs=0.2)
    assert 0 < second.dx_sigma < 0.5


def test_flow_of_an_unrelated_image_is_not_a_number(show: Callable[..., Any]) -> None:
    show("optical_flow", 101.0, window(300, 400))
    result = show("optical_flow", 101.1, window(20, 700))
    assert not result.valid
    assert math.isnan(result.dx)
    assert result.previous_stamp == header(101.0).stamp


def test_the_time_to_contact_is_distance_over_speed(show: Callable[..., Any]) -> None:
    for frame in range(26):
        distance = 2.0 - frame / 30  # m, at 1 m/s
        result = show("looming", 200 + frame / 30, magnified(2.0 / distance))
    assert result.valid
    assert result.ttc == pytest.approx(distance, rel=0.05)
    assert result.expansion_rate == pytest.approx(1 / distance, rel=0.05)
    assert 0 < result.ttc_sigma < 0.3
    assert result.approaching
    part = result.region
    assert part.x_offset + part.width / 2 == pytest.approx(SIZE / 2, abs=0.1 * SIZE)
    assert part.width > 0.7 * SIZE
    assert all(zone > 0 for zone in result.zones)


def test_a_static_scene_is_not_approached(show: Callable[..., Any]) -> None:
    for frame in range(10):
        result = show("looming", 210 + frame / 30, magnified(1.2))
    assert not result.approaching


def test_the_first_image_has_zones_but_no_time_to_contact(show: Callable[..., Any]) -> None:
    result = show("looming", 220.0, magnified(1.0))
    assert not result.valid
    assert math.isnan(result.ttc)
    assert math.isfinite(result.tau)


def test_the_heading_follows_the_camera(show: Callable[..., Any], graph: Any) -> None:
    rate = math.radians(20)
    twists = graph.collect(TwistWithCovarianceStamped, "/visual_compass/twist")
    graph.meet("/visual_compass")
    first = show("visual_compass", 300.0, turned(0.0))
    assert (first.valid, first.reference_stamp) == (False, header(300.0).stamp)
    for frame in range(1, 13):
        result = show("visual_compass", 300 + frame / 30, turned(rate * frame / 30))
    assert result.valid
    assert result.reference_stamp == header(300.0).stamp
    assert result.yaw == pytest.approx(rate * 12 / 30, abs=math.radians(0.3))
    assert result.yaw_rate == pytest.approx(rate, abs=math.radians(1.5))
    graph.spin_until(lambda: bool(twists) and twists[-1].header == result.header)
    twist = twists[-1].twist
    assert twist.twist.angular.y == pytest.approx(-rate, abs=math.radians(1.5))
    covariance = np.reshape(twist.covariance, (6, 6))
    assert covariance[:3, :3].tolist() == (np.eye(3) * 1e6).tolist()
    assert math.sqrt(covariance[4, 4]) == pytest.approx(result.yaw_rate_sigma, rel=0.01)


def test_the_heading_can_be_reset(show: Callable[..., Any], graph: Any) -> None:
    show("visual_compass", 309.9, turned(0.0))
    for node in ("visual_compass", "alone/visual_compass"):
        assert graph.call(Trigger, f"/{node}/reset_heading").success
    result = show("visual_compass", 310.0, turned(0.1))
    assert result.reference_stamp == header(310.0).stamp
    result = show("visual_compass", 310.1, turned(0.1))
    assert result.yaw == pytest.approx(0.0, abs=math.radians(0.1))


def test_without_a_template_nothing_is_found(
    start_briefly: Callable[..., Any],
    graph: Any,
    processes: dict[str, Any],  # noqa: ARG001
    parameters: dict[str, Any],
) -> None:
    remappings = ("-r", "image:=/new_camera", "-r", "__node:=new")
    start_briefly(PERCEPTION, "pattern_tracker", *remappings, **parameters)
    camera = Camera(graph, "/new_camera", {"pattern_tracker": "/new"}).warm_up()
    result = camera.show(400.0, window(300, 400))["pattern_tracker"]
    assert not result.valid
    assert all(map(math.isnan, (result.x, result.y, result.score)))


def test_a_template_without_contrast_is_refused(graph: Any, cameras: dict[str, Camera]) -> None:  # noqa: ARG001
    patch = image_message(0, np.full((64, 64), 90, np.uint8))
    refusal = graph.call(SetTemplate, "/pattern_tracker/set_template", patch=patch)
    assert not refusal.success
    assert refusal.error.value == ErrorCode.REFUSED
    assert "it has no contrast" in refusal.message


def test_a_malformed_template_is_refused(graph: Any, cameras: dict[str, Camera]) -> None:  # noqa: ARG001
    patch = image_message(0, window(300, 400))
    patch.step = 3
    refusal = graph.call(SetTemplate, "/pattern_tracker/set_template", patch=patch)
    assert refusal.error.value == ErrorCode.BAD_INPUT
    assert "wrong step" in refusal.message


@pytest.fixture
def set_template(graph: Any, cameras: dict[str, Camera]) -> Callable[[np.ndarray], None]:  # noqa: ARG001
    """Sets a patch of VIEW as the template of both pattern trackers."""

    def set_template(patch: np.ndarray) -> None:
        sent = {"patch": image_message(0, patch), "view": image_message(0, VIEW)}
        for node in ("pattern_tracker", "alone/pattern_tracker"):
            while NodeWithDriver.is_late(answer := graph.call(SetTemplate, f"/{node}/set_template", **sent)):
                graph.spin_for(0.5)
            assert (answer.success, answer.error.value) == (True, ErrorCode.NONE), answer.message
            assert answer.runner_up_score < 0.9

    return set_template


def test_a_template_is_found_where_it_is(show: Callable[..., Any], set_template: Callable[..., None]) -> None:
    for patch in (OTHER_PATCH, PATCH):
        set_template(patch)
        show("pattern_tracker", 400.5, VIEW)
    result = show("pattern_tracker", 401.0, VIEW)
    assert result.valid
    assert (result.x, result.y) == pytest.approx((91.5, 131.5), abs=0.2)
    assert (result.width, result.height) == pytest.approx((64, 64), rel=1e-3)
    assert result.score > 0.99


def test_the_template_that_was_set_is_steered_by(
    show: Callable[..., Any], set_template: Callable[..., None], graph: Any
) -> None:
    set_template(PATCH)
    show("pattern_tracker", 401.0, VIEW)
    servo_errors = graph.collect(ServoError, "/pattern_tracker/servo_error")
    graph.meet("/pattern_tracker")
    # The window has moved right by 9 px and up by 30: the pattern is further left and down.
    result = show("pattern_tracker", 401.1, window(309, 370))
    assert (result.x, result.y) == pytest.approx((82.5, 161.5), abs=0.3)
    graph.spin_until(lambda: bool(servo_errors) and servo_errors[-1].header == result.header)
    assert servo_errors[-1].x == pytest.approx(result.x / MIDDLE - 1, abs=1e-6)
    bearing = math.atan((result.x - MIDDLE) / FOCAL_LENGTH)
    assert servo_errors[-1].bearing_x == pytest.approx(bearing, abs=1e-6)
    assert math.isnan(show("pattern_tracker", 401.2, window(20, 20)).x)  # it is out of view


def test_templates_are_weights_of_a_model_of_the_nodes_own(
    set_template: Callable[..., None], graph: Any
) -> None:
    def version() -> int:
        models = graph.call(ListModels, "/edgetpu/list_models").models
        (found,) = (each for each in models if each.name == "pattern_tracker/pattern_64x64_16x16")
        return int(found.weights_version)

    before = version()
    set_template(PATCH)
    set_template(OTHER_PATCH)
    assert version() >= before + 2  # more if the driver was late


def test_a_template_can_come_from_a_file(
    start_briefly: Callable[..., Any],
    graph: Any,
    processes: dict[str, Any],  # noqa: ARG001
    tmp_path: Path,
    parameters: dict[str, Any],
) -> None:
    path = tmp_path / "pattern.png"
    cv2.imwrite(str(path), PATCH)
    remappings = ("-r", "image:=/filed_camera", "-r", "__node:=filed")
    start_briefly(PERCEPTION, "pattern_tracker", *remappings, template=path, **parameters)
    camera = Camera(graph, "/filed_camera", {"pattern_tracker": "/filed"}).warm_up()
    result = camera.show(410.0, VIEW)["pattern_tracker"]
    assert (result.x, result.y) == pytest.approx((91.5, 131.5), abs=0.2)


@pytest.mark.parametrize(
    ("node", "values", "message"),
    [
        ("pattern_tracker", {"template": "/nowhere.png"}, "'template': /nowhere.png: No such file"),
        ("pattern_tracker", {"template_size": 17}, "expected sizes that are multiples of 2"),
        ("looming", {"size": 100}, "parameter 'size': expected 64, 96 or 128; got 100"),
    ],
    ids=["no such file", "odd template", "size"],
)
def test_a_bad_parameter_ends_the_node_with_a_reason(
    start_node: Callable[..., Any], tmp_path: Path, node: str, values: dict[str, Any], message: str
) -> None:
    process = start_node(PERCEPTION, node, model_dir=tmp_path, **values)
    assert process.wait() == 1
    assert message in process.output
    assert "Traceback" not in process.output


def test_without_a_camera_there_is_no_heading(
    graph: Any,
    models: Path,
    processes: dict[str, Any],  # noqa: ARG001
) -> None:
    from edgetpu_perception.nodes.visual_compass_node import VisualCompassNode

    options = ["--ros-args", "-p", f"model_dir:={models}", "-p", "driver:=/edgetpu"]
    node = VisualCompassNode(namespace="lost", cli_args=[*options, "-p", "qos_reliability:=reliable"])
    graph.add_node(node)
    twists = graph.collect(TwistWithCovarianceStamped, "/lost/visual_compass/twist")
    diagnostics = graph.collect(DiagnosticArray, "/diagnostics")
    camera = Camera(graph, "/lost/image", {"visual_compass": "/lost/visual_compass"}).warm_up()
    for second in (500.0, 500.1):
        result = camera.show(second, turned(0.0))["visual_compass"]
        assert not result.valid
        assert math.isnan(result.yaw)
        assert result.reference_stamp == Time()

    def reported() -> bool:
        entries = [status for report in diagnostics for status in report.status]
        return any(
            status.name == "lost/visual_compass: images" and "no usable camera_info" in status.message
            for status in entries
        )

    graph.spin_until(reported)
    assert twists == []
    node.destroy_node()


@pytest.mark.parametrize("name", RESULTS)
def test_the_debug_image_is_drawn_in_the_size_of_the_image(
    cameras: dict[str, Camera], graph: Any, name: str
) -> None:
    pictures = graph.collect(Image, f"/{name}/debug_image", 1)
    graph.meet(f"/{name}")
    for frame in range(40):
        cameras[name].show(600 + frame / 30, magnified(1.0 + frame / 60))
        if pictures:
            break
        graph.spin_for(0.05)
    graph.spin_until(lambda: bool(pictures))
    assert (pictures[0].encoding, pictures[0].height, pictures[0].width) == ("rgb8", SIZE, SIZE)
    picture = np.frombuffer(pictures[0].data, np.uint8).reshape(SIZE, SIZE, 3)
    assert len(np.unique(picture[..., 0] == picture[..., 1])) == 2  # something coloured on the grey image
