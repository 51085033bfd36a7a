"""Quantising real weights, locating weights in a compiled model, and the layouts of its parameters."""
