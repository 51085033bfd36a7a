"""How long tests wait for an expected event."""

PATIENCE = 60.0
"""Time after which a condition that does not hold is an error, s: longer than any working machine needs, and
shorter than pytest's limit for a test."""
