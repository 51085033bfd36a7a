"""Reads YAML of any origin: plain values without aliases, whose size is bounded by that of the text.

A few lines with aliases stand for billions of values, which come to life when they are written as text; and
PyYAML raises many kinds of errors for tags whose text does not fit them.
"""

from __future__ import annotations

from typing import Any

import yaml

from edgetpu_driver.errors import InputError

_INTEGER_BITS = 64
"""Of unsigned integers, and of signed ones. Given by ROS: no field of a message takes more."""


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """SafeLoader without aliases and without integers that no field holds."""

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


def parse_yaml(text: str | bytes) -> Any:
    """Read the value of one document; InputError for what is no YAML of plain values.

    PyYAML reads 100 000 characters a second, so the caller limits the length.
    """
    try:
        return yaml.load(text, _PlainLoader)
    except Exception as error:  # PyYAML raises many kinds for what a tag does not fit
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"expected YAML of plain values: {reason}") from None
