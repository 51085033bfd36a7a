"""~/set_template of the pattern tracker node, on the CPU engine and on a virtual stick."""

from __future__ import annotations

import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_msgs.msg import ErrorCode, PatternMatch
from edgetpu_msgs.srv import LoadModel, MatMul, SetTemplate, SetWeights
from testdata import ModelFolder
from testdata.running_nodes.node_with_driver import NodeWithDriver
from testdata.timeouts import PATIENCE


def texture(seed: int) -> NDArray[np.uint8]:
    smooth = cv2.GaussianBlur(np.random.default_rng(seed).normal(size=(64, 64)), (0, 0), 1.5)
    return np.clip(np.rint(128 + 45 * smooth / smooth.std()), 0, 255).astype(np.uint8)


VIEW = texture(1)
CORNERS = {"first": (20, 30), "second": (40, 8), "third": (6, 11)}
"""Of three patches of VIEW, column and row."""


def message(second: int, pixels: NDArray[np.uint8]) -> Image:
    height, width = pixels.shape
    return Image(
        header=Header(stamp=Time(sec=second), frame_id="camera"),
        height=height,
        width=width,
        encoding="mono8",
        step=width,
        data=array.array("B", pixels.tobytes()),
    )


def patch(name: str, side: int = 16) -> NDArray[np.uint8]:
    x, y = CORNERS[name]
    return VIEW[y : y + side, x : x + side].copy()


def near(name: str, side: int = 16, tolerance: float = 1e-3) -> Any:
    """The centre of a patch, px."""
    return pytest.approx([corner + (side - 1) / 2 for corner in CORNERS[name]], abs=tolerance)


class Tracker:
    """A pattern tracker with its own driver."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def look(self, view: NDArray[np.uint8] = VIEW) -> PatternMatch:
        """What comes of the next image that it works on."""
        return self.node.look(lambda second: message(second, view))

    def place(self) -> tuple[float, float]:
        result = self.look()
        return result.x, result.y

    def set(self, pixels: NDArray[np.uint8]) -> SetTemplate.Response:
        """Call ~/set_template, again while the driver is not in time."""
        answer: SetTemplate.Response = self.node.change(
            lambda second: message(second, VIEW), SetTemplate, "set_template", **request(pixels)
        )
        return answer


def request(pixels: NDArray[np.uint8]) -> dict[str, Image]:
    """The fields of a request for a template that VIEW shows."""
    return {"patch": message(0, pixels), "view": message(0, VIEW)}


@pytest.fixture(scope="module")
def start_tracker(node_with_driver: Callable[..., Any]) -> Callable[..., Tracker]:
    """Takes a name, a backend, where models are to lie, and parameters."""

    def start(name: str, backend: str, models: Path, **parameters: Any) -> Tracker:
        options = {"name": name, "backend": backend, "models": models} | parameters
        return Tracker(node_with_driver("pattern_tracker", PatternMatch, "match", **options))

    return start


@pytest.fixture(scope="module", params=["cpu", "virtual"])
def tracker(
    request: Any, start_tracker: Callable[..., Tracker], tmp_path_factory: pytest.TempPathFactory
) -> Tracker:
    models = tmp_path_factory.mktemp("models")
    tracker = start_tracker(f"templates_{request.param}", request.param, models)
    assert not tracker.look().valid
    return tracker


def test_the_images_after_the_answer_are_searched_for_the_new_template(tracker: Tracker) -> None:
    for name in CORNERS:
        answer = tracker.set(patch(name))
        assert (answer.success, answer.error.value) == (True, ErrorCode.NONE)
        assert "it can be distinguished from other objects" in answer.message
        assert tracker.place() == near(name)


@pytest.mark.parametrize(
    ("pixels", "error", "reason"),
    [
        (np.full((16, 16), 90, np.uint8), ErrorCode.REFUSED, "it has no contrast"),
        (np.zeros((0, 0), np.uint8), ErrorCode.BAD_INPUT, "expected at least one pixel; got 0x0"),
    ],
)
def test_a_bad_template_is_refused_and_the_old_one_stays(
    tracker: Tracker, pixels: NDArray[np.uint8], error: int, reason: str
) -> None:
    assert tracker.set(patch("first")).success
    answer = tracker.set(pixels)
    assert (answer.success, answer.error.value) == (False, error)
    assert reason in answer.message
    assert tracker.place() == near("first")


def test_no_image_is_searched_for_a_mixture_of_templates(tracker: Tracker) -> None:
    assert tracker.set(patch("first")).success
    tracker.place()
    with tracker.node.watching(lambda second: message(second, VIEW)):
        for name in tuple(CORNERS) * 5:
            assert tracker.set(patch(name)).success
            after = tracker.node.next_result()
            assert (after.x, after.y) == near(name)
    assert all(any((result.x, result.y) == near(name) for name in CORNERS) for result in tracker.node.results)


def test_a_restarted_driver_gets_the_template_again(tracker: Tracker) -> None:
    assert tracker.set(patch("second")).success
    tracker.node.driver.kill()
    tracker.node.start_driver()
    assert tracker.place() == near("second")


def test_a_restarted_tracker_searches_for_the_template_that_was_set(tracker: Tracker) -> None:
    assert tracker.set(patch("third")).success
    before = tracker.place()
    tracker.node.process.kill()
    tracker.node.start_node_process()
    assert tracker.place() == before == near("third")


def test_while_the_driver_is_away_a_template_is_refused(tracker: Tracker) -> None:
    assert tracker.set(patch("third")).success
    tracker.node.driver.kill()
    answer = tracker.node.call(SetTemplate, "set_template", **request(patch("first")))
    while answer.success:  # the node had not noticed
        answer = tracker.node.call(SetTemplate, "set_template", **request(patch("first")))
    assert answer.error.value == ErrorCode.UNAVAILABLE
    tracker.node.start_driver()
    assert tracker.place() == near("third")


@pytest.mark.parametrize("backend", ["cpu", "virtual"])
def test_a_model_made_by_others_looks_for_a_template_from_a_file(
    start_tracker: Callable[..., Tracker], tmp_path: Path, golden: ModelFolder, backend: str
) -> None:
    golden.model("pattern_64x64_8x8_1ch.tflite")
    cv2.imwrite(str(tmp_path / "pattern.png"), patch("first", 8))
    tracker = start_tracker(
        f"others_{backend}",
        backend,
        tmp_path,
        model="pattern_64x64_8x8_1ch",
        template=tmp_path / "pattern.png",
        template_size=8,
        accept_ambiguous=True,
        min_confidence=0.01,
    )
    # It sees where the response is highest: all but the pattern has less contrast.
    x, y = CORNERS["first"]
    dim = np.rint(128 + (texture(3) - 128.0) / 3).astype(np.uint8)
    dim[y : y + 8, x : x + 8] = patch("first", 8)
    result = tracker.look(dim)
    assert (result.x, result.y) == near("first", 8, tolerance=0.1)


def test_in_one_process_weights_are_set_between_the_images_of_a_camera(
    graph: Any, start_node: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "dense_64.tflite").write_bytes(dense.build(64))
    process = start_node(
        "edgetpu_perception",
        "single_process",
        *("-r", "__ns:=/alone", "-r", "image:=/alone_camera"),
        *("--", "--nodes", "pattern_tracker"),
        backend="virtual",
        model_dirs=f"['{tmp_path}']",
        model_dir=tmp_path,
        qos_reliability="reliable",
    )
    results = graph.collect(PatternMatch, "/alone/pattern_tracker/match")
    images = graph.node.create_publisher(Image, "/alone_camera", 10)
    loaded = "model 'pattern_64x64_16x16' is loaded"
    graph.spin_until(lambda: images.get_subscription_count() == 1 and loaded in process.output)
    graph.await_device("/alone/edgetpu")
    assert graph.call(
        LoadModel, "/alone/edgetpu/load_model", model="dense_64", name="mine", wait=True
    ).success

    def shown(second: int) -> PatternMatch:
        """The result for an image; it is published again if the process stood still and it has none."""
        while second not in (found := {each.header.stamp.sec: each for each in results}):
            images.publish(message(second, VIEW))
            graph.spin_for(PATIENCE / 4, lambda: any(each.header.stamp.sec == second for each in results))
        return found[second]

    service = "/alone/pattern_tracker/set_template"
    for second, name in enumerate(CORNERS, 1):
        while NodeWithDriver.is_late(answer := graph.call(SetTemplate, service, **request(patch(name)))):
            graph.spin_for(0.5)
        assert answer.success, answer.message
        swap = {"weights": [second / 4, 0.0, 0.0, -1.0], "shape": [2, 2]}
        assert graph.call(SetWeights, "/alone/edgetpu/set_weights", model="mine", **swap).success
        result = shown(second)
        assert (result.x, result.y) == near(name)
        product = graph.call(MatMul, "/alone/edgetpu/matmul", model="mine", inputs=[4.0, 1.0])
        assert list(product.outputs) == pytest.approx([second, -1.0], abs=0.05)
