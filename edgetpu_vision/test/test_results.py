"""Results of the decoders: properties that follow from their fields."""

from __future__ import annotations

from edgetpu_vision import Classification, Classifications, Detection, Detections


def test_a_box_has_a_size_and_a_centre_in_px() -> None:
    box = Detection(3, "cat", 0.5, 10, 20, 30, 60)
    assert (box.width, box.height, box.center) == (20, 40, (20, 40))


def test_the_confidence_of_detections_is_the_highest_score() -> None:
    first, second = Detection(1, "", 0.75, 0, 0, 1, 1), Detection(1, "", 0.5, 0, 0, 1, 1)
    found = Detections(0.0, 640, 480, (first, second))
    assert (found.valid, found.confidence) == (True, 0.75)


def test_nothing_found_is_not_valid() -> None:
    assert (Detections(0.0, 640, 480, ()).valid, Detections(0.0, 640, 480, ()).confidence) == (False, 0.0)
    assert (Classifications(0.0, ()).valid, Classifications(0.0, ()).confidence) == (False, 0.0)


def test_the_confidence_of_classifications_is_the_highest_score() -> None:
    classes = Classification(7, "cat", 0.5), Classification(8, "dog", 0.25)
    assert Classifications(0.0, classes).confidence == 0.5
