"""Fuzzing of parsers, perception algorithms, running nodes, and the order of the driver's threads."""
