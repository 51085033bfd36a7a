"""Identifiers of objects: which last, which end, and which are given anew."""

from __future__ import annotations

import sys

import pytest

from edgetpu_driver.errors import DependencyMissingError
from edgetpu_vision.detection.detections import Detection, Detections
from edgetpu_vision.tracking.object_tracker import ObjectTracker

PERIOD = 1 / 30


def detection(x: float, class_id: int = 0, score: float = 0.9) -> Detection:
    return Detection(class_id, "", score, x, 100.0, x + 60.0, 220.0)


def image(stamp: float, *detections: Detection) -> Detections:
    return Detections(stamp, 640, 480, detections)


@pytest.fixture
def tracker() -> ObjectTracker:
    pytest.importorskip("edgefirst.tracker", reason="needs edgefirst-tracker")
    return ObjectTracker()


def test_a_moving_object_keeps_its_identifier(tracker: ObjectTracker) -> None:
    ids = {tracker.update(image(step * PERIOD, detection(100 + 8 * step))) for step in range(30)}
    assert ids == {("1",)}


def test_each_object_has_an_identifier_of_its_own(tracker: ObjectTracker) -> None:
    assert tracker.update(image(0.0, detection(100), detection(400))) == ("1", "2")
    assert tracker.update(image(PERIOD, detection(404), detection(104))) == ("2", "1")


def test_objects_of_different_classes_do_not_swap_identifiers_where_they_cross(
    tracker: ObjectTracker,
) -> None:
    found = [
        tracker.update(image(step * PERIOD, detection(100 + 10 * step, 1), detection(400 - 10 * step, 2)))
        for step in range(31)
    ]
    assert set(found) == {("1", "2")}


def test_an_object_that_is_hidden_for_a_moment_keeps_its_identifier(tracker: ObjectTracker) -> None:
    for step in range(5):
        tracker.update(image(step * PERIOD, detection(100)))
    for step in range(5, 15):
        tracker.update(image(step * PERIOD))
    assert tracker.update(image(15 * PERIOD, detection(100))) == ("1",)


def test_an_object_that_returns_late_is_a_new_one(tracker: ObjectTracker) -> None:
    for step in range(5):
        tracker.update(image(step * PERIOD, detection(100)))
    for step in range(5, 45):
        tracker.update(image(step * PERIOD))
    assert tracker.update(image(45 * PERIOD, detection(100))) == ("2",)


def test_an_uncertain_detection_begins_no_track_but_continues_one(tracker: ObjectTracker) -> None:
    assert tracker.update(image(0.0, detection(100, score=0.3))) == ("",)
    assert tracker.update(image(PERIOD, detection(100, score=0.9))) == ("1",)
    assert tracker.update(image(2 * PERIOD, detection(100, score=0.3))) == ("1",)


@pytest.mark.parametrize("stamp", [0.5, 5.0])
def test_a_jump_in_time_forgets_all_objects(tracker: ObjectTracker, stamp: float) -> None:
    for step in range(5):
        tracker.update(image(1.0 + step * PERIOD, detection(100)))
    assert tracker.update(image(stamp, detection(100))) == ("2",)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "edgefirst.tracker", None)
    with pytest.raises(DependencyMissingError, match="pip install edgefirst-tracker"):
        ObjectTracker()
