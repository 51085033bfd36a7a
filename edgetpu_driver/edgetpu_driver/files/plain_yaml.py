"""Reads YAML of any origin: plain values without aliases, whose size is bounded by the size of the text.

A few lines with aliases can represent billions of values, which are expanded when they are written as text;
and PyYAML raises many kinds of errors for tags whose text does not fit them.
"""

from __future__ import annotations

from typing import Any

import yaml

from edgetpu_driver.errors import InputError

_INTEGER_BITS = 64
"""Most bits of an integer, signed or unsigned. Given by ROS: no field of a message takes more."""


_MAX_LEVELS = 64
"""Most levels of nesting: the time of PyYAML grows with their square. Usual files have a few."""


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """SafeLoader that refuses aliases, deep nesting, and integers that no message field can hold."""

    def fetch_flow_collection_start(self, token_class: Any) -> None:
        self._check_levels()
        super().fetch_flow_collection_start(token_class)

    def add_indent(self, column: int) -> bool:
        self._check_levels()
        return bool(super().add_indent(column))

    def _check_levels(self) -> None:
        if self.flow_level + len(self.indents) >= _MAX_LEVELS:
            raise yaml.YAMLError(f"expected at most {_MAX_LEVELS} levels")

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("expected YAML without aliases")
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> int:
        value = int(super().construct_yaml_int(node))
        if not -(2 ** (_INTEGER_BITS - 1)) <= value < 2**_INTEGER_BITS:
            raise yaml.YAMLError(f"expected integers of at most {_INTEGER_BITS} bits")
        return value


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_yaml_int)


class _TextLoader(_PlainLoader):
    """_PlainLoader that returns every value as the text in the file, and refuses repeated keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise yaml.YAMLError(f"the key '{key.value}' occurs twice")
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def _as_text(kind: str) -> None:
    """Let _TextLoader read a kind of value, check it as _PlainLoader does, and return its text."""
    tag = f"tag:yaml.org,2002:{kind}"
    construct = _PlainLoader.yaml_constructors[tag]

    def construct_text(loader: _TextLoader, node: Any) -> str:
        construct(loader, node)
        return str(node.value)

    _TextLoader.add_constructor(tag, construct_text)


for _kind in ("bool", "float", "int", "null", "timestamp"):
    _as_text(_kind)


def parse_yaml(text: str | bytes, as_text: bool = False) -> Any:
    """Read the value of one document; InputError for anything but YAML of plain values.

    as_text: leave keys and values as they are written, since YAML 1.1 reads "no" as false and 012 as 10;
    repeated keys are refused then. PyYAML reads 100 000 characters per second, so callers must limit the
    length.
    """
    try:
        return yaml.load(text, _TextLoader if as_text else _PlainLoader)
    except Exception as error:  # PyYAML raises many kinds for text that does not fit its tag
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"expected YAML of plain values: {reason}") from None
