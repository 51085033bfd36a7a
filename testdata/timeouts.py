"""How long tests wait for what has to come."""

PATIENCE = 60.0
"""Seconds until a condition that does not come true is an error. It is reached on no machine that makes
progress, and shorter than the limit of pytest for a test."""
