"""The numbers of a result are read by the description of its topic."""

from __future__ import annotations

from types import SimpleNamespace

from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue

VALUES = ResultValue("yaw", "heading", "rad", "yaw_sigma"), ResultValue("score", "similarity")


def test_the_fields_are_validity_and_each_value_with_its_sigma() -> None:
    topic = ResultTopic("heading", SimpleNamespace, VALUES)
    assert topic.fields == ("valid", "confidence", "yaw", "yaw_sigma", "score")


def test_a_flat_message_has_the_numbers_as_fields() -> None:
    message = SimpleNamespace(header=None, valid=True, confidence=0.5, yaw=0.1, yaw_sigma=0.01, score=0.9)
    assert ResultTopic("heading", SimpleNamespace, VALUES).numbers(message) == {
        "valid": True,
        "confidence": 0.5,
        "yaw": 0.1,
        "yaw_sigma": 0.01,
        "score": 0.9,
    }


def test_numbers_of_another_message_are_derived_from_it() -> None:
    topic = ResultTopic(
        "poses",
        SimpleNamespace,
        (ResultValue("count", "number of people"),),
        row=lambda message: {"valid": True, "confidence": 1.0, "count": len(message.people), "other": 3},
    )
    assert topic.numbers(SimpleNamespace(people=[1, 2])) == {"valid": True, "confidence": 1.0, "count": 2}


def test_a_message_may_say_in_words_what_was_found() -> None:
    match = SimpleNamespace(label="kitchen")
    assert ResultTopic("match", SimpleNamespace, (), word="label").text(match) == "kitchen"
    assert ResultTopic("match", SimpleNamespace, ()).text(match) == ""
