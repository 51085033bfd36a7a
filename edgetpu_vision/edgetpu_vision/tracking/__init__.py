"""Tracking: the same identifier for the same object in image after image."""
