"""Servo errors, yaw and time to contact from camera images, on an Edge TPU or on the CPU.

The names below are loaded on first use, so that importing the package is fast.

Docstrings of constants name their source: "Derived" is followed by a derivation, "Given" by what fixes the
value, and "Rows" by the figures of `make accuracy` that decide on it (area, case, metric; all metrics of the
case if none is named). "Uncritical": a value larger by a quarter changes no figure of a quick run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetpu_driver import lazy_getattr

if TYPE_CHECKING:
    from edgetpu_driver.images.conversion_cache import CameraImage
    from edgetpu_driver.images.region import Region
    from edgetpu_perception.camera_intrinsics import Pinhole
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

__getattr__ = lazy_getattr(
    __name__,
    {
        "CameraImage": "edgetpu_driver.images.conversion_cache",
        "FlowResult": ".optical_flow.optical_flow",
        "HeadingResult": ".visual_compass.visual_compass",
        "Looming": ".time_to_contact.looming",
        "LoomingResult": ".time_to_contact.looming",
        "MatchResult": ".pattern_tracker.pattern_tracker",
        "OpticalFlow": ".optical_flow.optical_flow",
        "PatternTracker": ".pattern_tracker.pattern_tracker",
        "Pinhole": ".camera_intrinsics",
        "Region": "edgetpu_driver.images.region",
        "SharedEngine": ".shared_engine",
        "SpotResult": ".spot_tracker.spot_tracker",
        "SpotTracker": ".spot_tracker.spot_tracker",
        "VisualCompass": ".visual_compass.visual_compass",
    },
)
