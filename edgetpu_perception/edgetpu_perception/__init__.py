"""Camera images to servo errors, yaw and time to contact, on an Edge TPU or on the CPU.

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgetpu_perception.camera import Pinhole
    from edgetpu_perception.spot_tracker import SpotResult, SpotTracker

__all__ = ["Pinhole", "SpotResult", "SpotTracker"]

_HOME = {
    "Pinhole": "camera",
    "SpotResult": "spot_tracker",
    "SpotTracker": "spot_tracker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
