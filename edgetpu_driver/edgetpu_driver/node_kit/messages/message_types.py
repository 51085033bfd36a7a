"""Message types by their names."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from edgetpu_driver.node_kit.fatal_error import FatalError

_NAME = re.compile(r"([a-z]\w*)/(?:msg/)?([A-Z]\w*)", re.ASCII)


def message_type(name: str) -> type[Any]:
    """Import a message type by its name, package/msg/Type; FatalError if there is none."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise FatalError(f"expected a message type as package/msg/Type; got '{name}'")
    package, kind = match.groups()
    try:
        found: type[Any] = getattr(import_module(f"{package}.msg"), kind)
    except (ImportError, AttributeError):
        raise FatalError(f"there is no message type {package}/msg/{kind}; is {package} installed?") from None
    return found
