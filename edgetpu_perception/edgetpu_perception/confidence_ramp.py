"""The confidence, 0..1, of a measured quantity between two limits; each algorithm has its own limits."""

from __future__ import annotations


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, linear in between."""
    share = (value - low) / (high - low)
    return 0.0 if share < 0.0 else 1.0 if share > 1.0 else share
