"""Reads YAML of any origin: plain values without aliases, whose size is bounded by that of the text.

A few lines with aliases stand for billions of values, which come to life when they are written as text; and
PyYAML raises many kinds of errors for tags whose text does not fit them.
"""

from __future__ import annotations

from typing import Any

import yaml

from edgetpu_driver.errors import InputError

_LARGEST_INTEGER = 2**64
"""Uncritical: no field of a message takes more, and Python refuses to write very long integers as text."""


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """SafeLoader without aliases and without integers that no field holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("expected YAML without aliases")
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> int:
        value = int(super().construct_yaml_int(node))
        if abs(value) > _LARGEST_INTEGER:
            raise yaml.YAMLError("expected integers of at most 64 bits")
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
