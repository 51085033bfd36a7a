"""Engines: anything that can run a model."""
