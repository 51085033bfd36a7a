"""The environment variables that have Fast DDS read a profile."""

from __future__ import annotations

from collections.abc import Mapping

PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
"""Fast DDS 2 and 3 read different variables."""

_ENDPOINTS_FROM_PROFILE = {"RMW_FASTRTPS_USE_QOS_FROM_XML": "1"}
"""Without it rmw_fastrtps overrides what the profile says of the memory of endpoints."""


def profile_settings(profile: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set for a profile, a path; none if the user has chosen another."""
    if any(variable in environment for variable in PROFILE_VARIABLES):
        return {}
    return {**dict.fromkeys(PROFILE_VARIABLES, profile), **_ENDPOINTS_FROM_PROFILE}
