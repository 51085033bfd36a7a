"""The learner node: taught by its topic and from folders, with a driver in the same process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from rclpy.parameter import Parameter
from std_msgs.msg import Header
from vision_msgs.msg import Classification

from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_msgs.msg import ErrorCode
from edgetpu_msgs.srv import Forget, Learn, ListClasses, LoadFile, SaveFile
from edgetpu_vision.nodes import learner_node, lessons
from edgetpu_vision.nodes.learner_node import LearnerNode
from testdata.graphs.color_embedding_graph import colored
from testdata.running_nodes.learner_with_driver import LearnerWithDriver
from testdata.timeouts import PATIENCE

RED, GREEN, BLUE = colored(200, 20, 0), colored(0, 210, 25), colored(15, 0, 190)


@pytest.fixture(autouse=True)
def patience(patient_clients: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Lessons and requests do not end because this process stands still for a while."""
    for module in (learner_node, lessons):
        monkeypatch.setattr(module, "PATIENCE", PATIENCE)


@pytest.fixture
def school(graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LearnerWithDriver]:  # noqa: ARG001
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    school = LearnerWithDriver(tmp_path)
    yield school
    school.close()


def best(message: Classification) -> str:
    assert sum(each.score for each in message.results) == pytest.approx(1.0)
    return message.results[0].class_id


def test_what_was_shown_on_the_topic_is_recognised_and_the_rest_is_unknown(school: LearnerWithDriver) -> None:
    assert best(school.show(RED)) == "unknown"
    first, second = school.teach("red", RED), school.teach("green", GREEN, count=2)
    assert (first.success, first.added, first.classes, first.examples) == (True, 1, 1, 1)
    assert (second.success, second.added, second.classes, second.examples) == (True, 2, 2, 3)
    assert re.fullmatch(
        r"unknown below a cosine of 0\.\d\d, from 2 similarities of known images, 3 of unknown ones, "
        "and typical values",
        second.message,
    )
    found = school.show(colored(180, 25, 8))
    assert (best(found), found.header.frame_id) == ("red", "camera")
    assert [best(school.show(image)) for image in (GREEN, BLUE)] == ["green", "unknown"]


def test_on_the_virtual_stick_the_head_runs_as_a_program_written_here(
    graph: Any,  # noqa: ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    school = LearnerWithDriver(tmp_path, backend="virtual")
    try:
        for label, image in (("red", RED), ("green", GREEN)):
            assert school.teach(label, image).success
        assert [best(school.show(image)) for image in (RED, GREEN, BLUE)] == ["red", "green", "unknown"]
    finally:
        school.close()


def test_a_class_is_taught_from_a_folder_and_forgotten(school: LearnerWithDriver) -> None:
    folder = school.home / "pictures" / "sea"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        cv2.imwrite(str(folder / f"{name}.png"), BLUE[..., ::-1])
    taught = school.call(Learn, "learn", label="sea", folder="sea")
    assert (taught.success, taught.added) == (True, 2)
    assert best(school.show(BLUE)) == "sea"
    forgotten = school.call(Forget, "forget", label="sea")
    assert (forgotten.success, forgotten.removed, forgotten.classes) == (True, 2, 0)
    assert best(school.show(BLUE)) == "unknown"


def test_classes_are_saved_listed_and_loaded(school: LearnerWithDriver) -> None:
    school.teach("red", RED)
    school.teach("green", GREEN)
    saved = school.call(SaveFile, "save_classes", name="colors")
    assert (saved.success, saved.path) == (True, str(school.home / "classes" / "colors.npz"))
    for label in ("red", "green"):
        assert school.call(Forget, "forget", label=label).success
    assert list(school.call(ListClasses, "list_classes").labels) == []
    assert school.call(LoadFile, "load_classes", name="colors").success
    school.spin_until(lambda: best(school.show(RED)) == "red")
    listed = school.call(ListClasses, "list_classes")
    assert (list(listed.labels), list(listed.examples), listed.dimension) == (["red", "green"], [1, 1], 8)
    assert (listed.known, listed.unknown) == (0, 2)


def test_a_folder_with_a_damaged_picture_teaches_nothing(school: LearnerWithDriver) -> None:
    folder = school.home / "pictures" / "sea"
    folder.mkdir(parents=True)
    cv2.imwrite(str(folder / "a.png"), BLUE)
    (folder / "b.png").write_bytes(b"no picture")
    answer = school.call(Learn, "learn", label="sea", folder="sea")
    assert (answer.success, answer.examples, answer.error.value) == (False, 0, ErrorCode.BAD_INPUT)
    assert answer.message.startswith("b.png: ")


@pytest.mark.parametrize(
    "changed",
    [
        Parameter("output", value="embedding"),
        Parameter("fit", value="letterbox"),
        Parameter("channel_order", value="bgr"),
        Parameter("mean", value=[127.5]),
        Parameter("std", value=[2.0]),
        Parameter("input_range", value=[0.0, 128.0]),
    ],
    ids=lambda each: each.name,
)
def test_lessons_end_when_a_parameter_of_embeddings_changes(
    school: LearnerWithDriver, changed: Parameter
) -> None:
    """A class would get embeddings of both, which cannot be compared."""
    (school.home / "pictures" / "sea").mkdir(parents=True)
    cv2.imwrite(str(school.home / "pictures" / "sea" / "a.png"), BLUE)
    answers: list[Learn.Response] = []
    for fields in ({"label": "red"}, {"label": "sea", "folder": "sea"}):
        school.learner._on_learn(Learn.Request(**fields), answers.append)
    (result,) = school.learner.set_parameters([changed])
    assert result.successful
    assert [(each.success, each.error.value) for each in answers] == 2 * [(False, ErrorCode.UNAVAILABLE)]


def test_examples_of_other_colours_are_not_used_until_the_order_is_set_back(
    school: LearnerWithDriver,
) -> None:
    assert school.teach("red", RED).success
    assert school.call(SaveFile, "save_classes", name="rgb").success
    for order, found in (("bgr", "unknown"), ("rgb", "red")):
        (result,) = school.learner.set_parameters([Parameter("channel_order", value=order)])
        assert result.successful
        assert best(school.show(RED)) == found
    assert school.learner.set_parameters([Parameter("channel_order", value="bgr")])[0].successful
    reason = (
        'expected examples made with {"fit": "stretch", "channel_order": "bgr"}; those taught were made with '
        '{"fit": "stretch", "channel_order": "rgb"}: set the parameters back, forget the examples, or load '
        "others"
    )
    assert reason in school.learner.measuring_problems()
    taught, loaded = school.teach("green", GREEN), school.call(LoadFile, "load_classes", name="rgb")
    assert [(each.success, each.message) for each in (taught, loaded)] == 2 * [(False, reason)]
    school.restart_learner(channel_order="bgr")  # the file that is kept says it, too
    assert reason in school.learner.measuring_problems()


def test_a_result_that_cannot_be_published_does_not_hold_up_the_next(
    school: LearnerWithDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.teach("red", RED)
    publish = school.learner.publish
    failures: list[Header] = []

    def fail_once(header: Header, result: Any) -> None:
        if failures:
            publish(header, result)
        else:
            failures.append(header)
            raise ValueError("not to be published")

    monkeypatch.setattr(school.learner, "publish", fail_once)
    header = school.send(RED)
    school.spin_until(lambda: failures == [header])
    assert best(school.show(RED)) == "red"
    assert school.learner.counters.errors == 1


def test_examples_remain_those_of_their_model_while_it_is_not_loaded(school: LearnerWithDriver) -> None:
    school.teach("red", RED)
    model = school.learner._examples.model
    assert model
    school.learner._client._unload("the driver restarts")
    school.learner._end_lesson(Learn.Request(label="green"), lambda _: None, [np.ones(8, np.float32)])
    assert school.learner._examples.model == model


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"label": "unknown"}, "a label other than 'unknown'"),
        (
            {"label": "sea", "folder": "../secrets"},
            "expected the name of a folder, 1 to 100 letters, digits, _ and -; got '../secrets'",
        ),
        ({"label": "sea", "folder": "none"}, "cannot read the folder"),
        ({"label": "sea", "images": 2000}, "at most 1000 images"),
    ],
)
def test_a_lesson_that_cannot_be_is_refused(
    school: LearnerWithDriver, fields: dict[str, Any], reason: str
) -> None:
    answer = school.call(Learn, "learn", **fields)
    assert (answer.success, answer.error.value) == (False, ErrorCode.BAD_INPUT)
    assert reason in answer.message


def test_without_images_a_lesson_ends(school: LearnerWithDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons, "PATIENCE", 0.0)
    answer = school.call(Learn, "learn", label="red", images=3)
    assert (answer.success, answer.error.value) == (False, ErrorCode.UNAVAILABLE)
    assert "0 of 3" in answer.message


def test_without_its_model_a_lesson_ends_with_what_the_model_lacks(
    school: LearnerWithDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    (result,) = school.learner.set_parameters([Parameter("model", value="missing")])
    assert result.successful
    school.spin_until(lambda: "missing" in school.learner._client.problem)
    monkeypatch.setattr(lessons, "PATIENCE", 0.0)
    answer = school.call(Learn, "learn", label="red", images=3)
    assert (answer.success, answer.error.value) == (False, ErrorCode.UNAVAILABLE)
    assert answer.message.startswith("the model is not loaded: no missing.tflite in ")


def test_a_lesson_waits_for_its_turn_while_images_come(school: LearnerWithDriver) -> None:
    for label in ("red", "green"):
        school.learner._on_learn(Learn.Request(label=label, images=2), lambda _: None)
    waiting = list(school.learner._lessons._waiting)
    for lesson in waiting:
        lesson.until = 0.0
    school.learner._lessons.show(np.ones(3, np.float32))
    school.learner._lessons.check()
    assert list(school.learner._lessons._waiting) == waiting


def test_more_lessons_at_a_time_than_can_wait_are_refused(school: LearnerWithDriver) -> None:
    answers: list[Learn.Response] = []
    for number in range(9):
        school.learner._on_learn(Learn.Request(label=f"class {number}"), answers.append)
    assert [(each.success, each.error.value) for each in answers] == [(False, ErrorCode.BUSY)]
    assert answers[0].message == "expected at most 8 lessons at a time; wait for them to end"


def test_a_label_that_was_not_taught_cannot_be_forgotten(school: LearnerWithDriver) -> None:
    answer = school.call(Forget, "forget", label="red")
    assert (answer.success, answer.message) == (
        False,
        "expected a class that was taught (none yet); got 'red'",
    )


def test_a_learner_that_starts_again_knows_what_it_was_taught(school: LearnerWithDriver) -> None:
    school.teach("red", RED)
    school.teach("green", GREEN)
    assert school.call(Forget, "forget", label="green").success
    school.restart_learner()
    head = school.learner._head
    # An image that comes while the layer is being loaded has no result.
    school.spin_until(lambda: head._client is not None and head._client.ready)
    assert best(school.show(RED)) == "red"
    assert list(school.call(ListClasses, "list_classes").labels) == ["red"]
    school.restart_learner(keep_state=False)
    assert list(school.call(ListClasses, "list_classes").labels) == []


def end_lesson(school: LearnerWithDriver, label: str) -> list[Learn.Response]:
    """Have the learner end a lesson of one example; returns the list that gets its answer."""
    answers: list[Learn.Response] = []
    vector = np.ones(school.learner._examples.dimension)
    school.learner._end_lesson(Learn.Request(label=label), answers.append, [vector])
    return answers


def test_a_lower_capacity_costs_nothing_of_what_was_taught(school: LearnerWithDriver) -> None:
    school.teach("red", RED, 2)
    school.restart_learner(capacity=1)
    (refused,) = end_lesson(school, "ones")
    assert refused.message == "expected at most 1 example of all classes, the capacity; got 3"
    school.restart_learner()
    assert list(school.call(ListClasses, "list_classes").examples) == [2]


def test_a_lesson_whose_layer_takes_long_says_that_it_is_not_in_use_yet(
    school: LearnerWithDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.teach("red", RED)
    monkeypatch.setattr(school.learner._head, "_learn", lambda *_: None)
    monkeypatch.setattr(learner_node, "PATIENCE", 0.0)
    answers = end_lesson(school, "ones")
    school.learner._check_deadlines()
    assert (answers[0].success, answers[0].classes) == (True, 2)
    assert answers[0].message == "not in use yet: the layer is still being learned"


def test_a_lesson_is_answered_once_its_own_layer_is_in_use(
    school: LearnerWithDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.teach("red", RED)
    head = school.learner._head
    monkeypatch.setattr(head._client, "set_matrix", lambda _: None)
    first = end_lesson(school, "ones")
    school.spin_until(lambda: head._set_number == head._latest)
    monkeypatch.setattr(head, "_learn", lambda *_: None)
    second = end_lesson(school, "ones again")
    head._on_ready()  # for the layer of the first lesson
    assert [each.message[:13] for each in first] == ["unknown below"]
    assert second == []


def test_a_change_that_cannot_be_saved_says_so_in_its_answer(school: LearnerWithDriver) -> None:
    state = school.home / "edgetpu/state"
    state.parent.mkdir(exist_ok=True)
    state.write_text("in the way of the directory")
    path = state / "school/learner.npz"
    reason = f"not saved, a restart will undo this: cannot write {path}: Not a directory"
    taught = school.teach("red", RED)
    assert (taught.success, taught.examples, taught.message.split("; ")[0]) == (True, 1, reason)
    assert "unknown below a cosine of" in taught.message
    assert school.call(SaveFile, "save_classes", name="colors").success
    loaded = school.call(LoadFile, "load_classes", name="colors")
    assert (loaded.success, loaded.message) == (True, f"{reason}; 1 example")
    forgotten = school.call(Forget, "forget", label="red")
    assert (forgotten.success, forgotten.message) == (True, reason)
    state.unlink()
    assert school.teach("red", RED).message.startswith("unknown below a cosine of")


def test_a_damaged_file_of_what_was_taught_costs_one_warning(school: LearnerWithDriver) -> None:
    school.teach("red", RED)
    path = school.home / "edgetpu/state/school/learner.npz"
    path.write_bytes(path.read_bytes()[:100])
    school.restart_learner()
    assert list(school.call(ListClasses, "list_classes").labels) == []
    assert school.teach("green", GREEN).success
    school.restart_learner()
    assert list(school.call(ListClasses, "list_classes").labels) == ["green"]


def test_a_file_to_start_with_that_is_missing_ends_the_node(graph: Any, tmp_path: Path) -> None:  # noqa: ARG001
    values = [Parameter("directory", value=str(tmp_path)), Parameter("classes", value="none")]
    with pytest.raises(FatalError, match="parameter 'classes': expected a file"):
        LearnerNode(parameter_overrides=values)
