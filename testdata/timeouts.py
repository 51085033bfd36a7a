"""How long tests wait for an expected event."""

PATIENCE = 60.0
"""Seconds until a condition that does not come true is an error. Longer than any machine that makes progress
needs, and shorter than pytest's limit for a test."""
