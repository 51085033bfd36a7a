"""Builders of the suite's own graphs, one module each."""
