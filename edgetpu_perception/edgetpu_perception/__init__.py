"""Servo errors, yaw and time to contact from camera images, on an Edge TPU or on the CPU.

The names below are loaded on first use, so that importing the package is fast.

Docstrings of constants name their source: "Derived" is followed by a derivation, "Given" by what fixes the
value, and "Rows" by the figures of `make accuracy` that decide on it (area, case, metric; all metrics of the
case if none is named). "Uncritical": a value larger by a quarter changes no figure of a quick run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgetpu_driver.images.conversion_cache import CameraImage, Region
    from edgetpu_perception.images.pinhole import Pinhole
    from edgetpu_perception.optical_flow.optical_flow import FlowResult, OpticalFlow
    from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult, PatternTracker
    from edgetpu_perception.shared_engine import SharedEngine
    from edgetpu_perception.spot_tracker.spot_tracker import SpotResult, SpotTracker
    from edgetpu_perception.time_to_contact.looming import Looming, LoomingResult
    from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass

__all__ = [
    "CameraImage",
    "FlowResult",
    "HeadingResult",
    "Looming",
    "LoomingResult",
    "MatchResult",
    "OpticalFlow",
    "PatternTracker",
    "Pinhole",
    "Region",
    "SharedEngine",
    "SpotResult",
    "SpotTracker",
    "VisualCompass",
]

_HOME = {
    "CameraImage": "edgetpu_driver.images.conversion_cache",
    "FlowResult": "edgetpu_perception.optical_flow.optical_flow",
    "HeadingResult": "edgetpu_perception.visual_compass.visual_compass",
    "Looming": "edgetpu_perception.time_to_contact.looming",
    "LoomingResult": "edgetpu_perception.time_to_contact.looming",
    "MatchResult": "edgetpu_perception.pattern_tracker.pattern_tracker",
    "OpticalFlow": "edgetpu_perception.optical_flow.optical_flow",
    "PatternTracker": "edgetpu_perception.pattern_tracker.pattern_tracker",
    "Pinhole": "edgetpu_perception.images.pinhole",
    "Region": "edgetpu_driver.images.conversion_cache",
    "SharedEngine": "edgetpu_perception.shared_engine",
    "SpotResult": "edgetpu_perception.spot_tracker.spot_tracker",
    "SpotTracker": "edgetpu_perception.spot_tracker.spot_tracker",
    "VisualCompass": "edgetpu_perception.visual_compass.visual_compass",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
