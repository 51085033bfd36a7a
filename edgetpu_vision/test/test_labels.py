"""Labels from files in the usual formats, from known sets, and as users give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgetpu_vision import LabelsError
from edgetpu_vision.class_selection import selected_classes
from edgetpu_vision.labels.label_sources import LabelSource, LabelTable
from edgetpu_vision.labels.label_text import parse_labels
from edgetpu_vision.labels.labels import Labels
from testdata import GOLDEN


def parsed(text: str) -> tuple[str, ...]:
    return parse_labels(text.encode(), "labels.txt").names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cat\ndog\n", ("cat", "dog")),
        ("cat\r\ndog\r\n\r\n", ("cat", "dog")),
        ("\ufeffcat\ndog", ("cat", "dog")),
        ("cat\n\ndog", ("cat", "", "dog")),
        ("0 cat\n2 dog", ("cat", "", "dog")),
        ("0  cat\n1  hot dog\n", ("cat", "hot dog")),
        ("0: cat\n1: dog", ("cat", "dog")),
        ("1,dog\n0,cat", ("cat", "dog")),
        ("0. cat\n1. dog", ("cat", "dog")),
        ("0 - cat\n1 - hot-dog", ("cat", "hot-dog")),
        ("0) cat\n1=dog", ("cat", "dog")),
        ("1.5 litre bottle\n3.2 litre bottle", ("1.5 litre bottle", "3.2 litre bottle")),
        ('"cat"\n"hot ""big"" dog"\n', ("cat", 'hot "big" dog')),
        ("0 'cat'\n2: \"dog\"", ("cat", "", "dog")),
        ("driver's seat\n'tis", ("driver's seat", "'tis")),
        ('"\n"', ('"', '"')),
        ("path: ../coco\nnames:\n  0: person\n  2: 'car'  # of any kind\nnc: 3\n", ("person", "", "car")),
        ("imgsz:\n- 320\nnames:\n- person\n\n- hot dog\n", ("person", "hot dog")),
        ("names: ['person', \"car\"]\nnc: 2\n", ("person", "car")),
        ("names: {0: person, 1: car}\n", ("person", "car")),
        ("names:\n  0: no\n  1: yes\n  2: on\n  3: off\n  4: null\n", ("no", "yes", "on", "off", "null")),
        (
            "names: [No, ~, 007, 1e3, 2026-01-31, 1_0, 12:30, '', true]\n",
            ("No", "~", "007", "1e3", "2026-01-31", "1_0", "12:30", "", "true"),
        ),
        ("names:\r\n  0: person\r\n  1:\r\n  2: car\r\n", ("person", "", "car")),
        ("\ufeffnames: {1: off}\n", ("", "off")),
        ("0 cat\n1\n2 dog\n", ("cat", "", "dog")),
        ("0: cat\n1:\n2: dog\n", ("cat", "", "dog")),
        ("0\n1\n2\n", ("0", "1", "2")),
        ("1\n2\n3 or more\n", ("1", "2", "3 or more")),
        ("0 3\n1 5\n", ("3", "5")),
        ("\ufeff0 cat\r\n\r\n1 dog\r\n", ("cat", "dog")),
        ("3 door car\nfour wheels", ("3 door car", "four wheels")),
        ("7 up\n7 down", ("7 up", "7 down")),
        ("100 m\n200 m\n100 ft", ("100 m", "200 m", "100 ft")),
        ('["cat", "dog"]', ("cat", "dog")),
        ('{"0": "cat", "2": "dog"}', ("cat", "", "dog")),
        ('{"cat": 0, "dog": 1}', ("cat", "dog")),
        ("{0: 'cat, tabby',\n 1: \"driver's dog\"}", ("cat, tabby", "driver's dog")),
        ("['cat', 'dog']", ("cat", "dog")),
        ("{'stride': 32, 'names': {0: 'person', 1: 'bike'}}", ("person", "bike")),
        ("{0: ('n01440764', 'tench'), 1: ('n01443537', 'goldfish')}", ("tench", "goldfish")),
        ('{"0": ["n02123045", "tabby"], "1": ["n02085620", "Chihuahua"]}', ("tabby", "Chihuahua")),
        ('{"task": "detect", "names": {"0": "cat", "1": "dog"}}', ("cat", "dog")),
        ('{"tfjsVersion": "1.3.1", "labels": ["cat", "dog"], "imageSize": 224}', ("cat", "dog")),
        ('{"id2label": {"0": "cat", "1": "dog"}, "label2id": {"cat": 0, "dog": 1}}', ("cat", "dog")),
        ("id,name\r\n0,Aix sponsa\r\n1,Anas crecca\r\n", ("Aix sponsa", "Anas crecca")),
        (",label\n0,cat\n1,dog\n", ("cat", "dog")),
        ('"class_id";"name"\n0;"cat"\n1;"dog"', ("cat", "dog")),
        ("id,name\ncat\ndog", ("id,name", "cat", "dog")),
        ("item {\n  name: \"cat\"\n  id: 1\n}\nitem {\n id: 3\n display_name: 'dog'\n}", ("cat", "", "dog")),
        ('item { id: 0 name: "cat" }', ("cat",)),
    ],
)
def test_usual_formats_are_read(text: str, names: tuple[str, ...]) -> None:
    assert parsed(text) == names


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "at least one label; got none from labels.txt"),
        (b"\n\n", "at least one label"),
        (b"\xff\xfe\x00c", "expected text in UTF-8 in labels.txt"),
        (b"cat\x00dog", "control character 0"),
        (b'["cat", ', "expected JSON in labels.txt"),
        (b'{"cat": "animal"}', "expected labels by class number"),
        (b"{0: {(1, 2): 'cat'}}", "by class number in labels.txt; got .*cat.* as one"),
        (b"{[1]: 'cat'}", "expected JSON in labels.txt"),
        (b"{{}}", "expected JSON in labels.txt"),
        (b"[0x" + b"f" * 9999 + b"]", "expected JSON in labels.txt"),
        (b"{'cat', 'dog'}", "expected JSON in labels.txt"),
        (b"{1.5: 'cat'}", "by class number in labels.txt; got other keys"),
        (b'["cat", null]', "by class number in labels.txt; got null as one"),
        (b'{"classes": {"0": "cat"}}', r'by class number in labels.txt; got {"0": "cat"} as one'),
        (b"names: 7\n", "expected labels by class number under names in labels.txt"),
        (b"names: [cat\n", "expected YAML in labels.txt"),
        (b"names: &a [[*a]]\n", "expected YAML without aliases"),
        (b'names: [!!int ""]\n', "expected YAML in labels.txt"),
        (b"names: [!!timestamp x]\n", "expected YAML in labels.txt"),
        (b"names: [0x" + b"f" * 9999 + b"]\n", "expected integers of at most 64 bits"),
        (b"item { name: 'cat' }", "expected an id and a name"),
        (
            b"0 cat\n1 dog\n1 cow\n2 fox",
            "expected one label for each class in labels.txt; got two for class 1",
        ),
        (b'{"0": "cat", "0": "dog"}', "expected one label for each class in labels.txt; got two for class 0"),
        (
            b'{"0": "cat", "00": "dog"}',
            "expected one label for each class in labels.txt; got two for class 0",
        ),
        (b'{"cat": 3, "dog": 3}', "expected one label for each class in labels.txt; got two for class 3"),
        (b"names: {0: cat, 0: dog}\n", "expected YAML in labels.txt, .*: the key '0' occurs twice"),
        (
            b"names: {0: cat, 00: dog}\n",
            "expected one label for each class in labels.txt; got two for class 0",
        ),
        (b"item { id: 1 name: 'a' } item { id: 1 name: 'b' }", "one label for each class .* two for class 1"),
        (b"names: {yes: cat}\n", "expected labels by class number under names in labels.txt"),
        (b"names: [[cat]]\n", "expected labels by class number under names in labels.txt"),
        (b'{"cat": true}', "expected labels by class number in labels.txt; got true as one"),
        (b"x" * 2000, "at most 1000 characters"),
        (b"9999999 cat", "expected classes from 0 to 65535; got 9999999"),
    ],
)
def test_anything_but_a_file_of_labels_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(LabelsError, match=message):
        parse_labels(data, "labels.txt")


def test_too_few_labels_are_refused_with_both_numbers() -> None:
    with pytest.raises(LabelsError, match=r"expected 21 labels.*; got 2 from labels.txt"):
        parse_labels(b"cat\ndog", "labels.txt").for_classes(21)


def test_the_background_may_be_the_label_that_is_missing() -> None:
    with pytest.raises(LabelsError, match=r"got 2 from .*: if the model's first class is the background, "):
        Labels({0: "cat", 1: "dog"}).for_classes(3)
    with pytest.raises(LabelsError, match=r"got 2 from the model$"):
        Labels({0: "cat", 1: "dog"}).for_classes(4)


def test_too_many_labels_are_refused() -> None:
    with pytest.raises(LabelsError, match=r"expected 1 labels.*; got 2"):
        Labels({0: "cat", 1: "dog"}).for_classes(1)


def test_numbered_labels_may_have_gaps_and_end_early() -> None:
    labels = parse_labels(b"0 person\n17 dog", "labels.txt").for_classes(90)
    assert [labels.name(number) for number in (17, 5, 89)] == ["dog", "", ""]
    with pytest.raises(LabelsError, match="class 90, which the model gives"):
        labels.name(90)


@pytest.mark.parametrize("first", [0, 1])
def test_numbered_labels_without_gaps_are_those_of_another_model(first: int) -> None:
    text = "".join(f"{first + number} name {number}\n" for number in range(80))
    with pytest.raises(
        LabelsError, match=r"expected 90 labels, one for each class of the model; got \d+ from"
    ):
        parse_labels(text.encode(), "labels.txt").for_classes(90)


def test_a_long_list_that_ends_early_is_that_of_another_model() -> None:
    text = "".join(f"{number} name {number}\n" for number in range(90) if number % 9)
    labels = parse_labels(text.encode(), "labels.txt")
    assert labels.for_classes(99).names[89:91] == ("name 89", "")
    with pytest.raises(
        LabelsError, match="expected 100 labels, one for each class of the model; got 90 from"
    ):
        labels.for_classes(100)


def test_coco_is_no_name_of_other_classes() -> None:
    with pytest.raises(LabelsError, match=r"expected 1001 labels.*; got 90 from COCO"):
        LabelTable("coco").labels(1001, None)


def test_labels_of_another_type_are_refused() -> None:
    with pytest.raises(LabelsError, match="expected labels, or a file of them; got int"):
        LabelTable(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["cat\n\ndog", "\ncat\ndog\n", "???\n\ncat\n\n\ndog", "\nbackground\ncat\ndog"]
)
def test_blank_lines_are_no_labels_if_there_are_too_many(text: str) -> None:
    assert parse_labels(text.encode(), "labels.txt").for_classes(2).names == ("cat", "dog")


def test_blank_lines_are_classes_without_a_name_where_the_model_counts_them() -> None:
    assert parse_labels(b"cat\n\ndog", "labels.txt").for_classes(3).names == ("cat", "", "dog")


@pytest.mark.parametrize("first", ["background", "???", "__background__"])
def test_one_label_too_many_is_the_background(first: str) -> None:
    labels = parse_labels(f"{first}\ncat\ndog".encode(), "labels.txt")
    assert labels.for_classes(2).names == ("cat", "dog")
    assert labels.for_classes(3).names == (first, "cat", "dog")


def test_a_class_beyond_all_labels_is_an_error() -> None:
    with pytest.raises(LabelsError, match=r"class 2, which the model gives; got 2 labels"):
        Labels({0: "cat", 1: "dog"}).name(2)


@pytest.mark.parametrize("source", ["/nowhere/labels.txt", Path("/"), "a\0b", ""], ids=repr)
def test_a_file_that_cannot_be_read_is_an_error_with_its_name(source: LabelSource) -> None:
    with pytest.raises(LabelsError, match=r"expected a file of labels, or one of coco, pascal_voc; got '"):
        LabelTable(source)


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    labels = LabelTable(tmp_path / "labels.txt").labels(2, None)
    assert labels is not None
    assert labels.names == ("cat", "dog")


@pytest.mark.parametrize("source", [["cat", "dog"], {0: "cat", 1: "dog"}], ids=["list", "dict"])
def test_names_may_be_given_directly(source: Any) -> None:
    labels = LabelTable(source).labels(2, None)
    assert labels is not None
    assert labels.names == ("cat", "dog")


def test_labels_of_the_model_are_used_where_none_are_given() -> None:
    of_model = Labels({0: "cat", 1: "dog"})
    assert LabelTable(None).labels(2, of_model) is not None
    assert LabelTable(None).labels(5, of_model) is None


def test_coco_counts_as_the_model_does() -> None:
    eighty, ninety = LabelTable("coco").labels(80, None), LabelTable("coco").labels(90, None)
    assert eighty is not None
    assert ninety is not None
    assert (eighty.names[16], ninety.names[17], ninety.names[11]) == ("dog", "dog", "")
    assert (len(eighty.names), len(ninety.names)) == (80, 90)


def test_coco_agrees_with_the_published_file() -> None:
    published = parse_labels(GOLDEN.path("vision/coco_labels.txt").read_bytes(), "coco_labels.txt")
    ours = LabelTable("coco").labels(90, None)
    assert ours is not None
    assert ours.names == tuple(name.replace("n/a", "") for name in published.names)


def test_classes_are_selected_by_label_or_number() -> None:
    chosen = selected_classes(["Dog", 0], Labels({0: "cat", 1: "dog", 2: "cow"}), 3)
    assert chosen is not None
    assert chosen.tolist() == [0, 1]


def test_no_selection_means_all_classes() -> None:
    assert selected_classes((), None, 3) is None


@pytest.mark.parametrize("wanted", ["mouse", "-1", ""])
def test_an_unknown_label_is_refused(wanted: str) -> None:
    with pytest.raises(LabelsError, match=rf"\(cat, dog, ..\); got '{wanted}'"):
        selected_classes([wanted], Labels({0: "cat", 1: "dog"}), 2)


def test_a_number_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(LabelsError, match=r"expected classes below 2, as many as the model has; got 2"):
        selected_classes([2], None, 2)
