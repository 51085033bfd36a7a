"""Reads labels from text in the formats that are usual for TFLite and Coral models.

One label a line, in quotes or not; a class number and a label a line ("16 cat", "16: cat", "16,cat",
"16. cat", "16 - cat"), also below the header of a table (id,name); JSON or a literal of Python, a list or an
object by class number, also as Keras has it ("0": ["n01440764", "tench"]) or under "names", "labels" or
"id2label"; entries of TensorFlow's label maps (item { id: 17 name: "cat" }); or YAML with the key "names", as
data sets and exported models of YOLO have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.plain_yaml import parse_yaml
from edgetpu_vision.errors import LabelsError
from edgetpu_vision.labels.json_or_literal import json_or_literal
from edgetpu_vision.labels.labels import Labels

_NUMBERED = re.compile(r"(\d{1,7})(?:\s*[:,;=)]\s*|\.\s+|\s+-\s+|\s+)(\S.*)")
_NUMBER = re.compile(r"(\d{1,7})\s*[:,;=).]?")
_HEADER = re.compile(r"(\"?)(?:|id|index|number|class|class_?id|label_?id)\1[,;\t]\S.*", re.IGNORECASE)
_ITEM = re.compile(r"item\s*\{([^{}]*)\}")
_ITEM_ID = re.compile(r"\bid\s*:\s*(\d{1,7})\b")
_ITEM_NAMES = tuple(
    re.compile(rf"\b{key}\s*:\s*(?:\"([^\"\n]*)\"|'([^'\n]*)')") for key in ("display_name", "name")
)
_YAML_NAMES = re.compile(r"^names[ \t]*:", re.MULTILINE)
_QUOTED = re.compile(r"\"((?:[^\"]|\"\")*)\"|'([^']*)'")
_LONGEST_YAML = 2**17
"""Longest text, characters. Uncritical: 600 classes take 10 000; PyYAML reads 100 000 a second."""
_KEYS = ("names", "labels", "id2label")
"""Keys of the labels in JSON that describes a whole model: of YOLO, Teachable Machine, Hugging Face."""
_LONGEST_LABEL = 1000
"""Longest label, characters. Uncritical: the longest of ImageNet has 121."""


def parse_labels(data: bytes, source: str) -> Labels:
    """Labels from the content of a file; `source` names it in messages. Raises LabelsError."""
    text = _text(data, source)
    stripped = text.strip()
    if stripped[:1] in ("[", "{"):
        return _json_labels(stripped, source)
    items = _ITEM.findall(text)
    if items:
        return _label_map(items, source)
    if _YAML_NAMES.search(text):
        return _yaml_labels(text, source)
    lines = [line.strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if any(len(line) > _LONGEST_LABEL for line in lines):
        raise LabelsError(f"expected labels of at most {_LONGEST_LABEL} characters in {source}")
    filled = [line for line in lines if line]
    numbered = _numbered_lines(filled)
    if not numbered and filled and _HEADER.fullmatch(filled[0]):
        numbered = _numbered_lines(filled[1:])
    if numbered:
        return Labels(_by_number(numbered, source), source, numbered=True)
    return Labels(dict(enumerate(map(_unquoted, lines))), source)


def _numbered_lines(lines: list[str]) -> list[tuple[int, str]]:
    """Class number and label of each line, "" for a number alone; empty unless lines are numbered.

    The lines are labels, numbers included, if most are numbers alone or if the numbers at their beginning
    repeat (7 up, 7 down). Class numbers start at 0 or 1, and hardly any repeats.
    """
    named = [match for line in lines if (match := _NUMBERED.fullmatch(line))]
    alone = [match for line in lines if (match := _NUMBER.fullmatch(line))]
    found = [*((int(each[1]), _unquoted(each[2])) for each in named), *((int(each[1]), "") for each in alone)]
    numbers = {number for number, _ in found}
    if len(alone) >= len(named) or len(found) != len(lines):
        return []
    mostly_different = min(numbers) <= 1 and len(found) < 2 * len(numbers)
    return found if mostly_different or len(found) == len(numbers) else []


def _by_number(numbered: Iterable[tuple[int, str]], source: str) -> dict[int, str]:
    """Labels by class number; LabelsError for a number with two labels."""
    names: dict[int, str] = {}
    for number, name in numbered:
        if number in names:
            raise LabelsError(
                f"expected one label for each class in {source}; got two for class {number}: "
                f"'{names[number]}' and '{name}'"
            )
        names[number] = name
    return names


def _unquoted(label: str) -> str:
    """A label without the quotes around it; inside, two quotes stand for one, as in CSV."""
    match = _QUOTED.fullmatch(label)
    if match is None:
        return label
    return match[1].replace('""', '"') if match[1] is not None else match[2]


def _text(data: bytes, source: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabelsError(
            f"expected text in UTF-8 in {source}; got {error.reason} at byte {error.start}"
        ) from None
    binary = next((char for char in text if ord(char) < 32 and char not in "\t\r\n\f"), "")
    if binary:
        raise LabelsError(f"expected text in {source}; got the control character {ord(binary)}")
    return text


def _json_labels(text: str, source: str) -> Labels:
    """Labels by class number, or class numbers by label, from the list or object that a text holds."""
    value = _json_value(text, source)
    if isinstance(value, _Pairs):
        described = [part for key, part in value if key in _KEYS and isinstance(part, list)]
        value = described[0] if described else value
    pairs = value if isinstance(value, _Pairs) else list(enumerate(value))
    parts: list[tuple[Any, Any]] = [(key, _keras_label(part)) for key, part in pairs]
    for _, part in parts:
        if not isinstance(part, str | int) or isinstance(part, bool):
            shown = dict(part) if isinstance(part, _Pairs) else part
            shown = json.dumps(shown, default=str, skipkeys=True)[:40]
            raise LabelsError(f"expected labels by class number in {source}; got {shown} as one")
    if not isinstance(value, _Pairs):
        return Labels({number: str(name) for number, name in parts}, source)
    if all(isinstance(part, int) for _, part in parts):  # {"cat": 16}
        return Labels(_by_number(((number, name) for name, number in parts), source), source, numbered=True)
    try:
        numbered = [(int(number), str(name)) for number, name in parts]
    except ValueError:
        raise LabelsError(f"expected labels by class number in {source}; got other keys") from None
    return Labels(_by_number(numbered, source), source, numbered=True)


def _json_value(text: str, source: str) -> list[Any]:
    """The list, or the pairs of the object, that a text holds in JSON or as a literal of Python."""
    try:
        found: list[Any] = json_or_literal(text, _Pairs)
    except ValueError as error:
        raise LabelsError(f"expected JSON in {source}, which begins like JSON: {error}") from None
    return found


def _keras_label(part: Any) -> Any:
    """The label in a pair of WordNet's number and label; anything else as it is."""
    is_pair = isinstance(part, list) and len(part) == 2 and all(isinstance(each, str) for each in part)
    return part[1] if is_pair else part


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of a JSON object, in which a key may occur twice."""


def _yaml_labels(text: str, source: str) -> Labels:
    """The list or mapping by class number under "names"; other keys are ignored."""
    if len(text) > _LONGEST_YAML:
        raise LabelsError(f"expected YAML of at most {_LONGEST_YAML} characters in {source}; got {len(text)}")
    try:
        value: Any = parse_yaml(text, as_text=True)
    except InputError as error:
        raise LabelsError(f"expected YAML in {source}, which has the key names: {error}") from None
    names = value.get("names") if isinstance(value, dict) else None
    if isinstance(names, list):
        names = dict(enumerate(names))
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise LabelsError(f"expected labels by class number under names in {source}")
    try:
        numbered = [(int(number), name) for number, name in names.items()]
    except (TypeError, ValueError):
        raise LabelsError(f"expected labels by class number under names in {source}") from None
    return Labels(_by_number(numbered, source), source, numbered=True)


def _label_map(items: list[str], source: str) -> Labels:
    """Labels by class number as models count, from 0; most label maps count from 1, with 0 as background."""
    numbered = []
    for item in items:
        number = _ITEM_ID.search(item)
        name = next((found for pattern in _ITEM_NAMES if (found := pattern.search(item))), None)
        if number is None or name is None:
            raise LabelsError(f"expected an id and a name in each item of {source}")
        numbered.append((int(number[1]), name[1] if name[1] is not None else name[2]))
    names = _by_number(numbered, source)
    if 0 not in names:
        names = {number - 1: name for number, name in names.items()}
    return Labels(names, source, numbered=True)
