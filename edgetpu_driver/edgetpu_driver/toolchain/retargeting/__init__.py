"""Converts the compiled file of a graph for another graph with the same operators and shapes."""
