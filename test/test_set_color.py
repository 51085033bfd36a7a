"""~/set_color of the spot tracker node, on the CPU engine and on a virtual stick."""

from __future__ import annotations

import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_msgs.msg import ErrorCode, ServoError
from edgetpu_msgs.srv import SetColor
from edgetpu_perception.graphs import spot_tracker_evidence
from testdata import ModelFolder

PLACES = {"red": (41.5, 21.5), "green": (51.5, 51.5), "blue": (11.5, 41.5)}
"""Centres of three blocks of 4x4 px in the image, column and row."""


def primaries(second: int) -> Image:
    """A red, a green and a blue block on black."""
    image = np.zeros((64, 64, 3), np.uint8)
    for channel, (x, y) in enumerate(PLACES.values()):
        image[int(y - 1.5) : int(y + 2.5), int(x - 1.5) : int(x + 2.5), channel] = 255
    return Image(
        header=Header(stamp=Time(sec=second), frame_id="camera"),
        height=64,
        width=64,
        encoding="rgb8",
        step=192,
        data=array.array("B", image.tobytes()),
    )


class Tracker:
    """A spot tracker, with its own driver, that looks at the primaries."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def place(self) -> tuple[float, float]:
        """Where it sees its spot in the next image it works on, px."""
        return pixels(self.node.look(primaries))

    def set(self, **request: Any) -> SetColor.Response:
        """Call ~/set_color, again while the driver is not in time."""
        answer: SetColor.Response = self.node.change(primaries, SetColor, "set_color", **request)
        return answer


def pixels(result: ServoError) -> tuple[float, float]:
    return (result.x + 1) * 31.5, (result.y + 1) * 31.5


@pytest.fixture(scope="module")
def start_tracker(node_with_driver: Callable[..., Any]) -> Callable[..., Tracker]:
    """Takes a name, a backend, where models are to lie, and parameters."""

    def start(name: str, backend: str, models: Path, **parameters: Any) -> Tracker:
        options = {"name": name, "backend": backend, "models": models} | parameters
        return Tracker(node_with_driver("spot_tracker", ServoError, "servo_error", **options))

    return start


@pytest.fixture(scope="module", params=["cpu", "virtual"])
def tracker(
    request: Any, start_tracker: Callable[..., Tracker], tmp_path_factory: pytest.TempPathFactory
) -> Tracker:
    models = tmp_path_factory.mktemp("models")
    return start_tracker(f"colors_{request.param}", request.param, models, color="red")


def near(color: str) -> Any:
    return pytest.approx(PLACES[color], abs=1e-4)


def test_the_images_after_the_answer_are_looked_at_for_the_new_color(tracker: Tracker) -> None:
    assert tracker.place() == near("red")
    answer = tracker.set(preset="blue")
    assert (answer.success, answer.message, answer.error.value) == (True, "", ErrorCode.NONE)
    assert answer.applied.tolist() == pytest.approx([-0.5, -0.5, 1.0])
    assert tracker.place() == near("blue")
    assert tracker.set(rgb=[-0.5, 1.0, -0.5]).success
    assert tracker.place() == near("green")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"preset": "brown"}, "expected a colour of red, green, "),
        ({"rgb": [0.0, -1.0, 0.0]}, "expected at least one positive weight"),
        ({"rgb": [float("nan"), 0.0, 1.0]}, "expected three finite weights"),
        ({"preset": "blue", "rgb": [0.0, 1.0, 0.0]}, "expected a preset or rgb; got both"),
    ],
)
def test_a_bad_color_is_refused_and_the_old_one_stays(
    tracker: Tracker, request_: dict[str, Any], message: str
) -> None:
    assert tracker.set(preset="red").success
    answer = tracker.set(**request_)
    assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_INPUT)
    assert message in answer.message
    assert tracker.place() == near("red")


def test_while_a_color_is_set_the_node_is_busy_for_others(tracker: Tracker) -> None:
    colors = ["green", *["red", "blue"] * 4]

    def ask() -> list[SetColor.Response]:
        tracker.place()
        answers: list[SetColor.Response] = tracker.node.call_at_once(
            SetColor, "set_color", [{"preset": color} for color in colors]
        )
        return answers

    answers = ask()
    while any(tracker.node.is_late(answer) for answer in answers):
        answers = ask()
    assert {answer.error.value for answer in answers} == {ErrorCode.NONE, ErrorCode.BUSY}
    assert {answer.message for answer in answers} == {"", "other weights are being set"}
    set_last = max(index for index, answer in enumerate(answers) if answer.success)
    assert tracker.place() == near(colors[set_last])


def test_no_image_is_looked_at_for_a_mixture_of_colors(tracker: Tracker) -> None:
    tracker.place()
    with tracker.node.watching(primaries):
        for color in ("red", "blue", "green") * 10:
            assert tracker.set(preset=color).success
            assert pixels(tracker.node.next_result()) == near(color)
    assert all(any(pixels(result) == near(color) for color in PLACES) for result in tracker.node.results)


def test_a_restarted_driver_gets_the_color_again(tracker: Tracker) -> None:
    tracker.place()
    assert tracker.set(preset="green").success
    tracker.node.driver.kill()
    tracker.node.start_driver()
    assert tracker.place() == near("green")


def test_a_restarted_tracker_tracks_the_color_that_was_set(
    start_tracker: Callable[..., Tracker], tmp_path: Path
) -> None:
    tracker = start_tracker("reborn", "cpu", tmp_path, color="red")
    tracker.place()
    assert tracker.set(preset="blue").success
    tracker.node.process.kill()
    tracker.node.start_node_process()
    assert tracker.place() == near("blue")
    tracker.node.process.kill()
    tracker.node.start_node_process(color="green")  # a parameter that was changed takes precedence
    assert tracker.place() == near("green")


def test_a_restarted_tracker_replaces_the_weights_that_another_color_left_in_its_model(
    start_tracker: Callable[..., Tracker], tmp_path: Path
) -> None:
    tracker = start_tracker("thrice", "cpu", tmp_path, color="red")
    for color in ("blue", "red"):  # the model for red gets weights for blue, and that for blue those for red
        tracker.place()
        assert tracker.set(preset=color).success
        tracker.node.process.kill()
        tracker.node.start_node_process()
    assert tracker.place() == near("red")


def test_a_tracker_for_brightness_turns_to_a_color(
    start_tracker: Callable[..., Tracker], tmp_path: Path
) -> None:
    tracker = start_tracker("turning", "cpu", tmp_path)
    tracker.place()
    answer = tracker.set(preset="blue")
    assert answer.success, answer.message
    assert tracker.place() == near("blue")
    assert tracker.set(preset="red").success
    assert tracker.place() == near("red")


def test_a_color_whose_graph_cannot_be_written_is_refused_and_brightness_stays(
    start_tracker: Callable[..., Tracker], tmp_path: Path
) -> None:
    tracker = start_tracker("unwritable", "cpu", tmp_path)
    before = tracker.place()
    file = tmp_path / f"{spot_tracker_evidence.name('red')}.tflite"
    file.mkdir()
    answer = tracker.set(preset="red")
    assert (answer.success, answer.error.value) == (False, ErrorCode.DEVICE)
    assert answer.message == f"cannot write the model {file.stem} to {tmp_path}: Is a directory"
    assert tracker.place() == before
    file.rmdir()
    assert tracker.set(preset="red").success
    assert tracker.place() == near("red")


def test_a_color_asked_for_while_the_graph_for_colors_is_loaded_comes_into_force(
    start_tracker: Callable[..., Tracker], tmp_path: Path
) -> None:
    tracker = start_tracker("hasty", "cpu", tmp_path)
    tracker.place()
    assert tracker.set(preset="blue").success
    answer = tracker.set(preset="green")
    assert answer.success, answer.message
    assert tracker.place() == near("green")


def test_the_parameter_takes_weights(start_tracker: Callable[..., Tracker], tmp_path: Path) -> None:
    tracker = start_tracker("weights", "cpu", tmp_path, color="[-1.0, -1.0, 2.0]")
    assert tracker.place() == near("blue")


@pytest.mark.parametrize("backend", ["cpu", "virtual"])
def test_a_model_made_by_others_for_red_looks_for_blue(
    start_tracker: Callable[..., Tracker], tmp_path: Path, golden: ModelFolder, backend: str
) -> None:
    golden.model("color_red_64x64.tflite")
    golden.model("color_red_64x64_edgetpu.tflite")
    tracker = start_tracker(f"guest_{backend}", backend, tmp_path, model="color_red_64x64", color="blue")
    # One step of its int8 output is 0.34 px.
    assert tracker.place() == pytest.approx(PLACES["blue"], abs=0.4)
    assert tracker.set(preset="red").success
    assert tracker.place() == pytest.approx(PLACES["red"], abs=0.4)


def test_a_model_for_brightness_of_others_is_refused_a_color(
    start_tracker: Callable[..., Tracker], tmp_path: Path, golden: ModelFolder
) -> None:
    golden.model("bright_64x64.tflite")
    tracker = start_tracker("grey", "cpu", tmp_path, model="bright_64x64")
    tracker.place()
    answer = tracker.set(preset="red")
    assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_MODEL)
    assert "expected a model for a colour; 'bright_64x64' takes grey" in answer.message
