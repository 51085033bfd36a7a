"""The environment variables that name the profile of Fast DDS."""

from __future__ import annotations

PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
"""Fast DDS 2 and 3 read different variables."""
