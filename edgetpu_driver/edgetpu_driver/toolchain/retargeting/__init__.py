"""Compiled files made into those of other graphs of the same operators and shapes."""
