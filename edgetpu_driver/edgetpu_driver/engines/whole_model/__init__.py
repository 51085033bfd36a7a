"""Whole models: what of a compiled model runs where, and running all of it."""
