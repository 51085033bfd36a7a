"""A simulated robot that drives by the real graph, on the virtual stick: `make drive`."""
