"""Controllers that steer a robot by what its camera measures, without ROS, and a node for each.

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetpu_driver import lazy_getattr

if TYPE_CHECKING:
    from edgetpu_control.contact_guard import ContactGuard, GuardSettings
    from edgetpu_control.distance_filter import Contact
    from edgetpu_control.heading_hold import HeadingHold, HoldGains
    from edgetpu_control.velocity import Velocity
    from edgetpu_control.velocity_limits import VelocityLimits
    from edgetpu_control.visual_servo import ServoGains, Target, VisualServo

__all__ = [
    "Contact",
    "ContactGuard",
    "GuardSettings",
    "HeadingHold",
    "HoldGains",
    "ServoGains",
    "Target",
    "Velocity",
    "VelocityLimits",
    "VisualServo",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "Contact": ".distance_filter",
        "ContactGuard": ".contact_guard",
        "GuardSettings": ".contact_guard",
        "HeadingHold": ".heading_hold",
        "HoldGains": ".heading_hold",
        "ServoGains": ".visual_servo",
        "Target": ".visual_servo",
        "Velocity": ".velocity",
        "VelocityLimits": ".velocity_limits",
        "VisualServo": ".visual_servo",
    },
)
