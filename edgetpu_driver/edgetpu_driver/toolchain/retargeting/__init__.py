"""Converts the compiled file of one graph to that of another with the same operators and shapes."""
