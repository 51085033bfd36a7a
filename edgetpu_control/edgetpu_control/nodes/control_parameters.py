"""Parameters of the control nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgetpu_control.velocity_limits import Deadband, VelocityLimits
from edgetpu_driver.node_kit.parameters import Setting, merge_settings


def live(name: str, default: float, description: str, minimum: float, maximum: float) -> Setting:
    """Make a numeric parameter that can be changed while the node runs."""
    return Setting(name, default, description, minimum, maximum, read_only=False)


def limit_settings(linear: float = 0.5, angular: float = 1.5) -> tuple[Setting, ...]:
    """Return the parameters that limit velocities; linear, angular: default limits, m/s and rad/s."""
    return (
        live("max_linear", linear, "Greatest speed, forward and backward, m/s.", 0.001, 20.0),
        live("max_angular", angular, "Greatest angular velocity, rad/s.", 0.001, 50.0),
        live("linear_acceleration", 2.0, "Greatest change of the speed, m/s^2.", 0.001, 100.0),
        live("angular_acceleration", 6.0, "Greatest change of the angular velocity, rad/s^2.", 0.001, 500.0),
    )


STAMPED = (
    Setting(
        "stamped",
        False,
        "Whether velocities, received and published, are TwistStamped instead of Twist.",
    ),
    Setting("frame_id", "base_link", "Frame of published TwistStamped."),
)
"""The parameters for the type and frame of velocities."""


def deadband_settings(linear: float, angular: float) -> tuple[Setting, ...]:
    """Return the deadband parameters; linear, angular: their defaults, m/s and rad/s."""
    return (
        live("linear_deadband", linear, "Commanded speeds below this count as 0, m/s.", 0.0, 20.0),
        live(
            "angular_deadband",
            angular,
            "Commanded angular velocities below this count as 0, rad/s.",
            0.0,
            50.0,
        ),
    )


def deadband(values: Mapping[str, Any]) -> Deadband:
    """Return the deadband that values of these parameters give."""
    return Deadband(values["linear_deadband"], values["angular_deadband"])


def velocity_limits(values: Mapping[str, Any]) -> VelocityLimits:
    """Return the limits that values of these parameters give."""
    return VelocityLimits(
        values["max_linear"],
        values["max_angular"],
        values["linear_acceleration"],
        values["angular_acceleration"],
    )


def control_settings(*own: Setting) -> tuple[Setting, ...]:
    """Return the parameters of every control node, and those of one."""
    return merge_settings(
        (
            *STAMPED,
            Setting("rate", 30.0, "Velocities published per second, Hz.", 1.0, 1000.0),
            live(
                "timeout",
                0.25,
                "Age from which results and received velocities are not used, by the stamp of the image "
                "or message, s.",
                0.01,
                10.0,
            ),
        ),
        own,
    )
