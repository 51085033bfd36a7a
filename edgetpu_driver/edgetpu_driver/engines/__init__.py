"""Engines: run a graph on the CPU or on a stick, or a whole model on both."""
