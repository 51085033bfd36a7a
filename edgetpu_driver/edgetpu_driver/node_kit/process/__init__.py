"""A process of nodes: start, signals, log, memory, end."""
