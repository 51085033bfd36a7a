"""Builders of the suite's own quantised graphs, one module a family."""
